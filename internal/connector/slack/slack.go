// Package slack posts messages to Slack (Web API, docs/platforms/slack.md). Slack takes
// no key, but keeps metadata with each message. The metadata carries the effect key,
// and a look finds the message of an unknown outcome by that mark. Class OBSERVABLE,
// without a content lock: the mark distinguishes identical messages.
package slack

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
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

// holdKey is what a rate limit or a refused credential holds: the connection's one
// account.
const holdKey = "account"

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
	sender *transport.Sender
	base   string
	settle lookup.Settle
	now    func() time.Time
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
	out := &Connector{
		sender: c.Sender, base: strings.TrimSuffix(c.BaseURL, "/"), settle: DefaultSettle, now: c.Now,
		owners: cache.New[[sha256.Size]byte, tokenOwner](cache.Options{Max: maxKnown}),
		chats:  cache.New[[sha256.Size]byte, string](cache.Options{Max: maxKnown}),
	}
	if out.base == "" {
		out.base = DefaultBaseURL
	}
	if c.Settle != nil {
		out.settle = *c.Settle
	}
	if out.now == nil {
		out.now = time.Now
	}
	return out
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
	var s fireoncev1.SlackSettings
	if err := proto.Unmarshal(encoded, &s); err != nil {
		return "", &connector.InputError{Reason: connector.BadSettings, Field: "settings.slack", Msg: "not readable"}
	}
	if !isChannel(s.GetChannel()) {
		return "", &connector.InputError{
			Reason: connector.BadSettings, Field: "settings.slack.channel", Msg: "not the id of a conversation, such as C0123456789",
		}
	}
	return s.GetChannel(), nil
}

func openAuth(c connector.Credential) (kit.Auth, error) {
	auth, err := kit.OpenAuth(c, kit.AuthBearer|kit.AuthOAuth2)
	if err == nil && len(auth.Headers) == 0 {
		err = &connector.InputError{Reason: connector.BadCredential, Field: "credential", Msg: "this connection has no token: connect the Slack workspace"}
	}
	return auth, err
}

// Check implements connector.Connector. It does not ask Slack: whose account the
// credential belongs to is part of every watermark.
func (c *Connector) Check(encoded []byte, cred connector.Credential) (connector.Capability, error) {
	traits, err := c.Traits(encoded)
	if err != nil {
		return connector.Capability{}, err
	}
	if len(cred.Data) > 0 { // it may come later
		if _, err := connector.Opened(cred, openAuth); err != nil {
			return connector.Capability{}, err
		}
	}
	return connector.Capability{Traits: traits}, nil
}

// Traits implements connector.Settler.
func (c *Connector) Traits(encoded []byte) (job.Traits, error) {
	if _, err := readSettings(encoded); err != nil {
		return job.Traits{}, err
	}
	return job.Traits{
		Class: job.Observable, ReadLag: c.settle.ReadLag, Negatives: c.settle.Negatives, Spacing: c.settle.Spacing,
	}, nil
}

// Prepare implements connector.Connector. It sets no content lock: messages with the
// same content do not wait for each other.
func (*Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	channel, err := readSettings(r.Settings)
	if err != nil {
		return connector.Prepared{}, err
	}
	if r.PayloadKind != KindPost && r.PayloadKind != KindMessage {
		return connector.Prepared{}, &connector.InputError{
			Reason: connector.PayloadMismatch, Field: "payload", Msg: "the connector slack sends social posts and direct messages only",
		}
	}
	var p fireoncev1.Payload
	if err := proto.Unmarshal(r.Payload, &p); err != nil {
		return connector.Prepared{}, badPayload("", "not readable")
	}
	var out content
	switch {
	case r.PayloadKind == KindPost && p.GetSocialPost() != nil:
		out, err = readPost(p.GetSocialPost(), r.ReplyTo, channel)
	case r.PayloadKind == KindMessage && p.GetDirectMessage() != nil:
		out, err = readMessage(p.GetDirectMessage(), r.ReplyTo)
	default:
		err = badPayload("", "not readable as what it is said to be")
	}
	if err != nil {
		return connector.Prepared{}, err
	}
	out.Key = r.EffectKey
	return connector.Prepared{HoldKey: holdKey, Frozen: out.freeze()}, nil
}

// Open implements connector.Connector. It first opens a person's conversation, which no
// user sees and which may be repeated.
func (c *Connector) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	want, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, kit.UnreadableFrozen("message", err)
	}
	auth, err := account(o)
	if err != nil {
		return nil, err
	}
	channel, err := c.conversation(ctx, auth, want)
	if err != nil {
		return nil, err
	}
	body, err := want.encode(channel)
	if err != nil {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the stored message cannot be encoded", Err: err}
	}
	to, err := c.url("chat.postMessage", nil)
	if err != nil {
		return nil, err
	}
	conn, err := c.sender.Open(ctx, transport.TargetOf(to), true)
	if err != nil {
		return nil, fmt.Errorf("open slack: %w", err)
	}
	owner, _ := c.owners.Get(auth.Key(""))
	return &session{
		conn: conn, auth: auth, to: to, body: body, thread: want.Thread, site: owner.Site, version: o.Credential.Version,
	}, nil
}

// account opens the credential. It fails with *connector.Refusal.
func account(o connector.Opening) (kit.Auth, error) {
	auth, err := connector.Opened(o.Credential, openAuth)
	if err != nil {
		return kit.Auth{}, &connector.Refusal{Kind: job.FailAuth, Msg: "the token is not usable: reconnect this Slack workspace", Err: err}
	}
	return auth, nil
}

// url returns the address of a method. It fails with *connector.Refusal.
func (c *Connector) url(method string, query url.Values) (*url.URL, error) {
	u, err := transport.ParseURL(c.base + "/" + method)
	if err != nil {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "this server's address for Slack is not usable", Err: err}
	}
	out := *u
	out.RawQuery = query.Encode()
	return &out, nil
}
