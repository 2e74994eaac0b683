// Package x posts to X and sends direct messages there (API v2,
// docs/platforms/x.md). X takes no key, so an unknown outcome is looked up among
// the account's own posts: class OBSERVABLE.
package x

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
	kit.Base[*connectionsv1.XSettings, kit.Auth]
	lookup.Watermarks

	cfg    Config
	owners *cache.TTL[[sha256.Size]byte, string] // the account of each token, which never changes
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
		Base: kit.Base[*connectionsv1.XSettings, kit.Auth]{
			ReadSettings: readSettings, Reconnect: "reconnect this X account",
			ReadCredential: kit.OpenToken("this X account has no credential: connect it"),
			Offers: func(*connectionsv1.XSettings) (connector.Capability, error) {
				return connector.Capability{Traits: c.Settle.Traits()}, nil
			},
		},
		cfg: c, Watermarks: watermarks,
		owners: cache.New[[sha256.Size]byte, string](cache.Options{Max: maxOwners}),
	}
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

func readSettings(encoded []byte) (*connectionsv1.XSettings, error) {
	var s connectionsv1.XSettings
	if err := proto.Unmarshal(encoded, &s); err != nil {
		return nil, &connector.InputError{Reason: connector.BadSettings, Field: "settings.x", Msg: "not readable"}
	}
	return &s, nil
}

// Prepare implements connector.Connector.
func (c *Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	s, err := readSettings(r.Settings)
	if err != nil {
		return connector.Prepared{}, err
	}
	p, err := kit.ReadPayload(r, "the connector x sends social posts and direct messages", KindPost, KindMessage)
	if err != nil {
		return connector.Prepared{}, err
	}
	var out content
	hold := holdPosts
	if r.PayloadKind == KindPost {
		if out, err = readPost(p.GetSocialPost(), r.ReplyTo, s.GetLongPosts()); err == nil {
			err = pictures.Check(c.cfg.Media, out.Pictures, kit.Bad(connector.BadPayload, "payload.social_post"))
		}
	} else {
		out, err = readMessage(p.GetDirectMessage(), r.ReplyTo)
		hold = holdMessages
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
	_, auth, err := c.Account(o)
	if err != nil {
		return nil, err
	}
	ids, err := c.upload(ctx, auth, want.Pictures)
	if err != nil {
		return nil, err
	}
	return (&kit.Post{
		Call:     kit.Call{Base: c.cfg.BaseURL, Path: want.path(), Auth: auth, Body: want.body(ids)},
		Classify: func(a transport.Response) job.Outcome { return classify(a, want.Recipient != "", auth.Hidden) },
	}).Open(ctx, c.cfg.Sender, o)
}
