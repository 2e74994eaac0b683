// Package smtp hands e-mails to a relay by SMTP (RFC 5321). A relay takes no key
// and cannot be asked what it has taken: class OPAQUE (docs/platforms/smtp.md).
//
// A message is handed over by its last line, a dot, and by nothing before it. So
// an attempt that breaks off before the dot is proven to have had no effect, and
// one that breaks off between the dot and the relay's answer is unknown.
package smtp

import (
	"cmp"
	"context"
	"os"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Name is the connector's name, PayloadKind the kind of payload that it sends.
const (
	Name        = "smtp"
	PayloadKind = kit.EmailKind
)

// DefaultBusyWait is the pause after a relay answers the greeting, TLS or the login
// with a code of "not now" (4yz), which names no time.
const DefaultBusyWait = time.Minute

// Config makes a Connector.
type Config struct {
	// Sender dials. Required.
	Sender *transport.Sender
	// Media fetches attachments; nil refuses them.
	Media *kit.Media
	// HTTPSOnly refuses relays without TLS.
	HTTPSOnly bool
	// HeloName is the name in EHLO when a connection has none; empty means this host's
	// name, or its address if the name has no domain.
	HeloName string
	// BusyWait is how long a relay is left alone that will not talk just now; zero
	// means DefaultBusyWait.
	BusyWait time.Duration
	// Now returns the Date of messages; nil means time.Now.
	Now func() time.Time
}

// Connector is the SMTP connector. It is safe for concurrent use.
type Connector struct{ cfg Config }

var _ connector.Tester = (*Connector)(nil)

// New makes the connector.
func New(c Config) *Connector {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.HeloName == "" {
		// A name without a domain is worth less than the address (RFC 5321, section 4.1.4).
		if host, err := os.Hostname(); err == nil && strings.Contains(host, ".") {
			c.HeloName = host
		}
	}
	c.BusyWait = cmp.Or(c.BusyWait, DefaultBusyWait)
	return &Connector{cfg: c}
}

// Describe implements connector.Connector.
func (*Connector) Describe() connector.Description {
	return connector.Description{
		Name:        Name,
		Payloads:    []string{PayloadKind},
		Credentials: []string{"basic"},
		Classes:     []job.Class{job.Opaque},
		Promise: "One e-mail, handed to the relay at most once. An attempt that breaks off before the message's end is proven unsent and " +
			"tried again; one whose answer is lost stays unknown, and is never sent again on its own.",
		Replies: true,
	}
}

// Check implements connector.Connector. A connection needs no login.
func (c *Connector) Check(encoded []byte, cred connector.Credential) (connector.Capability, error) {
	s, err := c.settings(encoded)
	if err != nil {
		return connector.Capability{}, err
	}
	l, err := connector.Opened(cred, openLogin)
	if err != nil {
		return connector.Capability{}, err
	}
	if l.set && s.security == plain {
		return connector.Capability{}, badSettings(".security", "must not be SECURITY_NONE with a login: the password could be read on the way")
	}
	return connector.Capability{Traits: job.Traits{Class: job.Opaque}}, nil
}

// Prepare implements connector.Connector.
func (c *Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	mail, err := kit.ReadEmail(r, Name)
	if err != nil {
		return connector.Prepared{}, err
	}
	if err := mail.CheckFiles(c.cfg.Media, c.cfg.HTTPSOnly); err != nil {
		return connector.Prepared{}, err
	}
	m, err := compose(mail, r.EffectKey)
	if err != nil {
		return connector.Prepared{}, err
	}
	out := connector.Prepared{HoldKey: kit.HoldAccount, Frozen: m.freeze()}
	if len(m.files) > 0 {
		out.OpenTime = job.MaxOpenTimeout
	}
	return out, nil
}

// Open implements connector.Connector. It comes as far as the login; the relay
// hears nothing of the message.
func (c *Connector) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	m, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, kit.UnreadableFrozen("e-mail", err)
	}
	parts, err := c.fetch(ctx, m)
	if err != nil {
		return nil, err
	}
	s := &session{message: m, parts: parts, version: o.Credential.Version, now: c.cfg.Now}
	if s.dialog, err = c.dial(ctx, o); err != nil {
		s.letGo()
		return nil, err
	}
	if err := s.dialog.fits(m, s.size()); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Test implements connector.Tester: it connects and logs in, and sends no more.
func (c *Connector) Test(ctx context.Context, o connector.Opening) (connector.Tested, error) {
	d, err := c.dial(ctx, o)
	if err != nil {
		return connector.Tested{}, err
	}
	defer d.quit()
	words := "The relay " + d.target.String() + " answers"
	if d.conn.Secure() {
		words += ", with TLS"
	}
	if d.login.set {
		return connector.Tested{Detail: words + ", and takes the login."}, nil
	}
	return connector.Tested{Detail: words + ". The connection has no login; whether the relay takes mail without one shows with the first e-mail."}, nil
}
