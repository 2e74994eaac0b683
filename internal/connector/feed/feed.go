// Package feed posts to platforms that take posts without a key and list an
// account's posts by cursor (docs/platforms/feed.md). Nothing dedupes there, so an
// unknown outcome is looked up: class OBSERVABLE.
package feed

import (
	"context"
	"strings"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Name is the connector's name, PayloadKind the kind of payload that it sends.
const (
	Name        = "feed"
	PayloadKind = "social_post"
)

// pathPosts is where posts are made and listed.
const pathPosts = "/posts"

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
	kit.Base[settings, kit.Auth]
	lookup.Watermarks

	cfg Config
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
	out := &Connector{cfg: c, Watermarks: watermarks}
	out.Base = kit.Base[settings, kit.Auth]{
		ReadSettings: out.readSettings, Offers: settings.offers,
		ReadCredential: kit.OpenKinds(kit.AuthBearer, kit.AuthAPIKey),
	}
	return out
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
	base string
	lag  time.Duration
}

func (c *Connector) readSettings(encoded []byte) (settings, error) {
	var s connectionsv1.FeedSettings
	base, err := kit.ReadServer(encoded, &s, "", c.cfg.HTTPSOnly, badSettings)
	if err != nil {
		return settings{}, err
	}
	out := settings{base: base.String(), lag: DefaultReadLag}
	if _, err := transport.ParseURL(strings.TrimSuffix(out.base, "/") + pathPosts); err != nil {
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

var badSettings = kit.Bad(connector.BadSettings, "settings.feed")

// offers does not name the account: it is part of every watermark.
func (s settings) offers() (connector.Capability, error) {
	t := job.Traits{Class: job.Observable, ReadLag: s.lag, Negatives: 1}
	if s.lag > 0 {
		t.Negatives, t.Spacing = negatives, min(spacingLags*s.lag, maxSpacing)
	}
	return connector.Capability{Traits: t}, nil
}

// Prepare implements connector.Connector.
func (*Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	p, err := kit.ReadPayload(r, "the connector feed sends social posts", PayloadKind)
	if err != nil {
		return connector.Prepared{}, err
	}
	post, err := read(p.GetSocialPost(), r.ReplyTo)
	if err != nil {
		return connector.Prepared{}, err
	}
	gate := post.fingerprint()
	return connector.Prepared{HoldKey: kit.HoldAccount, Frozen: post.freeze(), Gate: gate[:]}, nil
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
	return (&kit.Post{
		Call:     kit.Call{Base: account.base, Path: pathPosts, Auth: account.auth, Body: post},
		Classify: func(a transport.Response) job.Outcome { return classify(a, account.auth.Hidden) },
	}).Open(ctx, c.cfg.Sender, o)
}

// account is an account on a platform with the data that requests need.
type account struct {
	settings
	auth kit.Auth
}

func (c *Connector) account(o connector.Opening) (account, error) {
	s, auth, err := c.Account(o)
	return account{settings: s, auth: auth}, err
}
