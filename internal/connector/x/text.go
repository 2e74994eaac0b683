package x

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/fireonce/fireonce/internal/twittertext"
)

// Rules of this file. X does not return a text as it was sent:
//
//   - each link is a t.co link, whose target an entity names (expanded_url);
//   - & < > are HTML entities;
//   - the text is in NFC, and its white space may differ;
//   - a reply begins with the names of the accounts that it answers;
//   - a quote may end with a link to the quoted post, a post with pictures with a link
//     to these;
//   - a long text is cut, unless it is requested whole (note_tweet, note_post);
//   - a link's target may have another of its spellings: letters beyond ASCII encoded,
//     or not, a host without a path with a final slash, or without (the same target by
//     RFC 3986, 6.2.3), and X's own site under its other name.
//
// So texts are compared in two forms. Texts that are equal in the strict form are the
// same. Texts that are equal in the loose form only, which keeps no more than letters,
// digits and symbols, may be ours with an undocumented change: that never counts as an
// absence.

var (
	anyLink  = regexp.MustCompile(`(?i)https?://.`)
	schemes  = regexp.MustCompile(`(?i)https?://`)
	short    = regexp.MustCompile(`https?://t\.co/[A-Za-z0-9]+`)
	mentions = regexp.MustCompile(`^(?:@[A-Za-z0-9_]{1,20}(?: |$))+`)
	status   = regexp.MustCompile(`(?i)^https?://(?:[a-z]+\.)?(?:twitter|x)\.com/(?:i/web|[A-Za-z0-9_]+)/status/([0-9]+)`)
	pictured = regexp.MustCompile(`(?i)/status/[0-9]+/(?:photo|video)/[0-9]|pic\.(?:twitter|x)\.com/`)
	unescape = strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">")
	// entities are all that could be escaped, by an undocumented rule.
	entities = strings.NewReplacer("&amp;", "&", "&lt;", "<", "&gt;", ">", "&quot;", `"`, "&#39;", "'", "&apos;", "'")
	encoded  = regexp.MustCompile(`(?:%[0-9A-Fa-f]{2})+`)
	punycode = regexp.MustCompile(`(?i)xn--[a-z0-9-]+`)
	site     = regexp.MustCompile(`(?i)(^|[^\p{L}\p{M}\p{N}_.-])(?:(?:www|mobile)\.)?(?:twitter|x)\.com/`)
)

// normal is the strict form: NFC, each run of white space one space, links
// without their scheme (X adds one to a link that has none) and in one spelling.
func normal(text string) string {
	text = schemes.ReplaceAllString(strings.Join(strings.Fields(spelled(text)), " "), "")
	return site.ReplaceAllString(text, "${1}x.com/")
}

// spelled returns a text in NFC, with letters beyond ASCII in links decoded.
func spelled(text string) string {
	text = encoded.ReplaceAllStringFunc(norm.NFC.String(text), func(code string) string {
		plain, err := url.PathUnescape(code)
		if err != nil || !utf8.ValidString(plain) || strings.IndexFunc(plain, func(r rune) bool {
			return r < utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r)
		}) >= 0 {
			return code
		}
		return plain
	})
	return norm.NFC.String(punycode.ReplaceAllStringFunc(text, func(label string) string {
		if plain, err := idna.Punycode.ToUnicode(strings.ToLower(label)); err == nil {
			return plain
		}
		return label
	}))
}

// form is the strict form of a text of this content, wanted or found: a reply's
// without the names that it begins with.
func (c content) form(text string) string {
	text = normal(bare(text))
	if c.ReplyTo != "" {
		text = mentions.ReplaceAllString(text, "")
	}
	return text
}

// bare returns a text with each link to a host alone without its final slash.
func bare(text string) string {
	var b strings.Builder
	from := 0
	for _, l := range twittertext.Links(text) {
		b.WriteString(text[from:l.From])
		b.WriteString(bareLink(text[l.From:l.To]))
		from = l.To
	}
	return b.String() + text[from:]
}

// bareLink returns a link to a host alone without its final slash, and any other link as it is.
func bareLink(link string) string {
	host, found := strings.CutSuffix(link, "/")
	if found && !strings.ContainsAny(schemes.ReplaceAllString(host, ""), "/?#") {
		return host
	}
	return link
}

// loose keeps of a strict form what X cannot have changed.
func loose(form string) string {
	for next := entities.Replace(form); next != form; next = entities.Replace(form) {
		form = next
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

// words is the loose form of a text without the words that have a link in them.
func words(text string) string {
	return loose(normal(strings.Join(slices.DeleteFunc(strings.Fields(text), func(w string) bool {
		return anyLink.MatchString(w) || len(twittertext.Links(w)) > 0
	}), " ")))
}

// told is a text as X returns it.
type told struct {
	text  string
	links map[string]string // t.co link to its target
}

// rebuild returns the text as it was written. X leaves a t.co link that was written as
// one. open reports whether a link's target is not known.
func (t told) rebuild(want content) (text string, open bool) {
	text = short.ReplaceAllStringFunc(unescape.Replace(t.text), func(link string) string {
		target, known := t.links[link]
		switch {
		case strings.Contains(want.Text, link):
			return link
		case known && !strings.HasSuffix(target, "…"):
			return bareLink(target)
		default:
			open = true
			return link
		}
	})
	return text, open
}

// cut reports whether a text that was rebuilt may go on, and returns the part that is
// there. The last link may lead to the rest.
func cut(text string, open bool) (begin string, ok bool) {
	begin = strings.TrimSpace(text)
	if at := short.FindAllStringIndex(begin, -1); open && len(at) > 0 && at[len(at)-1][1] == len(begin) {
		begin = strings.TrimSpace(begin[:at[len(at)-1][0]])
	}
	return strings.CutSuffix(begin, "…")
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

// last removes the text's last word, and returns the word's target, if it is a link.
func (t told) last() (rest, target string) {
	text := strings.TrimSpace(t.text)
	if text == "" {
		return "", ""
	}
	at := strings.LastIndexAny(text, " \n") + 1
	return strings.TrimSpace(text[:at]), t.links[text[at:]]
}

// names reports whether a reply begins with all the names that it was to begin with. X
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

// likeness is how well a text fits.
type likeness int

const (
	differs likeness = iota
	near             // but for marks
	similar          // a person has to look
	same
)

// like compares a told text with the one that is wanted.
func (t told) like(want content) likeness {
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
		text, open := t.rebuild(want)
		form := want.form(text)
		switch {
		case !open && form == wanted && t.names(want):
			return same
		case open && words(text) == words(want.Text), want.begins(text, open):
			best = similar
		case loose(form) == loose(wanted):
			best = max(best, near)
		}
	}
	return best
}

// begins reports whether a told text is one that is cut, and may go on as the wanted one.
func (c content) begins(text string, open bool) bool {
	const (
		whole = 140 // characters: X has never cut a text that is no longer
		least = 20  // bytes: the beginning has to be this long to mean anything
	)
	begin, ok := cut(text, open)
	if !ok || utf8.RuneCountInString(c.Text) <= whole || len(c.form(begin)) < least {
		return false
	}
	return strings.HasPrefix(loose(c.form(c.Text)), loose(c.form(begin))) || open && strings.HasPrefix(words(c.Text), words(begin))
}
