package x

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Limits of X.
const (
	// MaxWeight bounds a post, in weighted characters (weight.go).
	MaxWeight = 280
	// MaxLong bounds a post of an account with long posts, in characters.
	MaxLong = 25_000
	// MaxMessage bounds a direct message, in characters.
	MaxMessage = 10_000
	// MaxPictures bounds a post's pictures, MaxPicture one of them, in bytes, and MaxAlt
	// its description, in characters.
	MaxPictures = 4
	MaxPicture  = 5 << 20
	MaxAlt      = 1000
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
	Pictures []picture
}

// picture is a file that is fetched for each attempt. What is frozen of its content is
// the digest, if there is one.
type picture struct{ URL, SHA256, Type, Alt string }

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
		return content{}, &connector.InputError{
			Reason: connector.PayloadMismatch, Field: "payload.social_post", Msg: "these options are another platform's, not X's",
		}
	}
	settings, known := replySettings[p.GetX().GetReplySettings()]
	c := content{Text: p.GetText(), ReplyTo: p.GetReplyToId(), Quote: p.GetX().GetQuotePostId(), ReplySettings: settings}
	switch {
	case !utf8.ValidString(c.Text) || normal(c.Text) == "" && len(p.GetMedia()) == 0:
		return bad(".text", "must not be blank")
	case long && utf8.RuneCountInString(c.Text) > MaxLong:
		return bad(".text", "at most 25000 characters")
	case !long && weigh(c.Text) > MaxWeight:
		return bad(".text", "at most 280 characters as X counts them (a link is 23, most emoji and Asian letters are 2); "+
			"for an account that may post longer ones, set long_posts in the connection's settings")
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
	var err error
	c.Pictures, err = readPictures(p.GetMedia())
	return c, err
}

func readPictures(media []*fireoncev1.MediaRef) ([]picture, error) {
	if len(media) > MaxPictures {
		return nil, badPayload(".social_post.media", "at most 4 pictures")
	}
	var out []picture
	for i, m := range media {
		if field, msg := badPicture(m); msg != "" {
			return nil, badPayload(fmt.Sprintf(".social_post.media[%d]%s", i, field), msg)
		}
		out = append(out, picture{URL: m.GetUrl(), SHA256: string(m.GetSha256()), Type: m.GetMediaType(), Alt: m.GetAltText()})
	}
	return out, nil
}

// pictureTypes are the kinds of picture that X takes in one piece.
var pictureTypes = []string{"image/jpeg", "image/png", "image/webp"}

// badPicture returns what is wrong with a picture; empty: nothing.
func badPicture(m *fireoncev1.MediaRef) (field, msg string) {
	switch _, err := transport.ParseURL(m.GetUrl()); {
	case err != nil:
		return ".url", err.Error()
	case m.GetMediaType() != "" && !slices.Contains(pictureTypes, m.GetMediaType()):
		return ".media_type", "the connector x sends pictures only: image/jpeg, image/png or image/webp"
	case !utf8.ValidString(m.GetAltText()) || utf8.RuneCountInString(m.GetAltText()) > MaxAlt:
		return ".alt_text", "at most 1000 characters"
	}
	return "", ""
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

func badPayload(field, msg string) *connector.InputError {
	return &connector.InputError{Reason: connector.BadPayload, Field: "payload" + field, Msg: msg}
}

// path is where the request goes.
func (c content) path() string {
	if c.Recipient != "" {
		return "/2/dm_conversations/with/" + c.Recipient + "/messages"
	}
	return "/2/tweets"
}

// encode returns the request's body. pictures are X's ids of those that were uploaded.
func (c content) encode(pictures []string) ([]byte, error) {
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
	if len(pictures) > 0 {
		body.Media = &media{IDs: pictures}
	}
	return json.Marshal(body)
}

// The frozen encoding: job.Canon with these fields in this order.
const (
	fieldText          = "text"
	fieldReplyTo       = "reply_to"
	fieldQuote         = "quote"
	fieldReplySettings = "reply_settings"
	fieldRecipient     = "recipient"
	// Of each picture these four.
	fieldPicture = "picture"
	fieldDigest  = "sha256"
	fieldType    = "type"
	fieldAlt     = "alt"
)

func (c content) freeze() []byte {
	out := job.NewCanon().Field(fieldText, []byte(c.Text)).Field(fieldReplyTo, []byte(c.ReplyTo)).Field(fieldQuote, []byte(c.Quote)).
		Field(fieldReplySettings, []byte(c.ReplySettings)).Field(fieldRecipient, []byte(c.Recipient))
	for _, p := range c.Pictures {
		out.Field(fieldPicture, []byte(p.URL)).Field(fieldDigest, []byte(p.SHA256)).Field(fieldType, []byte(p.Type)).Field(fieldAlt, []byte(p.Alt))
	}
	return out.Bytes()
}

// thaw reads a frozen request: the bytes come from a database.
func thaw(frozen []byte) (content, error) {
	fields, err := kit.DecodeCanon(frozen)
	if err != nil {
		return content{}, err
	}
	var c content
	names := []string{fieldText, fieldReplyTo, fieldQuote, fieldReplySettings, fieldRecipient}
	into := []*string{&c.Text, &c.ReplyTo, &c.Quote, &c.ReplySettings, &c.Recipient}
	if more := len(fields) - len(names); more > 0 {
		c.Pictures = make([]picture, (more+3)/4)
	}
	for i := range c.Pictures {
		p := &c.Pictures[i]
		names = append(names, fieldPicture, fieldDigest, fieldType, fieldAlt)
		into = append(into, &p.URL, &p.SHA256, &p.Type, &p.Alt)
	}
	if len(fields) != len(names) {
		return content{}, kit.ErrBadCanon
	}
	for i, f := range fields {
		if f.Name != names[i] {
			return content{}, kit.ErrBadCanon
		}
		*into[i] = string(f.Value)
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
		out.Field(fieldPicture, []byte{byte(n)})
	}
	return sha256.Sum256(out.Bytes())
}
