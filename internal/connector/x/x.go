// Package x posts to X and sends direct messages there (API v2,
// docs/platforms/x.md). X takes no key, so an unknown outcome is looked up among
// the account's own posts: class OBSERVABLE.
package x

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
	Name        = "x"
	KindPost    = "social_post"
	KindMessage = "direct_message"
)

// DefaultBaseURL is where X serves its API.
const DefaultBaseURL = "https://api.x.com"

// Hold keys. X limits posts and direct messages apart, and direct messages much
// more: one must not hold the other.
const (
	holdPosts    = "posts"
	holdMessages = "messages"
)

// DefaultSettle is 2 minutes, then three absences over 15 minutes. X documents no read
// lag; ours is an assumption (docs/platforms/x.md).
var DefaultSettle = lookup.Settle{ReadLag: 2 * time.Minute, Negatives: 3, Spacing: 7*time.Minute + 30*time.Second}

// Config makes a Connector.
type Config struct {
	// Sender opens connections. Required.
	Sender *transport.Sender
	// BaseURL replaces DefaultBaseURL: the operator's, for tests.
	BaseURL string
	// Media reads the pictures that posts refer to; nil: none are sent.
	Media *kit.Media
	// Settle replaces DefaultSettle; nil keeps it.
	Settle *lookup.Settle
	// Now returns this process's time; nil means time.Now.
	Now func() time.Time
}

// Connector is the connector for X. It is safe for concurrent use.
type Connector struct {
	sender *transport.Sender
	base   string
	media  *kit.Media
	settle lookup.Settle
	now    func() time.Time
	owners *cache.TTL[[sha256.Size]byte, string] // the account of each token, which never changes
}

var (
	_ connector.Observer   = (*Connector)(nil)
	_ connector.Identifier = (*Connector)(nil)
	_ connector.Tester     = (*Connector)(nil)
)

// New makes the connector.
func New(c Config) *Connector {
	out := &Connector{
		sender: c.Sender, base: strings.TrimSuffix(c.BaseURL, "/"), media: c.Media, settle: DefaultSettle, now: c.Now,
		owners: cache.New[[sha256.Size]byte, string](cache.Options{Max: maxOwners}),
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
		Credentials:        []string{"oauth2", "bearer_token"},
		CredentialRequired: true,
		Classes:            []job.Class{job.Observable},
		Promise: "Posts with pictures, replies, quotes and direct messages. X does not dedupe; an outcome that stays unknown is looked up " +
			"in the account's own posts, or in the conversation, and sent again only when complete looks, spaced in time, have " +
			"proven that it is not there.",
		Replies: true,
	}
}

func readSettings(encoded []byte) (*fireoncev1.XSettings, error) {
	var s fireoncev1.XSettings
	if err := proto.Unmarshal(encoded, &s); err != nil {
		return nil, &connector.InputError{Reason: connector.BadSettings, Field: "settings.x", Msg: "not readable"}
	}
	return &s, nil
}

func openAuth(c connector.Credential) (kit.Auth, error) {
	auth, err := kit.OpenAuth(c, kit.AuthOAuth2|kit.AuthBearer)
	if err == nil && len(auth.Headers) == 0 {
		err = &connector.InputError{Reason: connector.BadCredential, Field: "credential", Msg: "this X account has no credential: connect it"}
	}
	return auth, err
}

// Check implements connector.Connector. It does not ask X: whose account the
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

// Prepare implements connector.Connector.
func (c *Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	s, err := readSettings(r.Settings)
	if err != nil {
		return connector.Prepared{}, err
	}
	var p fireoncev1.Payload
	if r.PayloadKind != KindPost && r.PayloadKind != KindMessage {
		return connector.Prepared{}, &connector.InputError{
			Reason: connector.PayloadMismatch, Field: "payload", Msg: "the connector x sends social posts and direct messages only",
		}
	}
	if err := proto.Unmarshal(r.Payload, &p); err != nil {
		return connector.Prepared{}, badPayload("", "not readable")
	}
	var out content
	hold := holdPosts
	switch {
	case r.PayloadKind == KindPost && p.GetSocialPost() != nil:
		if out, err = readPost(p.GetSocialPost(), r.ReplyTo, s.GetLongPosts()); err == nil && len(out.Pictures) > 0 && c.media == nil {
			err = badPayload(".social_post.media", "this server sends no media to X")
		}
	case r.PayloadKind == KindMessage && p.GetDirectMessage() != nil:
		out, err = readMessage(p.GetDirectMessage(), r.ReplyTo)
		hold = holdMessages
	default:
		err = badPayload("", "not readable as what it is said to be")
	}
	if err != nil {
		return connector.Prepared{}, err
	}
	gate := out.fingerprint()
	prepared := connector.Prepared{HoldKey: hold, Frozen: out.freeze(), Gate: gate[:]}
	if len(out.Pictures) > 0 {
		prepared.OpenTime = openTime
	}
	return prepared, nil
}

// Open implements connector.Connector. It first uploads pictures, which no user sees: X
// deletes them within a day if no post has them.
func (c *Connector) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	want, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, kit.UnreadableFrozen("request", err)
	}
	auth, err := account(o)
	if err != nil {
		return nil, err
	}
	pictures, err := c.upload(ctx, auth, want.Pictures)
	if err != nil {
		return nil, err
	}
	body, err := want.encode(pictures)
	if err != nil {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the stored request cannot be encoded", Err: err}
	}
	to, err := c.url(want.path(), nil)
	if err != nil {
		return nil, err
	}
	conn, err := c.sender.Open(ctx, transport.TargetOf(to), true)
	if err != nil {
		return nil, fmt.Errorf("open x: %w", err)
	}
	return &session{conn: conn, auth: auth, to: to, body: body, message: want.Recipient != "", version: o.Credential.Version}, nil
}

// account opens the credential. It fails with *connector.Refusal.
func account(o connector.Opening) (kit.Auth, error) {
	auth, err := connector.Opened(o.Credential, openAuth)
	if err != nil {
		return kit.Auth{}, &connector.Refusal{Kind: job.FailAuth, Msg: "the credential is not usable: reconnect this X account", Err: err}
	}
	return auth, nil
}

// url returns the address of a call. It fails with *connector.Refusal.
func (c *Connector) url(path string, query url.Values) (*url.URL, error) {
	u, err := transport.ParseURL(c.base + path)
	if err != nil {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "this server's address for X is not usable", Err: err}
	}
	out := *u
	out.RawQuery = query.Encode()
	return &out, nil
}
