// Package httpapi sends plain HTTP requests, such as payment calls, to APIs that dedupe
// on the header Idempotency-Key (IETF draft-ietf-httpapi-idempotency-key-header, Stripe
// and its like): class KEYED. For an API that does not dedupe the class is OPAQUE, and
// a request with an unknown outcome is not sent again.
package httpapi

import (
	"context"

	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Name is the connector's name, PayloadKind the kind of payload that it sends.
const (
	Name        = "http"
	PayloadKind = "http_request"
)

// Config makes a Connector.
type Config struct {
	// Sender opens connections. Required.
	Sender *transport.Sender
	// HTTPSOnly refuses http URLs.
	HTTPSOnly bool
}

// Connector is the connector for plain HTTP. It is safe for concurrent use.
type Connector struct{ cfg Config }

var (
	_ connector.Connector = (*Connector)(nil)
	_ connector.Idler     = (*Connector)(nil)
)

// New makes the connector.
func New(c Config) *Connector { return &Connector{cfg: c} }

// Describe implements connector.Connector.
func (*Connector) Describe() connector.Description {
	return connector.Description{
		Name:        Name,
		Payloads:    []string{PayloadKind},
		Credentials: []string{"bearer_token", "basic", "api_key_header", "headers"},
		Classes:     []job.Class{job.Keyed, job.Opaque},
		Promise: "One plain HTTP request. Where the receiver dedupes, Idempotency-Key is the same for every attempt, and an unknown " +
			"outcome is settled by sending the same bytes again; for one that does not, it is never sent again on its own.",
	}
}

// Check implements connector.Connector. A connection needs no credential.
func (*Connector) Check(settings []byte, cred connector.Credential) (connector.Capability, error) {
	var none connector.Capability
	auth, err := connector.Opened(cred, openAuth)
	if err != nil {
		return none, err
	}
	s, _, err := readSettings(settings, len(auth.Headers) > 0)
	if err != nil {
		return none, err
	}
	traits, err := traitsOf(s)
	return connector.Capability{Traits: traits}, err
}

// Traits implements connector.Settler.
func (c *Connector) Traits(settings []byte) (job.Traits, error) {
	s, _, err := readSettings(settings, false)
	if err != nil {
		return job.Traits{}, err
	}
	return traitsOf(s)
}

func traitsOf(s *fireoncev1.HttpSettings) (job.Traits, error) {
	return kit.ReceiverTraits("settings.http", "Idempotency-Key", s)
}

// readSettings reads what a connection lets its jobs do; secret is set if there is a
// credential.
func readSettings(encoded []byte, secret bool) (*fireoncev1.HttpSettings, permit, error) {
	var s fireoncev1.HttpSettings
	if err := proto.Unmarshal(encoded, &s); err != nil {
		return nil, permit{}, badSettings("", "not readable")
	}
	may, err := newPermit(&s, secret)
	return &s, may, err
}

var openAuth = kit.OpenKinds(kit.AuthBearer, kit.AuthBasic, kit.AuthAPIKey, kit.AuthHeaders)

// Prepare implements connector.Connector.
func (c *Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	p, err := kit.ReadPayload(r, "the connector http sends HTTP requests", PayloadKind)
	if err != nil {
		return connector.Prepared{}, err
	}
	if r.ReplyTo != "" {
		return connector.Prepared{}, badPayload("", "an HTTP request cannot reply to another effect")
	}
	q, err := c.read(p.GetHttpRequest())
	if err != nil {
		return connector.Prepared{}, err
	}
	_, may, err := readSettings(r.Settings, false)
	if err != nil {
		return connector.Prepared{}, err
	}
	if refused := may.allows(q); refused != nil {
		return connector.Prepared{}, refused
	}
	return connector.Prepared{HoldKey: transport.TargetOf(q.message.URL).String(), Frozen: q.freeze()}, nil
}

// Open implements connector.Connector.
func (c *Connector) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	s, err := c.session(o)
	if err != nil {
		return nil, err
	}
	if s.Conn, err = c.cfg.Sender.Open(ctx, transport.TargetOf(s.request.message.URL), o.Fresh || !s.keyed); err != nil {
		return nil, err
	}
	return s, nil
}

// HasIdle implements connector.Idler.
func (c *Connector) HasIdle() bool { return c.cfg.Sender.HasIdle() }

// OpenIdle implements connector.Idler.
func (c *Connector) OpenIdle(o connector.Opening) connector.Session {
	s, err := c.session(o)
	if err != nil || o.Fresh || !s.keyed {
		return nil
	}
	if s.Conn = c.cfg.Sender.Idle(transport.TargetOf(s.request.message.URL)); s.Conn == nil {
		return nil
	}
	return s
}

// session reads what is to be sent, for a connection that is opened later.
func (c *Connector) session(o connector.Opening) (*session, error) {
	q, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, kit.UnreadableFrozen("request", err)
	}
	auth, err := connector.Opened(o.Credential, openAuth)
	if err != nil {
		return nil, kit.UnusableCredential(err)
	}
	_, may, err := readSettings(o.Settings, len(auth.Headers) > 0)
	if err != nil {
		return nil, kit.UnusableSettings(err)
	}
	// The request may have been frozen before the owner limited the connection.
	if refused := may.allows(q); refused != nil {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the connection no longer allows this request: " + refused.Error(), Err: refused}
	}
	return &session{
		Link: kit.Link{Version: o.Credential.Version}, request: q, auth: auth, keyed: o.Class == job.Keyed,
		quote: may.quote || len(auth.Headers) == 0, keep: may.keep,
	}, nil
}
