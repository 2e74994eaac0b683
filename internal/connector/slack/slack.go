// Package slack posts messages to Slack (Web API, docs/platforms/slack.md). Slack takes
// no key, but keeps metadata with each message. The metadata carries the effect key,
// and a look finds the message of an unknown outcome by that mark. Class OBSERVABLE,
// without a content lock: the mark distinguishes identical messages.
package slack

import (
	"cmp"
	"context"
	"crypto/sha256"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Name is the connector's name. KindPost and KindMessage are the kinds of payload
// that it sends.
const (
	Name        = "slack"
	KindPost    = "social_post"
	KindMessage = "direct_message"
)

// DefaultBaseURL is where Slack serves its Web API.
const DefaultBaseURL = "https://slack.com/api"

// DefaultSettle is 30 seconds and two absences, more than a minute apart: most apps
// may read a conversation once a minute (conversations.history, since 2025). Slack documents
// no read lag; ours is an assumption (docs/platforms/slack.md).
var DefaultSettle = lookup.Settle{ReadLag: 30 * time.Second, Negatives: 2, Spacing: 70 * time.Second}

// Config makes a Connector.
type Config struct {
	// Sender opens connections. Required.
	Sender *transport.Sender
	// BaseURL replaces DefaultBaseURL: the operator's, for tests.
	BaseURL string
	// Settle replaces DefaultSettle; nil keeps it.
	Settle *lookup.Settle
	// Now returns this process's time; nil means time.Now.
	Now func() time.Time
}

// Connector is the connector for Slack. It is safe for concurrent use.
type Connector struct {
	kit.Base[string, kit.Auth] // the settings are the channel

	cfg    Config
	owners *cache.TTL[[sha256.Size]byte, tokenOwner] // the owner of each token, which never changes
	chats  *cache.TTL[[sha256.Size]byte, string]     // a person's conversation with a token, which never changes either
}

var (
	_ connector.Observer   = (*Connector)(nil)
	_ connector.Identifier = (*Connector)(nil)
	_ connector.Tester     = (*Connector)(nil)
)

// New makes the connector.
func New(c Config) *Connector {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Settle = cmp.Or(c.Settle, &DefaultSettle)
	c.BaseURL = cmp.Or(c.BaseURL, DefaultBaseURL)
	return &Connector{
		Base: kit.Base[string, kit.Auth]{
			ReadSettings: readSettings, Reconnect: "reconnect this Slack workspace",
			ReadCredential: kit.OpenToken("this connection has no token: connect the Slack workspace"),
			Offers: func(string) (connector.Capability, error) {
				return connector.Capability{Traits: c.Settle.Traits()}, nil
			},
		},
		cfg:    c,
		owners: cache.New[[sha256.Size]byte, tokenOwner](cache.Options{Max: maxKnown}),
		chats:  cache.New[[sha256.Size]byte, string](cache.Options{Max: maxKnown}),
	}
}

// Describe implements connector.Connector.
func (*Connector) Describe() connector.Description {
	return connector.Description{
		Name:               Name,
		Payloads:           []string{KindPost, KindMessage},
		Credentials:        []string{"bearer_token", "oauth2"},
		CredentialRequired: true,
		Classes:            []job.Class{job.Observable},
		Promise: "Messages to channels, threads and people. Slack does not dedupe; each message carries its job's mark, and an " +
			"outcome that stays unknown is looked up by it and sent again only when complete looks, spaced in time, have proven " +
			"that it is not there.",
		Replies: true,
	}
}

func readSettings(encoded []byte) (channel string, err error) {
	bad := kit.Bad(connector.BadSettings, "settings.slack")
	var s connectionsv1.SlackSettings
	if err := proto.Unmarshal(encoded, &s); err != nil {
		return "", bad("", "not readable")
	}
	if !isChannel(s.GetChannel()) {
		return "", bad(".channel", notChannel)
	}
	return s.GetChannel(), nil
}

const notChannel = "not the id of a conversation, such as C0123456789"

// Prepare implements connector.Connector. It sets no content lock: messages with the
// same content do not wait for each other.
func (*Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	channel, err := readSettings(r.Settings)
	if err != nil {
		return connector.Prepared{}, err
	}
	p, err := kit.ReadPayload(r, "the connector slack sends social posts and direct messages", KindPost, KindMessage)
	if err != nil {
		return connector.Prepared{}, err
	}
	var out content
	if r.PayloadKind == KindPost {
		out, err = readPost(p.GetSocialPost(), r.ReplyTo, channel)
	} else {
		out, err = readMessage(p.GetDirectMessage(), r.ReplyTo)
	}
	if err != nil {
		return connector.Prepared{}, err
	}
	out.Key = r.EffectKey
	return connector.Prepared{HoldKey: kit.HoldAccount, Frozen: out.freeze()}, nil
}

// Open implements connector.Connector. It first opens a person's conversation, which no
// user sees and which may be repeated.
func (c *Connector) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	want, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, kit.UnreadableFrozen("message", err)
	}
	_, auth, err := c.Account(o)
	if err != nil {
		return nil, err
	}
	channel, err := c.conversation(ctx, auth, want)
	if err != nil {
		return nil, err
	}
	owner, _ := c.owners.Get(auth.Key(""))
	return (&kit.Post{
		Call: kit.Call{
			Base: c.cfg.BaseURL, Path: "/chat.postMessage", Auth: auth, Body: want.body(channel), ContentType: jsonType,
		},
		Classify: func(a transport.Response) job.Outcome { return classify(a, auth.Hidden, want.Thread, owner.Site) },
	}).Open(ctx, c.cfg.Sender, o)
}
