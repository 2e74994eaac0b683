// Package resend sends e-mails through Resend's API (https://resend.com,
// docs/platforms/resend.md). It dedupes on the header Idempotency-Key for 24
// hours: class KEYED.
package resend

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Name is the connector's name, PayloadKind the kind of payload that it sends.
const (
	Name        = "resend"
	PayloadKind = kit.EmailKind
)

const (
	// Address is where the API is.
	Address = "https://api.resend.com"
	// KeyWindow is how long Resend remembers a key: "in the last 24 hours"
	// (resend.com/docs/dashboard/emails/idempotency-keys).
	KeyWindow = 24 * time.Hour
)

// Config makes a Connector.
type Config struct {
	// Sender opens connections. Required.
	Sender *transport.Sender
	// Media fetches attachments; nil refuses them.
	Media *kit.Media
	// HTTPSOnly refuses attachments without TLS.
	HTTPSOnly bool
	// BaseURL replaces Address; for tests.
	BaseURL string
}

// Connector is the connector for Resend. It is safe for concurrent use.
type Connector struct {
	kit.Base[struct{}, kit.Auth]

	cfg     Config
	emails  *url.URL
	domains *url.URL
}

var (
	_ connector.Connector = (*Connector)(nil)
	_ connector.Idler     = (*Connector)(nil)
	_ connector.Tester    = (*Connector)(nil)
)

// New makes the connector. It fails if the base URL is not valid.
func New(c Config) (*Connector, error) {
	base := cmp.Or(c.BaseURL, Address)
	emails, err := kit.Endpoint(base, "/emails", nil)
	if err != nil {
		return nil, fmt.Errorf("resend: %w", err)
	}
	return &Connector{
		Base: kit.Base[struct{}, kit.Auth]{
			ReadSettings:   kit.NoSettings(Name),
			ReadCredential: kit.OpenKinds(kit.AuthBearer),
			Offers:         func(struct{}) (connector.Capability, error) { return connector.Capability{Traits: traits}, nil },
		},
		cfg: c, emails: emails, domains: emails.ResolveReference(&url.URL{Path: "domains"}),
	}, nil
}

// Describe implements connector.Connector.
func (*Connector) Describe() connector.Description {
	return connector.Description{
		Name:               Name,
		Payloads:           []string{PayloadKind},
		Credentials:        []string{"bearer_token"},
		CredentialRequired: true,
		NoSettings:         true,
		Classes:            []job.Class{job.Keyed},
		Promise: "One e-mail through Resend, with attachments. Idempotency-Key is the same for every attempt, and an unknown outcome is settled by sending the " +
			"same bytes again while Resend surely remembers the key.",
	}
}

// traits: its API refuses the second of two requests under way with one key (docs/platforms/resend.md).
var traits = job.Traits{Class: job.Keyed, KeyWindow: KeyWindow, DedupesInFlight: true}

// Prepare implements connector.Connector.
func (c *Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	if r.ReplyTo != "" {
		return connector.Prepared{}, kit.BadEmail("", "Resend states no Message-ID that another e-mail could reply to; set in_reply_to or references")
	}
	mail, err := kit.ReadEmail(r, Name)
	if err != nil {
		return connector.Prepared{}, err
	}
	if err := c.checkFiles(mail); err != nil {
		return connector.Prepared{}, err
	}
	body, err := encode(mail)
	if err != nil {
		return connector.Prepared{}, err
	}
	out := connector.Prepared{HoldKey: kit.HoldAccount, Frozen: freeze(body, mail.Files)}
	if len(mail.Files) > 0 {
		out.OpenTime = job.MaxOpenTimeout
	}
	return out, nil
}

// Open implements connector.Connector.
func (c *Connector) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	s, err := c.session(o)
	if err != nil {
		return nil, err
	}
	if err := s.request.fetch(ctx, c.cfg.Media); err != nil {
		s.request.letGo()
		return nil, err
	}
	if err := s.Connect(ctx, c.cfg.Sender, o, transport.TargetOf(c.emails)); err != nil {
		s.request.letGo()
		return nil, err
	}
	return s, nil
}

// HasIdle implements connector.Idler.
func (c *Connector) HasIdle() bool { return c.cfg.Sender.HasIdle() }

// OpenIdle implements connector.Idler.
func (c *Connector) OpenIdle(o connector.Opening) connector.Session {
	s, err := c.session(o)
	if err != nil || len(s.request.files) > 0 { // files are waited for
		return nil
	}
	if !s.Reuse(c.cfg.Sender, o, transport.TargetOf(c.emails)) {
		return nil
	}
	return s
}

// session reads what is to be sent, for a connection that is opened later.
func (c *Connector) session(o connector.Opening) (*session, error) {
	body, files, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, kit.UnreadableFrozen("e-mail", err)
	}
	_, auth, err := c.Account(o)
	if err != nil {
		return nil, err
	}
	return &session{emails: c.emails, request: request{body: body, files: files}, auth: auth}, nil
}
