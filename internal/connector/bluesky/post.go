package bluesky

import (
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/text/language"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/job"
)

// Limits of a post (lexicon app.bsky.feed.post).
const (
	// MaxGraphemes and MaxBytes bound the text.
	MaxGraphemes = 300
	MaxBytes     = 3000
	// maxURI bounds an AT URI, in bytes.
	maxURI = 512
)

const collection = "app.bsky.feed.post"

// record is a post as the repository keeps it. Its fields are encoded in this order.
type record struct {
	Type    string      `json:"$type"`
	Text    string      `json:"text"`
	Facets  []facet     `json:"facets,omitempty"`
	Reply   *reply      `json:"reply,omitempty"`
	Embed   *embed      `json:"embed,omitempty"`
	Langs   []string    `json:"langs,omitempty"`
	Labels  *selfLabels `json:"labels,omitempty"`
	Created string      `json:"createdAt"`
}

// strongRef names a record and its content.
type strongRef struct {
	URI string `json:"uri"`
	CID string `json:"cid"`
}

// reply names the thread and the post that is answered.
type reply struct {
	Root   strongRef `json:"root"`
	Parent strongRef `json:"parent"`
}

type selfLabels struct {
	Type   string      `json:"$type"`
	Values []selfLabel `json:"values"`
}

type selfLabel struct {
	Val string `json:"val"`
}

// post is the part that is the same at every attempt: a record and its key. The URI
// identifies the post that it answers; the CID that goes with the URI is read before
// each attempt.
type post struct {
	key     string
	record  record
	replyTo string
	// media are the post's images, or the picture of its own card.
	media []*fireoncev1.MediaRef
	card  external // the post's own; without a URI: none
	link  string   // the page that a card may be made of; empty: none
}

var badPayload = kit.Bad(connector.BadPayload, "payload.social_post")

func read(p *fireoncev1.SocialPost, r connector.Request) (post, error) {
	q := post{key: keyOf(r.EffectKey), replyTo: p.GetReplyToId(), media: p.GetMedia()}
	text := p.GetText()
	switch {
	case p.GetPlatformOptions() != nil && p.GetBluesky() == nil:
		return q, kit.OtherOptions("Bluesky")
	case !utf8.ValidString(text) || len(text) > MaxBytes:
		return q, badPayload(".text", "at most 3000 bytes of UTF-8")
	case graphemesIn(text) > MaxGraphemes:
		return q, badPayload(".text", "at most 300 characters")
	case strings.TrimSpace(text) == "" && len(q.media) == 0:
		return q, badPayload(".text", "must not be blank")
	case r.ReplyTo != "" && q.replyTo != "":
		return q, badPayload(".reply_to_id", "goes not with a job that is replied to")
	case r.ReplyTo != "" && !postURI().MatchString(r.ReplyTo):
		return q, badPayload("", "the job that is replied to has no id that this platform could know")
	case q.replyTo != "" && !postURI().MatchString(q.replyTo):
		return q, badPayload(".reply_to_id", "must be a post's AT URI, at://ACCOUNT/app.bsky.feed.post/KEY")
	case r.ReplyTo != "":
		q.replyTo = r.ReplyTo
	}
	q.record = record{Type: collection, Text: text, Facets: facetsOf(text), Created: created(r)}
	if lang := p.GetLanguage(); lang != "" {
		if _, err := language.Parse(lang); err != nil {
			return q, badPayload(".language", "not a language tag (BCP 47), such as en or pt-BR")
		}
		q.record.Langs = []string{lang}
	}
	return q, q.options(p.GetBluesky())
}

// postURI is a post's AT URI: its authority is a DID or a handle
// (https://atproto.com/specs/at-uri-scheme). Compiling its large counts takes 2 ms, too long for
// every start of the program.
var postURI = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^at://[a-zA-Z0-9.:%_-]{3,253}/app\.bsky\.feed\.post/[a-zA-Z0-9._:~-]{1,128}$`)
})

// created is when the job is due. The network sorts posts by it, and a post that was
// scheduled long before must not appear as an old one. Every attempt sends the same
// time.
func created(r connector.Request) string {
	at := r.Due
	if at.IsZero() {
		at = time.UnixMicro(rangeStart) // a request that is only checked has no time yet
	}
	return at.UTC().Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000Z")
}

func (q *post) options(o *fireoncev1.BlueskyOptions) error {
	if (o.GetQuoteUri() == "") != (o.GetQuoteCid() == "") {
		return badPayload(".bluesky", "quote_uri and quote_cid go together")
	}
	if uri := o.GetQuoteUri(); uri != "" {
		if len(uri) > maxURI || !strings.HasPrefix(uri, "at://") || strings.TrimFunc(uri, visible) != "" {
			return badPayload(".bluesky.quote_uri", "must be an AT URI of at most 512 bytes")
		}
		ref, err := json.Marshal(strongRef{URI: uri, CID: o.GetQuoteCid()})
		if err != nil {
			return badPayload(".bluesky", "cannot be encoded")
		}
		q.record.Embed = &embed{Type: typeQuote, Record: ref}
	}
	if err := q.readCard(o); err != nil {
		return err
	}
	if len(o.GetSelfLabels()) > 0 {
		q.record.Labels = &selfLabels{Type: "com.atproto.label.defs#selfLabels"}
		for _, l := range o.GetSelfLabels() {
			q.record.Labels.Values = append(q.record.Labels.Values, selfLabel{Val: l})
		}
	}
	return nil
}

func visible(r rune) bool { return r > ' ' && r < 0x7f }

// fields are the frozen encoding: these, in this order, and then the images.
func (q *post) fields(encoded *[]byte) []kit.FrozenField {
	return []kit.FrozenField{{Name: "rkey", At: &q.key}, {Name: "record", At: encoded}, {Name: "reply_to", At: &q.replyTo},
		{Name: "card", At: &q.card.URI}, {Name: "card_title", At: &q.card.Title}, {Name: "card_description", At: &q.card.Description}, {Name: "link", At: &q.link}}
}

func (q post) freeze() ([]byte, error) {
	encoded, err := json.Marshal(q.record)
	if err != nil {
		return nil, err
	}
	return kit.EncodeMedia(kit.Freeze(job.NewCanon(), q.fields(&encoded)...), q.media).Bytes(), nil
}

// thaw reads a frozen post: the bytes come from a database.
func thaw(frozen []byte) (post, error) {
	var q post
	var encoded []byte
	rest, err := kit.Thaw(frozen, q.fields(&encoded)...)
	if err != nil || json.Unmarshal(encoded, &q.record) != nil {
		return post{}, kit.ErrBadCanon
	}
	if q.media, err = kit.DecodeMedia(rest, MaxImages); err != nil {
		return post{}, err
	}
	if !validTID(q.key) || q.record.Type != collection || q.replyTo != "" && !postURI().MatchString(q.replyTo) {
		return post{}, kit.ErrBadCanon
	}
	return q, nil
}

// commit is the body of the commit request. swapRecord null demands an empty key: the
// server leaves the same record there alone, refuses another one, and overwrites
// nothing.
func (q post) commit(did string) any {
	return struct {
		Repo       string  `json:"repo"`
		Collection string  `json:"collection"`
		Key        string  `json:"rkey"`
		Record     record  `json:"record"`
		Swap       *string `json:"swapRecord"`
	}{Repo: did, Collection: collection, Key: q.key, Record: q.record}
}

// uri is where the post is in the account's repository.
func (q post) uri(did string) string { return "at://" + did + "/" + collection + "/" + q.key }

// page is where a person sees it.
func (q post) page(did string) string { return "https://bsky.app/profile/" + did + "/post/" + q.key }

// same reports whether a stored record is this post. The record is at our key, which
// follows from the client's own key and which no other client derives. Two things may
// differ: what the network adds between two attempts (another CID of the post that is
// answered), and the time, because a job that was submitted without a time, and again
// after the database was lost, gets a new one.
func (q post) same(stored kept) bool {
	return stored.Text == q.record.Text && (stored.Reply != nil) == (q.replyTo != "")
}
