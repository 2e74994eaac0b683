// Package webhook sends signed webhooks by Standard Webhooks 1.0
// (https://www.standardwebhooks.com): a POST with webhook-id, webhook-timestamp
// and webhook-signature. webhook-id is the effect key and the same for every
// attempt, so that a receiver that dedupes on it has each event once.
package webhook

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Name is the connector's name, and the kind of payload that it sends.
const Name = "webhook"

// Config makes a Connector.
type Config struct {
	// Sender opens connections. Required.
	Sender *transport.Sender
	// HTTPSOnly refuses http URLs.
	HTTPSOnly bool
	// Now returns the time of signatures; nil means time.Now.
	Now func() time.Time
}

// Connector is the webhook connector. It is safe for concurrent use.
type Connector struct{ cfg Config }

var (
	_ connector.Connector = (*Connector)(nil)
	_ connector.Idler     = (*Connector)(nil)
)

// New makes the connector.
func New(c Config) *Connector {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Connector{cfg: c}
}

// Describe implements connector.Connector.
func (*Connector) Describe() connector.Description {
	return connector.Description{
		Name:        Name,
		Payloads:    []string{Name},
		Credentials: []string{"webhook_secrets", "headers"},
		Classes:     []job.Class{job.Keyed, job.Opaque},
		Promise: "Signed by Standard Webhooks 1.0 with every secret of the connection; without a secret, unsigned. " +
			"webhook-id is the same for every attempt: a receiver that dedupes on it acts once; " +
			"for one that does not, an outcome that stays unknown is never sent again on its own.",
	}
}

// Check implements connector.Connector. A connection needs no credential; its
// webhooks are then unsigned.
func (*Connector) Check(settings []byte, cred connector.Credential) (connector.Capability, error) {
	var none connector.Capability
	secret, err := connector.Opened(cred, openCredential)
	if err != nil {
		return none, err
	}
	// A signature discloses nothing of its secret; headers are sent as they are.
	s, err := readSettings(settings, len(secret.headers) > 0)
	if err != nil {
		return none, err
	}
	traits, err := traitsOf(s.stated)
	return connector.Capability{Traits: traits}, err
}

// Traits implements connector.Settler.
func (c *Connector) Traits(settings []byte) (job.Traits, error) {
	s, err := readSettings(settings, false)
	if err != nil {
		return job.Traits{}, err
	}
	return traitsOf(s.stated)
}

func traitsOf(s *fireoncev1.WebhookSettings) (job.Traits, error) {
	return kit.ReceiverTraits("settings.webhook", "webhook-id", s)
}

// settings are a connection's, as they were read and checked. They are shared and must
// not be changed.
type settings struct {
	stated  *fireoncev1.WebhookSettings
	origins kit.Origins
	keep    *kit.Keep
}

// maxSettingsCached bounds the settings in each of the two caches.
const maxSettingsCached = 512

// read caches settings: each attempt asks for them three times. Those at true were checked for a
// connection whose secrets are sent as they are.
var read = map[bool]*cache.TTL[string, settings]{
	false: cache.New[string, settings](cache.Options{Max: maxSettingsCached}),
	true:  cache.New[string, settings](cache.Options{Max: maxSettingsCached}),
}

// readSettings checks the origins; secret is set where secrets are sent as they are.
func readSettings(encoded []byte, secret bool) (settings, error) {
	known := read[secret]
	if s, ok := cache.GetBytes(known, encoded); ok {
		return s, nil
	}
	s := settings{stated: new(fireoncev1.WebhookSettings)}
	if err := proto.Unmarshal(encoded, s.stated); err != nil {
		return settings{}, kit.Bad(connector.BadSettings, "settings.webhook")("", "not readable")
	}
	var err error
	if s.origins, err = kit.ParseOrigins("settings.webhook", s.stated.GetOrigins(), secret); err != nil {
		return settings{}, err
	}
	if s.keep, err = kit.ParseKeep("settings.webhook", s.stated.GetKeepAnswer()); err != nil {
		return settings{}, err
	}
	known.Put(string(encoded), s)
	return s, nil
}

// Prepare implements connector.Connector.
func (c *Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	p, err := kit.ReadPayload(r, "the connector webhook sends webhooks", Name)
	if err != nil {
		return connector.Prepared{}, err
	}
	if r.ReplyTo != "" {
		return connector.Prepared{}, badPayload("", "a webhook cannot reply to another effect")
	}
	m, err := c.read(p.GetWebhook())
	if err != nil {
		return connector.Prepared{}, err
	}
	s, err := readSettings(r.Settings, false)
	if err != nil {
		return connector.Prepared{}, err
	}
	if !s.origins.Allow(m.URL) {
		return connector.Prepared{}, badPayload(".url", "is not at one of the connection's origins")
	}
	return connector.Prepared{HoldKey: transport.TargetOf(m.URL).String(), Frozen: m.Encode(job.NewCanon()).Bytes()}, nil
}

var badPayload = kit.Bad(connector.BadPayload, "payload.webhook")

// Open implements connector.Connector.
func (c *Connector) Open(ctx context.Context, o connector.Opening) (connector.Session, error) {
	s, err := c.session(o)
	if err != nil {
		return nil, err
	}
	if s.Conn, err = c.cfg.Sender.Open(ctx, transport.TargetOf(s.message.URL), o.Fresh || !s.keyed); err != nil {
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
	if s.Conn = c.cfg.Sender.Idle(transport.TargetOf(s.message.URL)); s.Conn == nil {
		return nil
	}
	return s
}

// session reads what is to be sent, for a connection that is opened later.
func (c *Connector) session(o connector.Opening) (*session, error) {
	m, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, kit.UnreadableFrozen("request", err)
	}
	cred, err := connector.Opened(o.Credential, openCredential)
	if err != nil {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the connection's credential cannot sign webhooks", Err: err}
	}
	out := &session{
		Link: kit.Link{Version: o.Credential.Version}, message: m, cred: cred, keyed: o.Class == job.Keyed, now: c.cfg.Now, quote: true,
	}
	s, err := readSettings(o.Settings, len(cred.headers) > 0)
	if err != nil {
		return nil, kit.UnusableSettings(err)
	}
	if out.keep = s.keep; len(cred.headers) == 0 {
		return out, nil // nothing secret is sent
	}
	// The request may have been frozen before the owner limited the connection.
	if !s.origins.Allow(m.URL) {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the URL is no longer at one of the connection's origins"}
	}
	out.quote = s.stated.GetQuoteAnswers()
	return out, nil
}
