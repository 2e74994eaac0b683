package bluesky

import (
	"cmp"
	"context"
	"io"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/weburl"
)

// Rules of this file: a post's card is its own, with all that it shows, or is made of the page of its
// first link, read before each attempt under the rules for media: the server's egress policy, and
// bounds. A page that cannot be read, in time or at all, costs the card and never the post. Two
// attempts may make two cards, as they may upload two images: the server refuses the second record
// if the first one is there, which the connector then finds by its text.

// external is the card of a post (lexicon app.bsky.embed.external).
type external struct {
	URI         string `json:"uri"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Thumb       any    `json:"thumb,omitempty"`
}

const (
	// cardTime bounds the reading of a page and of its picture.
	cardTime = 15 * time.Second
	// maxPage bounds a page that is fetched, maxHead the part of it that is read, in bytes.
	maxPage = 4 << 20
	maxHead = 1 << 20
	// maxTitle and maxDescription bound what a card takes of a page, in characters.
	maxTitle       = 300
	maxDescription = 1000
)

// readCard reads a post's options of its card.
func (q *post) readCard(o *fireoncev1.BlueskyOptions) error {
	card := o.GetCard()
	switch {
	case card == nil:
		if !o.GetNoCard() && len(q.media) == 0 && q.record.Embed == nil {
			q.link = firstLink(q.record.Facets)
		}
		return nil
	case len(q.media) > 0:
		return badPayload(".bluesky.card", "goes not with media: a post has images or a card")
	case strings.TrimSpace(card.GetTitle()) == "":
		return badPayload(".bluesky.card.title", "must not be blank")
	}
	page, err := weburl.ParsePage(card.GetUrl())
	if err != nil {
		return badPayload(".bluesky.card.url", err.Error())
	}
	q.card = external{URI: page.String(), Title: card.GetTitle(), Description: card.GetDescription()}
	if thumb := card.GetThumb(); thumb != nil {
		q.media = []*fireoncev1.MediaRef{thumb}
	}
	return nil
}

// badMedia names the field of a file that is not usable.
func (q *post) badMedia() kit.BadInput {
	if q.card.URI == "" {
		return badPayload
	}
	return func(field, msg string) *connector.InputError {
		return badPayload(".bluesky.card.thumb"+strings.TrimPrefix(strings.TrimPrefix(field, ".media"), "[0]"), msg)
	}
}

// firstLink returns the first link of a text; empty: it has none.
func firstLink(facets []facet) string {
	for _, f := range facets {
		if link := f.Features[0].URI; link != "" {
			return link
		}
	}
	return ""
}

func withoutFragment(uri string) string {
	before, _, _ := strings.Cut(uri, "#")
	return before
}

// ownCard makes the card that a post came with.
func (c *Connector) ownCard(ctx context.Context, in login, q *post) (*embed, error) {
	card := q.card
	if len(q.media) > 0 {
		blob, err := c.upload(ctx, in, q.media[0])
		if err != nil {
			return nil, err
		}
		card.Thumb = blob
	}
	return &embed{Type: typeCard, External: &card}, nil
}

// foundCard makes a card of a page; nil: there is none to make.
func (c *Connector) foundCard(ctx context.Context, in login, link string) *embed {
	at, err := transport.ParseURL(withoutFragment(link))
	if link == "" || err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cardTime)
	defer cancel()
	p, ok := c.readPage(ctx, at)
	if !ok {
		return nil
	}
	card := &external{URI: link, Title: p.title, Description: p.description}
	if picture, err := at.Parse(p.picture); err == nil && p.picture != "" {
		if blob, err := c.upload(ctx, in, &fireoncev1.MediaRef{Url: picture.String()}); err == nil {
			card.Thumb = blob
		}
	}
	return &embed{Type: typeCard, External: card}
}

// page is what a page says of itself.
type page struct{ title, description, picture string }

// readPage fetches a page, and reads its head.
func (c *Connector) readPage(ctx context.Context, at *url.URL) (page, bool) {
	asset, err := c.cfg.Media.Fetch(ctx, &fireoncev1.MediaRef{Url: at.String()}, maxPage)
	if err != nil {
		return page{}, false
	}
	defer asset.Close()
	if asset.Type != "text/html" && asset.Type != "application/xhtml+xml" {
		return page{}, false
	}
	p := pageOf(io.LimitReader(asset.Reader(), maxHead))
	return p, p.title != ""
}

// pageOf reads the head of a page: what it says for cards (https://ogp.me), or else to all. Its text
// is UTF-8; what is not, is not shown.
func pageOf(r io.Reader) page {
	said := make(map[string]string)
	z := html.NewTokenizer(r)
	z.SetMaxBuf(maxHead)
	title := ""
	for inTitle := false; ; {
		switch z.Next() {
		case html.ErrorToken:
			return cardOf(said, title)
		case html.TextToken:
			if inTitle && title == "" {
				title = string(z.Text())
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			inTitle = string(name) == "title"
			switch string(name) {
			case "body":
				return cardOf(said, title)
			case "meta":
				readMeta(z, more, said)
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			if inTitle = false; string(name) == "head" {
				return cardOf(said, title)
			}
		default:
		}
	}
}

// readMeta reads a meta element. The first of a name counts.
func readMeta(z *html.Tokenizer, more bool, said map[string]string) {
	var name, content string
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "property", "name":
			name = strings.ToLower(string(value))
		case "content":
			content = string(value)
		}
	}
	if _, there := said[name]; !there && len(said) < 256 {
		said[name] = content
	}
}

func cardOf(said map[string]string, title string) page {
	return page{
		title:       shown(cmp.Or(said["og:title"], said["twitter:title"], title), maxTitle),
		description: shown(cmp.Or(said["og:description"], said["twitter:description"], said["description"]), maxDescription),
		picture:     strings.TrimSpace(cmp.Or(said["og:image"], said["og:image:url"], said["twitter:image"])),
	}
}

// shown is a page's text on a card: on one line, and of bounded length.
func shown(text string, most int) string {
	if !utf8.ValidString(text) {
		return ""
	}
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return strings.TrimSpace(string([]rune(text)[:most-1])) + "…"
}
