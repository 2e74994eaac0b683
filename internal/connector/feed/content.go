package feed

import (
	"crypto/sha256"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/job"
)

// Limits of the API.
const (
	// MaxText bounds a post, in characters.
	MaxText = 5000
	// maxID bounds the platform's ids and cursors, in bytes.
	maxID = 256
)

// content is a post: what every attempt sends alike. Its JSON is the request's body.
type content struct {
	Text     string `json:"text"`
	ReplyTo  string `json:"in_reply_to,omitempty"`
	Language string `json:"language,omitempty"`
}

func read(p *fireoncev1.SocialPost, replyTo string) (content, error) {
	c := content{Text: p.GetText(), ReplyTo: p.GetReplyToId(), Language: p.GetLanguage()}
	switch {
	case len(p.GetMedia()) > 0:
		return c, badPayload(".media", "the connector feed sends text only; media are not supported")
	case p.GetPlatformOptions() != nil:
		return c, &connector.InputError{
			Reason: connector.PayloadMismatch, Field: "payload.social_post", Msg: "the connector feed takes no options of a platform",
		}
	case !utf8.ValidString(c.Text) || utf8.RuneCountInString(c.Text) > MaxText:
		return c, badPayload(".text", "at most 5000 characters of UTF-8")
	case normal(c.Text) == "":
		return c, badPayload(".text", "must not be blank")
	case c.ReplyTo != "" && !validID(c.ReplyTo):
		return c, badPayload(".reply_to_id", "not an id: 1 to 256 bytes without control characters")
	case replyTo != "" && c.ReplyTo != "":
		return c, badPayload(".reply_to_id", "goes not with a job that is replied to")
	case replyTo != "" && !validID(replyTo):
		return c, badPayload("", "the job that is replied to has no id that this platform could know")
	case replyTo != "":
		c.ReplyTo = replyTo
	}
	return c, nil
}

var badPayload = kit.Bad(connector.BadPayload, "payload.social_post")

// normal is a text in the form in which two texts are compared: NFC (UAX #15),
// and each run of white space, ends of lines too, one space. A platform may
// store a text in another form and change its white space, and no more.
func normal(text string) string {
	return strings.Join(strings.Fields(norm.NFC.String(text)), " ")
}

// validID reports whether a text can be an id or a cursor of the platform.
func validID(id string) bool {
	return id != "" && len(id) <= maxID && utf8.ValidString(id) &&
		strings.IndexFunc(id, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) < 0
}

// fingerprint identifies a post among the account's posts: its text in normal form, and
// what it replies to. It is also the key of the content lock, because posts that cannot
// be distinguished must not be in flight at the same time.
func (c content) fingerprint() [sha256.Size]byte {
	return fingerprint(c.Text, c.ReplyTo)
}

func fingerprint(text, replyTo string) [sha256.Size]byte {
	return sha256.Sum256(job.NewCanon().Field(fieldText, []byte(normal(text))).Field(fieldReplyTo, []byte(replyTo)).Bytes())
}

// The fields of the fingerprint, and of the frozen encoding.
const (
	fieldText    = "text"
	fieldReplyTo = "in_reply_to"
)

// fields are the frozen encoding: these, in this order.
func (c *content) fields() []kit.FrozenField {
	return []kit.FrozenField{{Name: fieldText, At: &c.Text}, {Name: fieldReplyTo, At: &c.ReplyTo}, {Name: "language", At: &c.Language}}
}

func (c content) freeze() []byte { return kit.Freeze(job.NewCanon(), c.fields()...).Bytes() }

// thaw reads a frozen post: the bytes come from a database.
func thaw(frozen []byte) (c content, err error) {
	if err := kit.ThawAll(frozen, c.fields()...); err != nil {
		return content{}, err
	}
	if !utf8.ValidString(c.Text) || normal(c.Text) == "" || c.ReplyTo != "" && !validID(c.ReplyTo) {
		return content{}, kit.ErrBadCanon
	}
	return c, nil
}
