package kit

import (
	"bytes"
	"context"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// ReceiverName names a receiver of the user's own in messages.
const ReceiverName = "the receiver"

// Delivery is a session that sends a Message to a receiver of the user's own.
type Delivery struct {
	Link

	Method  string
	Message Message
	Auth    Auth
	Keyed   bool
	// Quote allows answers to be quoted although the request carries headers of a credential.
	Quote bool
	// Keep is what is kept of the answer, and Read is how much of it the connector reads, in bytes.
	Keep *Keep
	Read int64
	// Unacted are the answers that prove that the receiver did not act.
	Unacted Unacted
	// Refusals say for how long refusals are temporary.
	Refusals Refusals
	// Own returns the connector's own headers.
	Own func(connector.Commit) []transport.Header
	// Narrow changes what transport.ClassifyNamed has made of an answer.
	Narrow func(*job.Outcome, transport.Response)
}

// Publish implements connector.Session.
func (d *Delivery) Publish(c connector.Commit) job.Outcome {
	m := d.Message
	return d.Commit(c, transport.Request{
		Method: d.Method, URL: m.URL, Headers: Traced(c, m.Under(d.Own(c), d.Auth.Headers)),
		Body: bytes.NewReader(m.Body), Length: int64(len(m.Body)), Keep: d.Keep.BodyLimit(d.Read, d.hidden),
		StatusDecides: true,
	}, d.Judge)
}

// hidden are the secrets that the receiver may repeat.
func (d *Delivery) hidden() transport.Secrets { return d.Message.Hide(d.Auth.Hidden) }

// Judge returns what an answer says of the attempt.
func (d *Delivery) Judge(a transport.Response) job.Outcome {
	var hide func() transport.Secrets
	if d.Quote || len(d.Auth.Headers) == 0 {
		hide = d.hidden
	}
	o := transport.ClassifyNamed(a, ReceiverName, hide, d.Keyed)
	d.Unacted.Judge(&o, a)
	d.Narrow(&o, a)
	d.Refusals.Judge(&o, a)
	o.Answer = d.Keep.Of(a, d.hidden)
	return o
}

// Deliverer is a connector whose sessions are deliveries. Connectors embed it.
type Deliverer struct {
	Sender *transport.Sender
	// Session reads what is to be sent. It fails with *Refusal.
	Session func(connector.Opening) (*Delivery, error)
}

// Open implements connector.Connector.
func (d Deliverer) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	s, err := d.Session(o)
	if err != nil {
		return nil, err
	}
	if err := s.Connect(ctx, d.Sender, o, transport.TargetOf(s.Message.URL)); err != nil {
		return nil, err
	}
	return s, nil
}

// HasIdle implements connector.Idler.
func (d Deliverer) HasIdle() bool { return d.Sender.HasIdle() }

// OpenIdle implements connector.Idler.
func (d Deliverer) OpenIdle(o connector.Opening) connector.Session {
	s, err := d.Session(o)
	if err != nil || !s.Reuse(d.Sender, o, transport.TargetOf(s.Message.URL)) {
		return nil
	}
	return s
}
