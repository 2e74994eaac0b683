package x

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/twittertext"
)

// Limits of X.
const (
	// MaxWeight bounds a post, in weighted characters (internal/twittertext).
	MaxWeight = 280
	// MaxLong bounds a post of an account with long posts, in characters.
	MaxLong = 25_000
	// MaxMessage bounds a direct message, in characters.
	MaxMessage = 10_000
	// MaxPicture bounds a picture, in bytes, and MaxAlt its description, in characters.
	MaxPicture = 5 << 20
	MaxAlt     = 1000
)

// snowflake is the form of X's ids: 64 bits without a sign, in decimal.
var snowflake = regexp.MustCompile(`^[1-9][0-9]{0,18}$`)

// content is a post or a direct message: what every attempt sends alike.
type content struct {
	Text string
	// ReplyTo and Quote are posts, ReplySettings what the API calls those who may
	// reply; of posts only.
	ReplyTo, Quote, ReplySettings string
	// Recipient is the user that a direct message goes to; empty: it is a post.
	Recipient string
	// Pictures are a post's, in the order shown.
	Pictures []*fireoncev1.MediaRef
}

// replySettings are the API's names. Everyone is its default, and not sent.
var replySettings = map[fireoncev1.XOptions_ReplySettings]string{
	fireoncev1.XOptions_REPLY_SETTINGS_UNSPECIFIED:     "",
	fireoncev1.XOptions_REPLY_SETTINGS_FOLLOWING:       "following",
	fireoncev1.XOptions_REPLY_SETTINGS_MENTIONED_USERS: "mentionedUsers",
	fireoncev1.XOptions_REPLY_SETTINGS_SUBSCRIBERS:     "subscribers",
	fireoncev1.XOptions_REPLY_SETTINGS_VERIFIED:        "verified",
}

func readPost(p *fireoncev1.SocialPost, replyTo string, long bool) (content, error) {
	bad := func(field, msg string) (content, error) { return content{}, badPayload(".social_post"+field, msg) }
	if p.GetPlatformOptions() != nil && p.GetX() == nil {
		return content{}, kit.OtherOptions("X")
	}
	settings, known := replySettings[p.GetX().GetReplySettings()]
	c := content{
		Text: p.GetText(), ReplyTo: p.GetReplyToId(), Quote: p.GetX().GetQuotePostId(), ReplySettings: settings, Pictures: p.GetMedia(),
	}
	if err := checkText(c.Text, len(c.Pictures) > 0, long); err != nil {
		return content{}, err
	}
	switch {
	case !known:
		return bad(".x.reply_settings", "not known")
	case c.Quote != "" && !snowflake.MatchString(c.Quote):
		return bad(".x.quote_post_id", "not the id of a post on X: a number")
	case c.ReplyTo != "" && !snowflake.MatchString(c.ReplyTo):
		return bad(".reply_to_id", "not the id of a post on X: a number")
	case replyTo != "" && c.ReplyTo != "":
		return bad(".reply_to_id", "goes not with a job that is replied to")
	case replyTo != "" && !snowflake.MatchString(replyTo):
		return bad("", "the job that is replied to made no post on X")
	case replyTo != "":
		c.ReplyTo = replyTo
	}
	return c, checkAlt(c.Pictures)
}

// checkText checks a post's text.
func checkText(text string, pictures, long bool) error {
	bad := func(msg string) error { return badPayload(".social_post.text", msg) }
	if !utf8.ValidString(text) || normal(text) == "" && !pictures {
		return bad("must not be blank")
	}
	if barred, place := twittertext.FirstBarred(text); place > 0 {
		return bad(fmt.Sprintf("character %d is %U, which X takes in no post", place, barred))
	}
	if long {
		if utf8.RuneCountInString(text) > MaxLong {
			return bad("at most 25000 characters")
		}
		return nil
	}
	if weight := twittertext.Weigh(text); weight > MaxWeight {
		return bad(fmt.Sprintf("at most %d characters as X counts them (a link is 23, most emoji and Asian letters are 2), and this has %d; "+
			"for an account that may post longer ones, set long_posts in the connection's settings", MaxWeight, weight))
	}
	return nil
}

// checkAlt checks the descriptions of pictures.
func checkAlt(refs []*fireoncev1.MediaRef) error {
	for i, m := range refs {
		if alt := m.GetAltText(); !utf8.ValidString(alt) || utf8.RuneCountInString(alt) > MaxAlt {
			return badPayload(fmt.Sprintf(".social_post.media[%d].alt_text", i), "at most 1000 characters")
		}
	}
	return nil
}

// pictureTypes are the kinds of picture that X takes in one piece.
var pictureTypes = []string{"image/jpeg", "image/png", "image/webp"}

// pictures are the files that are sent.
var pictures = kit.MediaRule{
	Most: 4, Bytes: MaxPicture, Names: "pictures (image/jpeg, image/png or image/webp)",
	Takes: func(mediaType string) bool { return slices.Contains(pictureTypes, mediaType) },
}

func readMessage(m *fireoncev1.DirectMessage, replyTo string) (content, error) {
	bad := func(field, msg string) (content, error) { return content{}, badPayload(".direct_message"+field, msg) }
	c := content{Text: m.GetText(), Recipient: m.GetRecipientId()}
	switch {
	case replyTo != "":
		return bad("", "a direct message on X cannot answer another job")
	case !snowflake.MatchString(c.Recipient):
		return bad(".recipient_id", "not the id of a user of X: a number")
	case !utf8.ValidString(c.Text) || normal(c.Text) == "":
		return bad(".text", "must not be blank")
	case utf8.RuneCountInString(c.Text) > MaxMessage:
		return bad(".text", "at most 10000 characters")
	}
	return c, nil
}

var badPayload = kit.Bad(connector.BadPayload, "payload")

// path is where the request goes.
func (c content) path() string {
	if c.Recipient != "" {
		return "/2/dm_conversations/with/" + c.Recipient + "/messages"
	}
	return "/2/tweets"
}

// body returns the request's body. pictureIDs are X's ids of those that were uploaded.
func (c content) body(pictureIDs []string) any {
	type media struct {
		IDs []string `json:"media_ids"`
	}
	type reply struct {
		To string `json:"in_reply_to_tweet_id"`
	}
	body := struct {
		Text          string `json:"text,omitempty"`
		Reply         *reply `json:"reply,omitempty"`
		Quote         string `json:"quote_tweet_id,omitempty"`
		ReplySettings string `json:"reply_settings,omitempty"`
		Media         *media `json:"media,omitempty"`
	}{Text: c.Text, Quote: c.Quote, ReplySettings: c.ReplySettings}
	if c.ReplyTo != "" {
		body.Reply = &reply{To: c.ReplyTo}
	}
	if len(pictureIDs) > 0 {
		body.Media = &media{IDs: pictureIDs}
	}
	return body
}

// Fields of the fingerprint, and of the frozen encoding.
const (
	fieldText      = "text"
	fieldReplyTo   = "reply_to"
	fieldQuote     = "quote"
	fieldRecipient = "recipient"
)

// fields are the frozen encoding: these, in this order, and then the pictures.
func (c *content) fields() []kit.FrozenField {
	return []kit.FrozenField{
		{Name: fieldText, At: &c.Text}, {Name: fieldReplyTo, At: &c.ReplyTo}, {Name: fieldQuote, At: &c.Quote},
		{Name: "reply_settings", At: &c.ReplySettings}, {Name: fieldRecipient, At: &c.Recipient},
	}
}

func (c content) freeze() []byte {
	return kit.EncodeMedia(kit.Freeze(job.NewCanon(), c.fields()...), c.Pictures).Bytes()
}

// thaw reads a frozen request: the bytes come from a database.
func thaw(frozen []byte) (c content, err error) {
	rest, err := kit.Thaw(frozen, c.fields()...)
	if err != nil {
		return content{}, err
	}
	if c.Pictures, err = kit.DecodeMedia(rest, pictures.Most); err != nil {
		return content{}, err
	}
	for _, id := range []string{c.ReplyTo, c.Quote, c.Recipient} {
		if id != "" && !snowflake.MatchString(id) {
			return content{}, kit.ErrBadCanon
		}
	}
	if !utf8.ValidString(c.Text) || normal(c.Text) == "" && len(c.Pictures) == 0 {
		return content{}, kit.ErrBadCanon
	}
	return c, nil
}

// fingerprint is what a request is known by among the account's: what cannot be
// told apart when it comes back must not be under way at the same time.
func (c content) fingerprint() [sha256.Size]byte {
	out := job.NewCanon().Field(fieldText, []byte(c.form(c.Text))).Field(fieldReplyTo, []byte(c.ReplyTo)).
		Field(fieldQuote, []byte(c.Quote)).Field(fieldRecipient, []byte(c.Recipient))
	if n := len(c.Pictures); n > 0 { // X returns how many there are, but not what they show
		out.Field("picture", []byte{byte(n)})
	}
	return sha256.Sum256(out.Bytes())
}
