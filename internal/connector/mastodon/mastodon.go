// Package mastodon posts to Mastodon and to other servers that speak its API
// (docs/platforms/mastodon.md). Mastodon itself dedupes on Idempotency-Key for an hour:
// class KEYED. Others ignore the key, so there a look finds an unknown outcome in the
// account's own posts: class OBSERVABLE. The server's owner states which of the two a
// server is, or the connector asks the server.
package mastodon

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

// Name is the connector's name, PayloadKind the kind of payload that it sends.
const (
	Name        = "mastodon"
	PayloadKind = "social_post"
)

// KeyWindow is how long Mastodon remembers a key (app/services/post_status_service.rb:
// the key is stored after the post, and expires an hour later).
const KeyWindow = time.Hour

// holdKey is what a rate limit or a refused credential holds: the connection's
// one account.
const holdKey = "account"

// DefaultSettle is for servers that do not dedupe. It is ours: no server documents any.
var DefaultSettle = lookup.Settle{ReadLag: time.Minute, Negatives: 2, Spacing: 5 * time.Minute}

// Config makes a Connector.
type Config struct {
	// Sender opens connections. Required.
	Sender *transport.Sender
	// Media fetches files; nil: posts with media are refused.
	Media *kit.Media
	// HTTPSOnly refuses http URLs.
	HTTPSOnly bool
	// Settle replaces DefaultSettle; nil keeps it.
	Settle *lookup.Settle
	// Now returns this process's time; nil means time.Now.
	Now func() time.Time
}

// Connector is the connector for Mastodon. It is safe for concurrent use.
type Connector struct {
	sender    *transport.Sender
	media     *kit.Media
	httpsOnly bool
	settle    lookup.Settle
	now       func() time.Time
	servers   *cache.TTL[string, bool]              // whether a server dedupes, by its base URL
	accounts  *cache.TTL[[sha256.Size]byte, person] // the account of each token
}

var (
	_ connector.Observer   = (*Connector)(nil)
	_ connector.Identifier = (*Connector)(nil)
	_ connector.Prober     = (*Connector)(nil)
	_ connector.Tester     = (*Connector)(nil)
)

// New makes the connector.
func New(c Config) *Connector {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Settle == nil {
		c.Settle = &DefaultSettle
	}
	return &Connector{
		sender: c.Sender, media: c.Media, httpsOnly: c.HTTPSOnly, settle: *c.Settle, now: c.Now,
		servers:  cache.New[string, bool](cache.Options{Max: maxRemembered, Age: probeLasts, Now: c.Now}),
		accounts: cache.New[[sha256.Size]byte, person](cache.Options{Max: maxRemembered, Age: accountLasts, Now: c.Now}),
	}
}

// Describe implements connector.Connector.
func (*Connector) Describe() connector.Description {
	return connector.Description{
		Name:               Name,
		Payloads:           []string{PayloadKind},
		Credentials:        []string{"bearer_token", "oauth2"},
		CredentialRequired: true,
		Classes:            []job.Class{job.Keyed, job.Observable},
		Promise: "Posts with media and replies on Mastodon and on servers that speak its API. Mastodon drops a repeat under the same key for an " +
			"hour; on a server that does not, an unknown outcome is looked up in the account's own posts, and sent again only " +
			"when it is proven not to be there.",
		Replies: true,
	}
}

// settings are a connection's, checked.
type settings struct {
	base    *url.URL
	dedupes fireoncev1.ReceiverDedupes
}

func (c *Connector) settings(encoded []byte) (settings, error) {
	var s fireoncev1.MastodonSettings
	if err := proto.Unmarshal(encoded, &s); err != nil {
		return settings{}, badSettings("", "not readable")
	}
	base, err := transport.ParseURL(s.GetBaseUrl())
	if err != nil {
		return settings{}, badSettings(".base_url", err.Error())
	}
	if base.RawQuery != "" || base.ForceQuery {
		return settings{}, badSettings(".base_url", "the URL must not have a query")
	}
	if c.httpsOnly && base.Scheme != "https" {
		return settings{}, badSettings(".base_url", "the URL must start with https://")
	}
	return settings{base: base, dedupes: s.GetServerDedupes()}, nil
}

// endpoint is a URL below the server's base.
func (s settings) endpoint(path string, query url.Values) (*url.URL, error) {
	raw := strings.TrimSuffix(s.base.String(), "/") + path
	if len(query) > 0 {
		raw += "?" + query.Encode()
	}
	u, err := transport.ParseURL(raw)
	if err != nil {
		return nil, kit.UnusableSettings(err)
	}
	return u, nil
}

func badSettings(field, msg string) error {
	return &connector.InputError{Reason: connector.BadSettings, Field: "settings.mastodon" + field, Msg: msg}
}

func openAuth(c connector.Credential) (kit.Auth, error) {
	a, err := kit.OpenAuth(c, kit.AuthBearer|kit.AuthOAuth2)
	if err == nil && len(a.Headers) == 0 {
		err = &connector.InputError{Reason: connector.BadCredential, Field: "credential", Msg: "must be an access token of the account"}
	}
	return a, err
}

// Check implements connector.Connector. It does not ask the server; Probe and Test do.
func (c *Connector) Check(encoded []byte, cred connector.Credential) (connector.Capability, error) {
	s, err := c.settings(encoded)
	if err != nil {
		return connector.Capability{}, err
	}
	if _, err := connector.Opened(cred, openAuth); err != nil {
		return connector.Capability{}, err
	}
	return connector.Capability{Traits: c.stated(s), Unsure: s.dedupes == unstated}, nil
}

// Traits implements connector.Settler.
func (c *Connector) Traits(encoded []byte) (job.Traits, error) {
	s, err := c.settings(encoded)
	if err != nil {
		return job.Traits{}, err
	}
	return c.stated(s), nil
}

const (
	unstated = fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_UNSPECIFIED
	dedupes  = fireoncev1.ReceiverDedupes_RECEIVER_DEDUPES_YES
)

// stated returns what holds as far as the settings say. If they do not, jobs of both
// classes may be in flight; if a server was found to dedupe, its jobs have its window.
func (c *Connector) stated(s settings) job.Traits {
	t := c.traits(s.dedupes == dedupes)
	if s.dedupes == unstated {
		t.KeyWindow = KeyWindow
	}
	return t
}

func (c *Connector) traits(keyed bool) job.Traits {
	if keyed {
		return job.Traits{Class: job.Keyed, KeyWindow: KeyWindow}
	}
	return job.Traits{
		Class: job.Observable, ReadLag: c.settle.ReadLag, Negatives: c.settle.Negatives, Spacing: c.settle.Spacing,
	}
}

// Prepare implements connector.Connector.
func (c *Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	if r.PayloadKind != PayloadKind {
		return connector.Prepared{}, &connector.InputError{
			Reason: connector.PayloadMismatch, Field: "payload", Msg: "the connector mastodon sends social posts only",
		}
	}
	s, err := c.settings(r.Settings)
	if err != nil {
		return connector.Prepared{}, err
	}
	var p fireoncev1.Payload
	if err := proto.Unmarshal(r.Payload, &p); err != nil || p.GetSocialPost() == nil {
		return connector.Prepared{}, badPayload("", "not readable as a social post")
	}
	post, err := read(p.GetSocialPost(), r.ReplyTo)
	if err != nil {
		return connector.Prepared{}, err
	}
	if err := c.checkMedia(post.media); err != nil {
		return connector.Prepared{}, err
	}
	out := connector.Prepared{HoldKey: holdKey, Frozen: post.freeze()}
	if len(post.media) > 0 {
		out.OpenTime = openTime
	}
	if s.dedupes != dedupes {
		gate := post.fingerprint()
		out.Gate = gate[:]
	}
	return out, nil
}

// account is an account on a server with the data that requests need.
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

// Open implements connector.Connector. It uploads media.
func (c *Connector) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	post, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, kit.UnreadableFrozen("post", err)
	}
	a, err := c.account(o)
	if err != nil {
		return nil, err
	}
	s := &session{account: a, version: o.Credential.Version}
	if s.url, err = a.endpoint("/api/v1/statuses", nil); err != nil {
		return nil, err
	}
	if post.MediaIDs, err = c.attach(ctx, a, post.media); err != nil {
		return nil, err
	}
	if s.body, err = post.encode(); err != nil {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the stored post cannot be encoded", Err: err}
	}
	if s.conn, err = c.sender.Open(ctx, transport.TargetOf(s.url), o.Fresh || o.Class != job.Keyed); err != nil {
		return nil, fmt.Errorf("open mastodon: %w", err)
	}
	return s, nil
}
