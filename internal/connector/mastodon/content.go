package mastodon

import (
	"crypto/sha256"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/job"
)

// Limits of the API.
const (
	// MaxText bounds a post with its content warning, in characters. Servers have
	// limits of their own, 500 mostly (limits.go).
	MaxText = 10000
	// maxID bounds a server's ids, in bytes.
	maxID = 64
)

// content is a post: what every attempt sends alike. Its JSON is the request's body.
type content struct {
	Text       string `json:"status"`
	ReplyTo    string `json:"in_reply_to_id,omitempty"`
	Warning    string `json:"spoiler_text,omitempty"`
	Sensitive  bool   `json:"sensitive,omitempty"`
	Visibility string `json:"visibility,omitempty"`
	Language   string `json:"language,omitempty"`
	// MediaIDs are what the server called the files at their upload: not frozen.
	MediaIDs []string `json:"media_ids,omitempty"`

	media []*fireoncev1.MediaRef
}

// direct is the visibility of posts that a list of the account's own may leave out.
const direct = "direct"

var visibilities = map[fireoncev1.MastodonOptions_Visibility]string{
	fireoncev1.MastodonOptions_VISIBILITY_UNSPECIFIED: "",
	fireoncev1.MastodonOptions_VISIBILITY_PUBLIC:      "public",
	fireoncev1.MastodonOptions_VISIBILITY_UNLISTED:    "unlisted",
	fireoncev1.MastodonOptions_VISIBILITY_PRIVATE:     "private",
	fireoncev1.MastodonOptions_VISIBILITY_DIRECT:      direct,
}

var badPayload = kit.Bad(connector.BadPayload, payloadField)

func read(p *fireoncev1.SocialPost, replyTo string) (content, error) {
	o := p.GetMastodon()
	c := content{
		Text: p.GetText(), ReplyTo: p.GetReplyToId(), Warning: o.GetContentWarning(), Sensitive: o.GetSensitive(),
		Language: p.GetLanguage(), media: p.GetMedia(),
	}
	var known bool
	c.Visibility, known = visibilities[o.GetVisibility()]
	switch {
	case p.GetPlatformOptions() != nil && o == nil:
		return c, kit.OtherOptions("Mastodon")
	case !known:
		return c, badPayload(".mastodon.visibility", "not a visibility that this connector knows")
	case !utf8.ValidString(c.Text) || !utf8.ValidString(c.Warning) || utf8.RuneCountInString(c.Text+c.Warning) > MaxText:
		return c, badPayload(".text", "at most 10000 characters of UTF-8, with the content warning")
	case normal(c.Text) == "" && len(c.media) == 0:
		return c, badPayload(".text", "must not be blank")
	case c.ReplyTo != "" && !validID(c.ReplyTo):
		return c, badPayload(".reply_to_id", "must be the id of a post on the account's own server")
	case replyTo != "" && c.ReplyTo != "":
		return c, badPayload(".reply_to_id", "goes not with a job that is replied to")
	case replyTo != "" && !validID(replyTo):
		return c, badPayload("", "the job that is replied to has no id that this server could know")
	case replyTo != "":
		c.ReplyTo = replyTo
	}
	if c.Language != "" {
		tag, err := language.Parse(c.Language)
		if err != nil {
			return c, badPayload(".language", "not a language tag (BCP 47), such as en or pt-BR")
		}
		c.Language = tag.String()
	}
	return c, nil
}

// normal is a text in the form in which two texts are compared: NFC (UAX #15), and
// each run of white space, ends of lines too, one space.
func normal(text string) string {
	return strings.Join(strings.Fields(norm.NFC.String(text)), " ")
}

// validID reports whether a text can be the id of a post or an account: a number on
// Mastodon, a ULID or another word elsewhere.
func validID(id string) bool {
	return id != "" && len(id) <= maxID && strings.IndexFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	}) < 0
}

// fingerprint identifies a post among the account's posts. It is also the key of the
// content lock, because posts that cannot be distinguished must not be in flight at the
// same time.
func (c content) fingerprint() [sha256.Size]byte {
	return sha256.Sum256(job.NewCanon().Field(fieldText, []byte(normal(c.Text))).
		Field(fieldReplyTo, []byte(c.ReplyTo)).Field(fieldWarning, []byte(normal(c.Warning))).
		Field("files", []byte(strconv.Itoa(len(c.media)))).Bytes())
}

// Fields of the fingerprint, and of the frozen encoding.
const (
	fieldText    = "status"
	fieldReplyTo = "in_reply_to_id"
	fieldWarning = "spoiler_text"
)

// fields are the frozen encoding: these, in this order, and then the files.
func (c *content) fields() []kit.FrozenField {
	return []kit.FrozenField{
		{Name: fieldText, At: &c.Text}, {Name: fieldReplyTo, At: &c.ReplyTo}, {Name: fieldWarning, At: &c.Warning},
		{Name: "sensitive", At: &c.Sensitive}, {Name: "visibility", At: &c.Visibility}, {Name: "language", At: &c.Language},
	}
}

func (c content) freeze() []byte {
	return kit.EncodeMedia(kit.Freeze(job.NewCanon(), c.fields()...), c.media).Bytes()
}

// thaw reads a frozen post: the bytes come from a database.
func thaw(frozen []byte) (c content, err error) {
	rest, err := kit.Thaw(frozen, c.fields()...)
	if err != nil {
		return content{}, err
	}
	if c.media, err = kit.DecodeMedia(rest, files.Most); err != nil {
		return content{}, err
	}
	if !utf8.ValidString(c.Text+c.Warning) || normal(c.Text) == "" && len(c.media) == 0 || c.ReplyTo != "" && !validID(c.ReplyTo) {
		return content{}, kit.ErrBadCanon
	}
	return c, nil
}
