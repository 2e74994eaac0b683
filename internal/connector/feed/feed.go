// Package feed posts to platforms that take posts without a key and list an
// account's posts by cursor (docs/platforms/feed.md). Nothing dedupes there, so an
// unknown outcome is looked up: class OBSERVABLE.
package feed

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Name is the connector's name, PayloadKind the kind of payload that it sends.
const (
	Name        = "feed"
	PayloadKind = "social_post"
)

// Settle times. They are ours, by the example of platforms that are looked up by
// content: Mastodon 60 s and 2 negatives over 5 min, X 2 min and 3 over 15 min.
const (
	// DefaultReadLag is FeedSettings.read_lag when unset, MaxReadLag its limit.
	DefaultReadLag = time.Minute
	MaxReadLag     = time.Hour
	// negatives is how many complete absences prove one, spacingLags how many read
	// lags lie between two of them, at most maxSpacing. A platform that states a read
	// lag of zero is believed at the first one.
	negatives   = 2
	spacingLags = 5
	maxSpacing  = 15 * time.Minute
)

// holdKey is what a rate limit or a refused credential holds: the connection's
// one account.
const holdKey = "account"

// Config makes a Connector.
type Config struct {
	// Sender opens connections. Required.
	Sender *transport.Sender
	// HTTPSOnly refuses http URLs.
	HTTPSOnly bool
	// Now returns this process's time; nil means time.Now.
	Now func() time.Time
}

// Connector is the feed connector. It is safe for concurrent use.
type Connector struct {
	sender    *transport.Sender
	httpsOnly bool
	now       func() time.Time
}

var (
	_ connector.Observer   = (*Connector)(nil)
	_ connector.Identifier = (*Connector)(nil)
)

// New makes the connector.
func New(c Config) *Connector {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Connector{sender: c.Sender, httpsOnly: c.HTTPSOnly, now: c.Now}
}

// Describe implements connector.Connector.
func (*Connector) Describe() connector.Description {
	return connector.Description{
		Name:        Name,
		Payloads:    []string{PayloadKind},
		Credentials: []string{"bearer_token", "api_key_header"},
		Classes:     []job.Class{job.Observable},
		Promise: "Text posts and replies. The platform does not dedupe; an outcome that stays unknown is looked up in the " +
			"account's own posts and sent again only when complete looks, spaced in time, have proven that it is not there.",
		Replies: true,
	}
}

// settings are a connection's, checked.
type settings struct {
	base  *url.URL
	posts *url.URL // base + "/posts"
	lag   time.Duration
}

func (c *Connector) settings(encoded []byte) (settings, error) {
	var s fireoncev1.FeedSettings
	if err := proto.Unmarshal(encoded, &s); err != nil {
		return settings{}, badSettings("", "not readable")
	}
	out := settings{lag: DefaultReadLag}
	var err error
	if out.base, err = transport.ParseURL(s.GetBaseUrl()); err != nil {
		return settings{}, badSettings(".base_url", err.Error())
	}
	if out.base.RawQuery != "" || out.base.ForceQuery {
		return settings{}, badSettings(".base_url", "the URL must not have a query")
	}
	if c.httpsOnly && out.base.Scheme != "https" {
		return settings{}, badSettings(".base_url", "the URL must start with https://")
	}
	if out.posts, err = transport.ParseURL(strings.TrimSuffix(out.base.String(), "/") + "/posts"); err != nil {
		return settings{}, badSettings(".base_url", err.Error())
	}
	if s.ReadLag != nil {
		out.lag = s.GetReadLag().AsDuration()
		if !s.GetReadLag().IsValid() || out.lag < 0 || out.lag > MaxReadLag {
			return settings{}, badSettings(".read_lag", "must be 0 to 1 hour")
		}
	}
	return out, nil
}

func badSettings(field, msg string) error {
	return &connector.InputError{Reason: connector.BadSettings, Field: "settings.feed" + field, Msg: msg}
}

func openAuth(c connector.Credential) (kit.Auth, error) {
	return kit.OpenAuth(c, kit.AuthBearer|kit.AuthAPIKey)
}

// Check implements connector.Connector. It does not ask the platform: which
// account the credential belongs to is part of every watermark.
func (c *Connector) Check(encoded []byte, cred connector.Credential) (connector.Capability, error) {
	traits, err := c.Traits(encoded)
	if err != nil {
		return connector.Capability{}, err
	}
	if _, err := connector.Opened(cred, openAuth); err != nil {
		return connector.Capability{}, err
	}
	return connector.Capability{Traits: traits}, nil
}

// Traits implements connector.Settler.
func (c *Connector) Traits(encoded []byte) (job.Traits, error) {
	s, err := c.settings(encoded)
	if err != nil {
		return job.Traits{}, err
	}
	t := job.Traits{Class: job.Observable, ReadLag: s.lag, Negatives: 1}
	if s.lag > 0 {
		t.Negatives, t.Spacing = negatives, min(spacingLags*s.lag, maxSpacing)
	}
	return t, nil
}

// Prepare implements connector.Connector.
func (*Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	if r.PayloadKind != PayloadKind {
		return connector.Prepared{}, &connector.InputError{
			Reason: connector.PayloadMismatch, Field: "payload", Msg: "the connector feed sends social posts only",
		}
	}
	var p fireoncev1.Payload
	if err := proto.Unmarshal(r.Payload, &p); err != nil || p.GetSocialPost() == nil {
		return connector.Prepared{}, badPayload("", "not readable as a social post")
	}
	post, err := read(p.GetSocialPost(), r.ReplyTo)
	if err != nil {
		return connector.Prepared{}, err
	}
	gate := post.fingerprint()
	return connector.Prepared{HoldKey: holdKey, Frozen: post.freeze(), Gate: gate[:]}, nil
}

// Open implements connector.Connector.
func (c *Connector) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	post, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, kit.UnreadableFrozen("post", err)
	}
	account, err := c.account(o)
	if err != nil {
		return nil, err
	}
	body, err := post.encode()
	if err != nil {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the stored post cannot be encoded", Err: err}
	}
	conn, err := c.sender.Open(ctx, transport.TargetOf(account.posts), true)
	if err != nil {
		return nil, fmt.Errorf("open feed: %w", err)
	}
	return &session{conn: conn, account: account, body: body, version: o.Credential.Version}, nil
}

// account is an account on a platform with the data that requests need.
type account struct {
	settings
	auth kit.Auth
}

func (c *Connector) account(o connector.Opening) (account, error) {
	s, err := c.settings(o.Settings)
	if err != nil {
		return account{}, kit.UnusableSettings(err)
	}
	auth, err := connector.Opened(o.Credential, openAuth)
	if err != nil {
		return account{}, kit.UnusableCredential(err)
	}
	return account{settings: s, auth: auth}, nil
}

func (a account) headers(own ...transport.Header) []transport.Header {
	return a.auth.AcceptJSON(own...)
}
