package mastodon

import (
	"maps"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/net/html"
)

// Rules of this file: a server returns a post's text as HTML, and its source only if it
// can. The source is the text as it was sent. Without it the text is rebuilt from the
// HTML, where links and mentions are shortened and marks may be gone. A post with the
// same text is ours, a post with other words is not. A post that differs only in its
// marks needs a person, unless another post is equal.

// likeness is how far a post is like the one that is sought.
type likeness int

const (
	other likeness = iota
	near           // but for its marks
	maybe          // its words of then are not known
	same
)

// likeSource compares the source of a post. A server may have changed marks in it, by
// rules of its own, but it returns links whole: a post whose links lead elsewhere is
// another post.
func (c content) likeSource(text, warning string) likeness {
	like := c.like(text, warning)
	if like == near && !maps.Equal(targets(text), targets(c.Text)) {
		return other
	}
	return like
}

// links reads a text in normal form, in which each blank is a space.
var links = regexp.MustCompile(`(?i)https?://[^ <>()\[\]"]+`)

// targets returns a text's links, without their marks.
func targets(text string) map[string]bool {
	out := make(map[string]bool)
	for _, link := range links.FindAllString(normal(text), -1) {
		out[letters(link)] = true
	}
	return out
}

func (c content) like(text, warning string) likeness {
	switch {
	case normal(c.Text) == "" && warning == "" && normal(text) == normal(c.Warning):
		return same // Mastodon makes the warning the text of a post that has none
	case normal(text) == normal(c.Text) && normal(warning) == normal(c.Warning):
		return same
	case words(text) == words(c.Text) && words(warning) == words(c.Warning):
		return near
	}
	return other
}

// likeHTML compares a post whose source the server does not tell.
func (c content) likeHTML(s status) likeness {
	return c.like(plain(s.html), s.warning)
}

// plain returns the text of a post's HTML: paragraphs and line breaks are white space,
// tags are nothing, and what is hidden from readers (a link's scheme) counts.
func plain(source string) string {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(source))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return b.String()
		case html.TextToken:
			b.WriteString(string(z.Text()))
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			switch string(name) {
			case "p", "br", "div", "li", "ul", "ol", "blockquote", "pre", "h1", "h2", "h3", "h4", "h5", "h6":
				b.WriteByte('\n')
			}
		default:
		}
	}
}

// Servers write these in ways of their own: the target of a link in Markdown, a picture,
// a tag, an entity, an emoji's name, the number of a list's item. A name has a letter,
// so that no time of day is one.
var (
	markup = regexp.MustCompile(`!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)|\]\([^)\s]*|</?[A-Za-z][^>]*>|&[A-Za-z0-9#]+;|:[A-Za-z0-9_+-]*[A-Za-z_][A-Za-z0-9_+-]*:`)
	// fence begins a block of code, and names its language.
	fence  = regexp.MustCompile("(?m)^[\\s\\pZ]*(?:`{3,}[^`\\n]*|~{3,}[^\\n]*)$")
	inList = regexp.MustCompile(`^[0-9]{1,9}[.)]$`)
	// address is a mention, a hashtag, an e-mail address, or what may become a link. It
	// has no run of dots, and a server may return such a run as one sign.
	address = regexp.MustCompile(`[@#＃/]|(?:^|[^.])\.\p{L}`)
)

// elsewhere is a mention of an account on another server, as Mastodon's client counts it.
var elsewhere = regexp.MustCompile(`(^|[^/0-9A-Za-z_])@([0-9A-Za-z_]+)@[0-9A-Za-z.-]+[0-9A-Za-z]`)

// words is the part of a text that no server changes: its letters and digits, without
// marks and gaps, and without what servers write in their own way. Omitting more makes
// more texts alike, which costs a person's time; keeping a part that a server changes
// proves a false absence.
func words(text string) string {
	var b strings.Builder
	for _, w := range strings.Fields(markup.ReplaceAllString(normal(fence.ReplaceAllString(text, "")), "")) {
		if address.MatchString(w) || inList.MatchString(w) {
			continue
		}
		b.WriteString(letters(w))
	}
	return b.String()
}

// letters keeps letters and digits alone.
func letters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}
