// Package httpapi sends plain HTTP requests, such as payment calls, to APIs that dedupe
// on the header Idempotency-Key (IETF draft-ietf-httpapi-idempotency-key-header, Stripe
// and its like) or another one: class KEYED. For an API that does not dedupe the class is OPAQUE, and
// a request with an unknown outcome is not sent again.
package httpapi

import (
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
type Connector struct {
	kit.Base[permit, kit.Auth]
	kit.Deliverer

	cfg Config
}

var (
	_ connector.Connector = (*Connector)(nil)
	_ connector.Idler     = (*Connector)(nil)
)

// New makes the connector. A connection needs no credential.
func New(c Config) *Connector {
	out := &Connector{cfg: c, Base: kit.Base[permit, kit.Auth]{
		ReadSettings: readSettings, Fits: permit.fits, Offers: permit.offers,
		ReadCredential: kit.OpenKinds(kit.AuthBearer, kit.AuthBasic, kit.AuthAPIKey, kit.AuthHeaders),
	}}
	out.Deliverer = kit.Deliverer{Sender: c.Sender, Session: out.session}
	return out
}

// Describe implements connector.Connector.
func (*Connector) Describe() connector.Description {
	return connector.Description{
		Name:        Name,
		Payloads:    []string{PayloadKind},
		Credentials: []string{"bearer_token", "basic", "api_key_header", "headers"},
		Classes:     []job.Class{job.Keyed, job.Opaque},
		Promise: "One plain HTTP request. Where the receiver dedupes, its key header is the same for every attempt, and an unknown " +
			"outcome is settled by sending the same bytes again; for one that does not, it is never sent again on its own.",
	}
}

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
	may, err := readSettings(r.Settings)
	if err != nil {
		return connector.Prepared{}, err
	}
	q.keyHeader = may.keyHeader
	if refused := may.allows(q); refused != nil {
		return connector.Prepared{}, refused
	}
	return connector.Prepared{HoldKey: transport.TargetOf(q.message.URL).String(), Frozen: q.freeze()}, nil
}

// session reads what is to be sent.
func (c *Connector) session(o connector.Opening) (*kit.Delivery, error) {
	q, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, kit.UnreadableFrozen("request", err)
	}
	may, auth, err := c.Account(o)
	if err != nil {
		return nil, err
	}
	// The request may have been frozen before the owner limited the connection.
	if refused := may.allows(q); refused != nil {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the connection no longer allows this request: " + refused.Error(), Err: refused}
	}
	// The key is where the first attempt has it, and the credential may be another one since.
	if kit.HasHeader(auth.Headers, q.keyHeader) {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the credential has the header " + q.keyHeader + ", in which this job's key is sent"}
	}
	s := &sent{request: q, auth: auth, keyed: o.Class == job.Keyed}
	return &kit.Delivery{
		Method: q.method, Message: q.message, Auth: auth, Keyed: s.keyed, Own: s.headers, Narrow: s.narrow,
		Quote: may.stated.GetQuoteAnswers(), Keep: may.keep, Read: transport.MaxBody, Unacted: may.unacted, Refusals: may.refusals,
	}, nil
}
