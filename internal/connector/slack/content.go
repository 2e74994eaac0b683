package slack

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/job"
)

// MaxText bounds a message, in characters: Slack cuts longer ones off.
const MaxText = 40_000

// markEvent is the event type of the metadata that carries a job's mark.
const markEvent = "fireonce_job"

// maxKey bounds an effect key, in bytes.
const maxKey = 256

var (
	channelID = regexp.MustCompile(`^[A-Z0-9]{1,64}$`)
	stamp     = regexp.MustCompile(`^[0-9]{1,16}\.[0-9]{6}$`)
	userID    = regexp.MustCompile(`^[UW][A-Z0-9]{1,63}$`)
)

func isChannel(id string) bool { return channelID.MatchString(id) }

// content is a message: what every attempt sends alike.
type content struct {
	// Channel is the conversation; empty: that with User.
	Channel, User string
	Text          string
	// Thread is the message whose thread it goes to, by its time stamp.
	Thread            string
	Broadcast, Unfurl bool
	// Key is the effect key: the message's mark.
	Key string
}

// externalID names a message among all of a workspace's: its conversation and its time
// stamp, and for a message in a thread the thread's.
func externalID(channel, ts, thread string) string {
	if thread == "" || thread == ts {
		return channel + ":" + ts
	}
	return channel + ":" + ts + ":" + thread
}

// parseID reads an external id, or a bare time stamp. thread is where an answer goes.
func parseID(id string) (channel, thread string, ok bool) {
	parts := strings.Split(id, ":")
	switch {
	case len(parts) == 1:
		parts = []string{"", id}
	case len(parts) > 3 || !isChannel(parts[0]):
		return "", "", false
	}
	for _, ts := range parts[1:] {
		if !stamp.MatchString(ts) {
			return "", "", false
		}
	}
	// An answer to an answer goes to the thread of the first message.
	return parts[0], parts[len(parts)-1], true
}

func readPost(p *fireoncev1.SocialPost, replyTo, channel string) (content, error) {
	bad := func(field, msg string) (content, error) { return content{}, badPayload(".social_post"+field, msg) }
	own := p.GetSlack()
	if p.GetPlatformOptions() != nil && own == nil {
		return content{}, kit.OtherOptions("Slack")
	}
	c := content{Channel: channel, Text: p.GetText(), Broadcast: own.GetReplyBroadcast(), Unfurl: own.GetUnfurl()}
	if own.GetChannel() != "" {
		c.Channel = own.GetChannel()
	}
	answers, field := p.GetReplyToId(), ".reply_to_id"
	switch {
	case len(p.GetMedia()) > 0:
		return bad(".media", "the connector slack sends text only; media are not supported")
	case !goodText(c.Text):
		return bad(".text", "1 to 40000 characters, not blank")
	case !isChannel(c.Channel):
		return bad(".slack.channel", notChannel)
	case replyTo != "" && answers != "":
		return bad(field, "goes not with a job that is replied to")
	case replyTo != "":
		answers, field = replyTo, ""
	}
	if answers == "" {
		if c.Broadcast {
			return bad(".slack.reply_broadcast", "goes only with a reply")
		}
		return c, nil
	}
	where, thread, ok := parseID(answers)
	switch {
	case !ok && field == "":
		return bad("", "the job that is replied to made no message on Slack")
	case !ok:
		return bad(field, "not a message on Slack: its time stamp, or conversation:time stamp")
	case where != "" && own.GetChannel() != "" && where != own.GetChannel():
		return bad(".slack.channel", "the message that is replied to is in another conversation")
	case where != "":
		c.Channel = where
	}
	c.Thread = thread
	return c, nil
}

func readMessage(m *fireoncev1.DirectMessage, replyTo string) (content, error) {
	bad := func(field, msg string) (content, error) { return content{}, badPayload(".direct_message"+field, msg) }
	c := content{Text: m.GetText()}
	switch to := m.GetRecipientId(); {
	case replyTo != "":
		return bad("", "a direct message cannot answer another job; send a post into its conversation")
	case userID.MatchString(to):
		c.User = to
	case isChannel(to):
		c.Channel = to
	default:
		return bad(".recipient_id", "not the id of a person or a conversation, such as U0123456789")
	}
	if !goodText(c.Text) {
		return bad(".text", "1 to 40000 characters, not blank")
	}
	return c, nil
}

func goodText(text string) bool {
	return utf8.ValidString(text) && strings.TrimSpace(text) != "" && utf8.RuneCountInString(text) <= MaxText
}

var badPayload = kit.Bad(connector.BadPayload, "payload")

// marker is a message's metadata.
type marker struct {
	Type    string `json:"event_type"`
	Payload struct {
		Job string `json:"job_id"`
	} `json:"event_payload"`
}

// body returns the request's body. Slack's defaults are sent, so that they cannot
// change.
func (c content) body(channel string) any {
	body := struct {
		Channel     string `json:"channel"`
		Text        string `json:"text"`
		Thread      string `json:"thread_ts,omitempty"`
		Broadcast   bool   `json:"reply_broadcast,omitempty"`
		UnfurlLinks bool   `json:"unfurl_links"`
		UnfurlMedia bool   `json:"unfurl_media"`
		Metadata    marker `json:"metadata"`
	}{Channel: channel, Text: c.Text, Thread: c.Thread, Broadcast: c.Broadcast, UnfurlLinks: c.Unfurl, UnfurlMedia: c.Unfurl}
	body.Metadata.Type, body.Metadata.Payload.Job = markEvent, c.Key
	return body
}

// fields are the frozen encoding: these, in this order.
func (c *content) fields() []kit.FrozenField {
	return []kit.FrozenField{
		{Name: "channel", At: &c.Channel}, {Name: "user", At: &c.User}, {Name: "text", At: &c.Text}, {Name: "thread", At: &c.Thread},
		{Name: "broadcast", At: &c.Broadcast}, {Name: "unfurl", At: &c.Unfurl}, {Name: "key", At: &c.Key},
	}
}

func (c content) freeze() []byte { return kit.Freeze(job.NewCanon(), c.fields()...).Bytes() }

// thaw reads a frozen message: the bytes come from a database.
func thaw(frozen []byte) (c content, err error) {
	if err := kit.ThawAll(frozen, c.fields()...); err != nil {
		return content{}, err
	}
	switch {
	case !goodText(c.Text), c.Key == "", len(c.Key) > maxKey, c.Thread != "" && !stamp.MatchString(c.Thread):
		return content{}, kit.ErrBadCanon
	case c.User == "" && !isChannel(c.Channel), c.User != "" && (c.Channel != "" || !userID.MatchString(c.User)):
		return content{}, kit.ErrBadCanon
	}
	return c, nil
}
