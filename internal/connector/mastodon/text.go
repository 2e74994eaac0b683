package mastodon

import (
	"strings"
	"unicode"

	"golang.org/x/net/html"
)

// Rules of this file: a server tells a post's text as HTML, and its source only if it
// can. The source is the text as it was sent. Without it the text is rebuilt from the
// HTML, where links and mentions are shortened and marks may be gone: what is equal is
// the post, what has other words is not, and the rest needs a person.

// likeness is how far a post is like the one that is sought.
type likeness int

const (
	other likeness = iota
	maybe
	same
)

// likeSource compares the source of a post. A server may have changed marks in it, by
// rules of its own.
func (c content) likeSource(text, warning string) likeness { return c.like(text, warning) }

func (c content) like(text, warning string) likeness {
	switch {
	case normal(text) == normal(c.Text) && normal(warning) == normal(c.Warning):
		return same
	case words(text) == words(c.Text) && words(warning) == words(c.Warning):
		return maybe
	}
	return other
}

// likeHTML compares a post whose source the server does not tell.
func (c content) likeHTML(s status) likeness {
	return c.like(plain(s.html), s.warning)
}

// plain gives the text of a post's HTML: paragraphs and line breaks are white space,
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

// words is what no server changes about a text: its words of letters and digits
// alone. Mentions, hashtags, links, shortcodes and everything with a mark inside are
// left out, because servers write them in their own way.
func words(text string) string {
	var out []string
	for _, w := range strings.Fields(normal(text)) {
		if strings.ContainsAny(w, "@#＃") {
			continue
		}
		w = strings.TrimFunc(w, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if w != "" && strings.IndexFunc(w, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }) < 0 {
			out = append(out, strings.ToLower(w))
		}
	}
	return strings.Join(out, " ")
}
