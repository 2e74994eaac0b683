// Package bluesky posts to Bluesky and to other personal data servers of the AT
// Protocol (docs/platforms/bluesky.md). The client chooses a record's key there, so a
// job's post has one key in the account's repository, and putting the same record there
// again changes nothing: class KEYED.
package bluesky

import (
	"context"
	"crypto/sha256"
	"net/url"
	"strings"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/redact"
)

// Name is the connector's name, PayloadKind the kind of payload that it sends.
const (
	Name        = "bluesky"
	PayloadKind = "social_post"
)

const (
	// DefaultBaseURL is BlueskySettings.base_url when unset.
	DefaultBaseURL = "https://bsky.social"
	// KeyWindow is how long a repeat counts as harmless. A record's key never expires,
	// but the longer the wait, the more likely it is that a person has deleted the
	// post, and a repeat would bring it back.
	KeyWindow = 24 * time.Hour
)

// Config makes a Connector.
type Config struct {
	// Sender opens connections. Required.
	Sender *transport.Sender
	// Media fetches images; nil: posts with images are refused.
	Media *kit.Media
	// HTTPSOnly refuses http URLs.
	HTTPSOnly bool
	// Now returns this process's time; nil means time.Now.
	Now func() time.Time
}

// Connector is the connector for Bluesky. It is safe for concurrent use.
type Connector struct {
	kit.Base[*url.URL, secret] // the settings are the address of the account's server

	cfg    Config
	logins *cache.TTL[[sha256.Size]byte, *cachedLogin]
}

var (
	_ connector.Connector = (*Connector)(nil)
	_ connector.Tester    = (*Connector)(nil)
	_ connector.Owned     = (*session)(nil)
)

// New makes the connector.
func New(c Config) *Connector {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Connector{
		Base: kit.Base[*url.URL, secret]{
			ReadSettings: func(encoded []byte) (*url.URL, error) {
				bad := kit.Bad(connector.BadSettings, "settings.bluesky")
				base, err := kit.ReadServer(encoded, &connectionsv1.BlueskySettings{}, DefaultBaseURL, c.HTTPSOnly, bad)
				switch {
				case err != nil:
					return nil, err
				case base.Host == "bsky.app": // the pages, without accounts
					return nil, bad(".base_url", "must be the account's server: write "+DefaultBaseURL+", or leave it out")
				}
				return base, kit.NoPage(base, bad, "xrpc", "profile")
			},
			ReadCredential: readSecret,
			Offers:         func(*url.URL) (connector.Capability, error) { return connector.Capability{Traits: traits}, nil },
		},
		cfg:    c,
		logins: cache.New[[sha256.Size]byte, *cachedLogin](cache.Options{Max: maxLogins}),
	}
}

// Describe implements connector.Connector.
func (*Connector) Describe() connector.Description {
	return connector.Description{
		Name:               Name,
		Payloads:           []string{PayloadKind},
		Credentials:        []string{"basic"},
		CredentialRequired: true,
		Classes:            []job.Class{job.Keyed},
		Promise: "Posts with images, replies and quotes on Bluesky. Each job's post has one key in the account's repository; an unknown " +
			"outcome is settled by putting the same post there again, which changes nothing if it is there.",
		Replies: true, EndlessKeys: true,
	}
}

// traits: its server writes a record under its key in one transaction (docs/platforms/bluesky.md).
var traits = job.Traits{Class: job.Keyed, KeyWindow: KeyWindow, DedupesInFlight: true}

// secret is an opened credential: the sign-in name and its app password.
type secret struct {
	redact.All

	user, password string
}

func readSecret(c connector.Credential) (secret, error) {
	bad := kit.Bad(connector.BadCredential, "credential")
	pb, err := kit.ReadCredential(c)
	if err != nil {
		return secret{}, err
	}
	basic := pb.GetBasic()
	switch {
	case basic == nil:
		return secret{}, bad("", "this connector takes basic: the account's handle or e-mail address, and an app password")
	case len(pb.GetHeaders()) > 0:
		return secret{}, bad(".headers", "this connector takes no further headers")
	case basic.GetPassword() == "":
		return secret{}, bad(".basic.password", "must be an app password of the account")
	}
	user := strings.TrimPrefix(strings.TrimSpace(basic.GetUsername()), "@")
	if user == "" {
		return secret{}, bad(".basic.username", "must be the account's handle or e-mail address")
	}
	return secret{user: user, password: basic.GetPassword()}, nil
}

// Prepare implements connector.Connector.
func (c *Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	p, err := kit.ReadPayload(r, "the connector bluesky sends social posts", PayloadKind)
	if err != nil {
		return connector.Prepared{}, err
	}
	q, err := read(p.GetSocialPost(), r)
	if err != nil {
		return connector.Prepared{}, err
	}
	if err := images.Check(c.cfg.Media, q.media, q.badMedia()); err != nil {
		return connector.Prepared{}, err
	}
	if c.cfg.Media == nil {
		q.link = "" // this server fetches nothing
	}
	frozen, err := q.freeze()
	if err != nil {
		return connector.Prepared{}, badPayload("", "cannot be encoded")
	}
	out := connector.Prepared{HoldKey: kit.HoldAccount, Frozen: frozen}
	if len(q.media) > 0 || q.mentions() || q.link != "" {
		out.OpenTime = openTime
	}
	return out, nil
}

// account is an account on a server with the data that requests need.
type account struct {
	base   *url.URL
	secret secret
}

func (c *Connector) account(o connector.Opening) (account, error) {
	base, s, err := c.Account(o)
	return account{base: base, secret: s}, err
}

// Open implements connector.Connector. It signs in if there is no valid session,
// reads the post that is answered, if any, and uploads images.
func (c *Connector) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	q, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, kit.UnreadableFrozen("post", err)
	}
	a, err := c.account(o)
	if err != nil {
		return nil, err
	}
	in, err := c.signedIn(ctx, a)
	if err != nil {
		return nil, err
	}
	if q.record.Reply, err = c.parent(ctx, in, q.replyTo); err != nil {
		return nil, err
	}
	if err := c.mention(ctx, in, &q); err != nil {
		return nil, err
	}
	if err := c.show(ctx, in, &q); err != nil {
		return nil, err
	}
	s := &session{c: c, in: in, post: q}
	s.Call = kit.Call{
		Base: in.base.String(), Path: pathXRPC + methodPut, Body: q.commit(in.did),
		Auth: kit.Auth{Headers: []transport.Header{bearer(in.access)}},
	}
	if _, err := s.Open(ctx, c.cfg.Sender, o); err != nil {
		return nil, err
	}
	return s, nil
}

// Test implements connector.Tester. It signs in again, because a session that is still
// valid proves nothing about the password.
func (c *Connector) Test(ctx context.Context, o connector.Opening) (connector.Tested, error) {
	a, err := c.account(o)
	if err != nil {
		return connector.Tested{}, err
	}
	in, err := c.signIn(ctx, a)
	if err != nil {
		return connector.Tested{}, err
	}
	return connector.Tested{Identity: in.did, Detail: transport.Clean("signed in as @"+in.handle+" ("+in.did+")", transport.MaxMessage)}, nil
}
