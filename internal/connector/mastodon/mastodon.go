// Package mastodon posts to Mastodon and to other servers that speak its API
// (docs/platforms/mastodon.md). Mastodon itself dedupes on Idempotency-Key for an hour:
// class KEYED. Others ignore the key, so there a look finds an unknown outcome in the
// account's own posts: class OBSERVABLE. The server's owner states which of the two a
// server is, or the connector asks the server.
package mastodon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"net/url"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
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
	kit.Base[settings, kit.Auth]
	lookup.Watermarks

	cfg      Config
	servers  *cache.TTL[string, bool]              // whether a server dedupes, by its base URL
	accounts *cache.TTL[[sha256.Size]byte, person] // the account of each token
	limits   *cache.TTL[string, limits]            // what a server stated, by its base URL
}

var (
	_ connector.Observer   = (*Connector)(nil)
	_ connector.Identifier = (*Connector)(nil)
	_ connector.Prober     = (*Connector)(nil)
	_ connector.Tester     = (*Connector)(nil)
	_ connector.Limiter    = (*Connector)(nil)
)

// New makes the connector.
func New(c Config) *Connector {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Settle = cmp.Or(c.Settle, &DefaultSettle)
	out := &Connector{
		cfg: c, Watermarks: watermarks,
		servers:  cache.New[string, bool](cache.Options{Max: maxRemembered, Age: probeLasts, Now: c.Now}),
		limits:   cache.New[string, limits](cache.Options{Max: maxRemembered, Age: limitsLast, Now: c.Now}),
		accounts: cache.New[[sha256.Size]byte, person](cache.Options{Max: maxRemembered, Age: accountLasts, Now: c.Now}),
	}
	out.Base = kit.Base[settings, kit.Auth]{
		ReadSettings: out.readSettings, ReadCredential: kit.OpenToken("must be an access token of the account"), Offers: out.stated,
	}
	return out
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
	base    *url.URL // the server's
	dedupes connectionsv1.ReceiverDedupes
}

func (c *Connector) readSettings(encoded []byte) (settings, error) {
	var s connectionsv1.MastodonSettings
	bad := kit.Bad(connector.BadSettings, "settings.mastodon")
	base, err := kit.ReadServer(encoded, &s, "", c.cfg.HTTPSOnly, bad)
	if err == nil {
		err = kit.NoPage(base, bad, "api", "users", "web", "deck", "home")
	}
	return settings{base: base, dedupes: s.GetServerDedupes()}, err
}

const (
	unstated = connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_UNSPECIFIED
	dedupes  = connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES
)

// stated returns what holds as far as the settings say. If they do not, jobs of both
// classes may be in flight; if a server was found to dedupe, its jobs have its window.
func (c *Connector) stated(s settings) (connector.Capability, error) {
	out := connector.Capability{Traits: c.traits(s.dedupes == dedupes), Unsure: s.dedupes == unstated}
	if out.Unsure {
		out.KeyWindow = KeyWindow
	}
	return out, nil
}

func (c *Connector) traits(keyed bool) job.Traits {
	if keyed {
		return job.Traits{Class: job.Keyed, KeyWindow: KeyWindow}
	}
	return c.cfg.Settle.Traits()
}

// Prepare implements connector.Connector.
func (c *Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	p, err := kit.ReadPayload(r, "the connector mastodon sends social posts", PayloadKind)
	if err != nil {
		return connector.Prepared{}, err
	}
	s, err := c.ReadSettings(r.Settings)
	if err != nil {
		return connector.Prepared{}, err
	}
	post, err := read(p.GetSocialPost(), r.ReplyTo)
	if err != nil {
		return connector.Prepared{}, err
	}
	if err := files.Check(c.cfg.Media, post.media, badPayload); err != nil {
		return connector.Prepared{}, err
	}
	out := connector.Prepared{HoldKey: kit.HoldAccount, Frozen: post.freeze()}
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
	s, auth, err := c.Account(o)
	return account{settings: s, auth: auth}, err
}

// call is a request to the server.
func (a account) call(path string, query url.Values, body any) kit.Call {
	return kit.Call{Base: a.base.String(), Path: path, Query: query, Auth: a.auth, Body: body}
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
	if post.MediaIDs, err = c.attach(ctx, a, post.media); err != nil {
		return nil, err
	}
	// The key goes to servers that are not known to heed it, too: it does no harm, and one that does
	// dedupe is the better for it.
	return (&kit.Post{
		Call: a.call("/api/v1/statuses", nil, post), Keyed: true,
		Classify: func(answer transport.Response) job.Outcome { return classify(answer, a.auth.Hidden) },
	}).Open(ctx, c.cfg.Sender, o)
}
