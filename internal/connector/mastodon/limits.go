package mastodon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/twittertext"
)

// Rules of this file: a server states its limits (/api/v2/instance, configuration). They are learned
// when it is asked for something else: what it is, or whose a token is. A post above a limit that
// Mastodon stated is refused when it is scheduled. Other servers count in ways of their own, and one
// that was not asked yet has the limits that Mastodon has by default: a post above those is warned of.

// instance is what a server says of itself (https://docs.joinmastodon.org/entities/Instance/).
type instance struct {
	Version string `json:"version"`
	Source  string `json:"source_url"`
	// Characters is where forks, Pleroma and Akkoma state it in their old document.
	Characters    int `json:"max_toot_chars"`
	Configuration struct {
		Statuses struct {
			Characters int  `json:"max_characters"`
			Media      int  `json:"max_media_attachments"`
			PerURL     *int `json:"characters_reserved_per_url"`
		} `json:"statuses"`
		Media struct {
			Types       []string `json:"supported_mime_types"`
			Image       int64    `json:"image_size_limit"`
			Video       int64    `json:"video_size_limit"`
			Description int      `json:"description_limit"`
		} `json:"media_attachments"`
	} `json:"configuration"`
}

// limits are a server's. Zero: not stated.
type limits struct {
	// stated reports whether the server is Mastodon, and stated them: they hold.
	stated bool
	// characters bounds a post with its warning, in which a link counts perURL; 0: its own.
	characters, perURL int
	files, description int
	types              []string
	image, video       int64 // bytes of a file
}

// usual are Mastodon's own, by default (docs.joinmastodon.org/user/posting, and its source).
var usual = limits{characters: 500, perURL: 23, files: 4, description: 1500}

// limitsLast is how long a server's limits are cached.
const limitsLast = 24 * time.Hour

// limits returns those that a server stated.
func (i instance) limits() limits {
	s, m := i.Configuration.Statuses, i.Configuration.Media
	out := limits{
		stated: i.isMastodon(), characters: cmp.Or(s.Characters, i.Characters), files: s.Media, description: m.Description, types: m.Types, image: m.Image, video: m.Video,
	}
	if s.PerURL != nil {
		out.perURL = *s.PerURL
	}
	return out
}

func (i instance) isMastodon() bool {
	return ownVersion.MatchString(i.Version) && ownSource.MatchString(i.Source)
}

// learn reads a server's limits, if they are not known. It fails without a trace: nothing depends on it.
func (c *Connector) learn(ctx context.Context, a account) {
	if _, known := c.limits.Get(a.base.String()); !known {
		_, _, _ = c.readInstance(ctx, a)
	}
}

// readInstance asks a server what it is, and keeps its limits.
func (c *Connector) readInstance(ctx context.Context, a account) (i instance, there bool, err error) {
	there, err = c.tell(ctx, a, "/api/v2/instance", &i)
	c.keepLimits(a, i)
	return i, there, err
}

// keepLimits caches what a document states, if it states how long a post may be.
func (c *Connector) keepLimits(a account, i instance) {
	if l := i.limits(); l.characters > 0 {
		c.limits.Put(a.base.String(), l)
	}
}

// Limits implements connector.Limiter.
func (c *Connector) Limits(r connector.Request) ([]connector.Over, error) {
	p, err := kit.ReadPayload(r, "the connector mastodon sends social posts", PayloadKind)
	if err != nil {
		return nil, err
	}
	s, err := c.ReadSettings(r.Settings)
	if err != nil {
		return nil, err
	}
	post, err := read(p.GetSocialPost(), r.ReplyTo)
	if err != nil {
		return nil, err
	}
	l, known := c.limits.Get(s.base.String())
	if !known {
		l = usual
	}
	over := l.exceeded(post, known)
	if l.stated && len(over) > 0 {
		return nil, badPayload(strings.TrimPrefix(over[0].Field, payloadField), over[0].Msg)
	}
	return over, nil
}

const payloadField = "payload.social_post"

// exceeded returns the limits that a post exceeds.
func (l limits) exceeded(post content, known bool) (out []connector.Over) {
	whose := "this server takes"
	if !known {
		whose = "most servers take"
	}
	add := func(field, msg string, args ...any) {
		out = append(out, connector.Over{Field: payloadField + field, Msg: fmt.Sprintf(msg, args...)})
	}
	if n := counted(post, l.perURL); l.characters > 0 && n > l.characters {
		add(".text", "%s at most %d characters, and this has %d with the content warning; %s", whose, l.characters, n, l.howCounted())
	}
	if n := len(post.media); l.files > 0 && n > l.files {
		add(".media", "%s at most %d files in a post", whose, l.files)
	}
	for i, ref := range post.media {
		if t := strings.ToLower(ref.GetMediaType()); t != "" && len(l.types) > 0 && !slices.Contains(l.types, t) {
			add(fmt.Sprintf(".media[%d].media_type", i), "%s no files of this type", whose)
		}
		if n := utf8.RuneCountInString(ref.GetAltText()); l.description > 0 && n > l.description {
			add(fmt.Sprintf(".media[%d].alt_text", i), "%s at most %d characters, and this has %d", whose, l.description, n)
		}
	}
	return out
}

func (l limits) howCounted() string {
	if l.perURL == 0 {
		return "a mention counts without its server"
	}
	return fmt.Sprintf("a link counts %d, a mention without its server", l.perURL)
}

// most is how many bytes a file of a media type may have; 0: not known.
func (l limits) most(mediaType string) int64 {
	if strings.HasPrefix(mediaType, "image/") {
		return l.image
	}
	return l.video
}

// counted is a post's length as Mastodon counts it: in graphemes, a link as perURL of them, if that is
// stated, and a mention without the server's name.
func counted(post content, perURL int) int {
	n := 0
	for all := graphemes.FromString(post.Warning + countable(post.Text, perURL)); all.Next(); {
		n++
	}
	return n
}

// countable is a text with its links and mentions as they are counted.
func countable(text string, perURL int) string {
	if perURL > 0 {
		var b strings.Builder
		from := 0
		for _, l := range twittertext.Addresses(text) {
			b.WriteString(text[from:l.From])
			b.WriteString(strings.Repeat("x", min(perURL, MaxText)))
			from = l.To
		}
		text = b.String() + text[from:]
	}
	return elsewhere.ReplaceAllString(text, "${1}@${2}")
}

// mediaRule is what a server takes of a file, as far as it is known.
func (c *Connector) mediaRule(a account, ref *fireoncev1.MediaRef) kit.MediaRule {
	rule := files
	l, known := c.limits.Get(a.base.String())
	if !known || !l.stated {
		return rule
	}
	most := max(l.image, l.video)
	if t := strings.ToLower(ref.GetMediaType()); t != "" {
		most = l.most(t)
	}
	if most > 0 {
		rule.Bytes = min(rule.Bytes, most)
	}
	return rule
}
