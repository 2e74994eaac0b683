// Package webhook sends signed webhooks by Standard Webhooks 1.0
// (https://www.standardwebhooks.com): a POST with webhook-id, webhook-timestamp
// and webhook-signature. webhook-id is the effect key and the same for every
// attempt, so that a receiver that dedupes on it has each event once.
package webhook

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// Name is the connector's name, and the kind of payload that it sends.
const Name = "webhook"

// Config makes a Connector.
type Config struct {
	// Sender opens the lines. Required.
	Sender *connector.Sender
	// HTTPSOnly refuses http URLs.
	HTTPSOnly bool
	// Now gives the time of signatures; nil means time.Now.
	Now func() time.Time
}

// Connector is the webhook connector. It is safe for concurrent use.
type Connector struct {
	sender    *connector.Sender
	httpsOnly bool
	now       func() time.Time
}

var _ connector.Connector = (*Connector)(nil)

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
		Name:     Name,
		Payloads: []string{Name},
		Classes:  []job.Class{job.Keyed, job.Opaque},
		Promise: "Signed by Standard Webhooks 1.0 with every secret of the connection; without a secret, unsigned. " +
			"webhook-id is the same for every attempt: a receiver that dedupes on it acts once; " +
			"for one that does not, an outcome that stays unknown is never sent again on its own.",
	}
}

// Check implements connector.Connector. A connection needs no credential; its
// webhooks are then unsigned.
func (*Connector) Check(settings []byte, cred connector.Credential) (connector.Capability, error) {
	var none connector.Capability
	if _, err := connector.Opened(cred, openCredential); err != nil {
		return none, err
	}
	var s fireoncev1.WebhookSettings
	if err := proto.Unmarshal(settings, &s); err != nil {
		return none, &connector.InputError{Reason: connector.BadSettings, Field: "settings.webhook", Msg: "not readable"}
	}
	traits, err := connector.ReceiverTraits("settings.webhook", "webhook-id", s.GetReceiverDedupes(), s.KeyWindow)
	return connector.Capability{Traits: traits}, err
}

// Prepare implements connector.Connector.
func (c *Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	if r.PayloadKind != Name {
		return connector.Prepared{}, &connector.InputError{
			Reason: connector.PayloadMismatch, Field: "payload", Msg: "the connector webhook sends webhooks only",
		}
	}
	var p fireoncev1.Payload
	if err := proto.Unmarshal(r.Payload, &p); err != nil || p.GetWebhook() == nil {
		return connector.Prepared{}, badPayload("", "not readable as a webhook")
	}
	if r.ReplyTo != "" {
		return connector.Prepared{}, badPayload("", "a webhook cannot reply to another effect")
	}
	m, err := c.read(p.GetWebhook())
	if err != nil {
		return connector.Prepared{}, err
	}
	return connector.Prepared{HoldKey: connector.TargetOf(m.URL).String(), Frozen: m.Freeze(job.NewCanon()).Bytes()}, nil
}

func badPayload(field, msg string) *connector.InputError {
	if field != "" {
		field = "." + field
	}
	return &connector.InputError{Reason: connector.BadPayload, Field: "payload.webhook" + field, Msg: msg}
}

// Open implements connector.Connector.
func (c *Connector) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	m, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the stored request is not readable", Err: err}
	}
	cred, err := connector.Opened(o.Credential, openCredential)
	if err != nil {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the connection's credential cannot sign webhooks", Err: err}
	}
	line, err := c.sender.Open(ctx, connector.TargetOf(m.URL), o.Fresh || o.Class != job.Keyed)
	if err != nil {
		return nil, fmt.Errorf("open webhook: %w", err)
	}
	return &session{line: line, message: m, cred: cred, version: o.Credential.Version, keyed: o.Class == job.Keyed, now: c.now}, nil
}
