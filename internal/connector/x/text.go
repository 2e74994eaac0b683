package x

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Rules of this file. X does not give a text back as it got it:
//
//   - each link is a t.co link, whose target an entity names (expanded_url);
//   - & < > are HTML entities;
//   - the text is in NFC, and its white space may be another;
//   - a reply begins with the names of those who are answered;
//   - a quote may end with a link to what is quoted, a post with pictures with one to
//     these;
//   - a long text is cut, unless it is asked for whole (note_tweet, note_post).
//
// So two texts are compared in forms. Alike in the strict form is the same text.
// Alike in the loose one only, which keeps no more than letters, digits and
// symbols, may be ours with a change that nobody has told us of: that is never
// taken for an absence.

var (
	anyLink  = regexp.MustCompile(`(?i)https?://\S+`)
	schemes  = regexp.MustCompile(`(?i)https?://`)
	short    = regexp.MustCompile(`https?://t\.co/[A-Za-z0-9]+`)
	mentions = regexp.MustCompile(`^(?:@[A-Za-z0-9_]{1,20}(?: |$))+`)
	status   = regexp.MustCompile(`(?i)^https?://(?:[a-z]+\.)?(?:twitter|x)\.com/(?:i/web|[A-Za-z0-9_]+)/status/([0-9]+)`)
	pictured = regexp.MustCompile(`(?i)/status/[0-9]+/(?:photo|video)/[0-9]+$`)
	unescape = strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">")
)

// normal is the strict form: NFC, each run of white space one space, links
// without their scheme (X adds one to a link that has none).
func normal(text string) string {
	return schemes.ReplaceAllString(strings.Join(strings.Fields(norm.NFC.String(text)), " "), "")
}

// form is the strict form of a text of this content, wanted or found: a reply's
// without the names that it begins with.
func (c content) form(text string) string {
	text = normal(text)
	if c.ReplyTo != "" {
		text = mentions.ReplaceAllString(text, "")
	}
	return text
}

// loose keeps of a strict form what X cannot have changed.
func loose(form string) string {
	for strings.Contains(form, "&amp;") {
		form = unescape.Replace(form)
	}
	kept := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsSymbol(r) {
			return r
		}
		return -1
	}, cases.Fold().String(norm.NFKC.String(form)))
	if kept == "" {
		return form
	}
	return kept
}

// words is the loose form of a text without its links.
func words(text string) string {
	text = anyLink.ReplaceAllString(text, " ")
	var b strings.Builder
	from := 0
	for _, l := range links(text) {
		b.WriteString(text[from:l.from])
		from = l.to
	}
	b.WriteString(text[from:])
	return loose(normal(b.String()))
}

// told is a text as X tells it.
type told struct {
	text  string
	links map[string]string // t.co link to its target
}

// rebuild gives the text as it was written. X leaves a t.co link that was written as
// one. open tells that a link's target is not known, cut that the text goes on.
func (t told) rebuild(want content) (text string, open, cut bool) {
	text = short.ReplaceAllStringFunc(unescape.Replace(t.text), func(link string) string {
		target, known := t.links[link]
		switch {
		case strings.Contains(want.Text, link):
			return link
		case known && !strings.HasSuffix(target, "…"):
			return target
		default:
			open = true
			return link
		}
	})
	bare := strings.TrimSpace(text)
	if open { // of a text that is cut, the last link leads to the rest
		if at := short.FindAllStringIndex(bare, -1); len(at) > 0 && at[len(at)-1][1] == len(bare) {
			bare = strings.TrimSpace(bare[:at[len(at)-1][0]])
		}
	}
	if strings.HasSuffix(bare, "…") && !strings.HasSuffix(strings.TrimSpace(want.Text), "…") {
		return strings.TrimSuffix(bare, "…"), open, true
	}
	return text, open, false
}

// bare is the text without the link that it ends with, if that leads to what it quotes
// or to its pictures.
func (t told) bare(want content) (told, bool) {
	rest, target := t.last()
	m := status.FindStringSubmatch(target)
	if m == nil || (want.Quote == "" || m[1] != want.Quote) && (len(want.Pictures) == 0 || !pictured.MatchString(target)) {
		return t, false
	}
	return told{text: rest, links: t.links}, true
}

// last takes off the text's last word, and gives where it leads to, if it is a link.
func (t told) last() (rest, target string) {
	text := strings.TrimSpace(t.text)
	if text == "" {
		return "", ""
	}
	at := strings.LastIndexAny(text, " \n") + 1
	return strings.TrimSpace(text[:at]), t.links[text[at:]]
}

// names tells whether a reply begins with all the names that it was to begin with. X
// adds those who are answered.
func (t told) names(want content) bool {
	if want.ReplyTo == "" {
		return true
	}
	there := strings.Fields(strings.ToLower(mentions.FindString(normal(t.text))))
	for _, name := range strings.Fields(strings.ToLower(mentions.FindString(normal(want.Text)))) {
		if !slices.Contains(there, name) {
			return false
		}
	}
	return true
}

// likeness says how well a text fits.
type likeness int

const (
	differs likeness = iota
	similar          // a person has to look
	same
)

// like compares a told text with the one that is wanted.
func (t told) like(want content) likeness {
	// The cut text's prefix has to be this long to mean anything.
	const least = 20
	best := differs
	texts := []told{t}
	for bare, ok := t.bare(want); ok; bare, ok = bare.bare(want) {
		texts = append(texts, bare)
	}
	if rest, link := t.last(); status.MatchString(link) && strings.HasSuffix(rest, "…") {
		texts = append(texts, told{text: rest, links: t.links}) // cut, and the link leads to the rest
	}
	wanted := want.form(want.Text)
	for _, t := range texts {
		text, open, cut := t.rebuild(want)
		form := want.form(text)
		switch {
		case !open && !cut && form == wanted && t.names(want):
			return same
		case cut && len(form) >= least && strings.HasPrefix(loose(wanted), loose(form)),
			!cut && loose(form) == loose(wanted),
			open && !cut && words(text) == words(want.Text):
			best = similar
		}
	}
	return best
}
