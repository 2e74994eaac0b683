// Package webhook sends signed webhooks by Standard Webhooks 1.0
// (https://www.standardwebhooks.com): a POST with webhook-id, webhook-timestamp
// and webhook-signature. webhook-id is the effect key and the same for every
// attempt, so that a receiver that dedupes on it has each event once.
package webhook

import (
	"net/url"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	// Name is the connector's name, and the kind of payload that it sends.
	Name = "webhook"
	// MaxBody bounds a webhook's body, in bytes.
	MaxBody = kit.MaxRequestBody
)

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
type Connector struct {
	kit.Base[settings, credential]
	kit.Deliverer

	cfg Config
}

var (
	_ connector.Connector = (*Connector)(nil)
	_ connector.Idler     = (*Connector)(nil)
)

// New makes the connector. A connection needs no credential; its webhooks are then unsigned.
func New(c Config) *Connector {
	if c.Now == nil {
		c.Now = time.Now
	}
	out := &Connector{cfg: c, Base: kit.Base[settings, credential]{
		ReadSettings: readSettings, ReadCredential: openCredential, Fits: settings.fits, Offers: settings.offers,
	}}
	out.Deliverer = kit.Deliverer{Sender: c.Sender, Session: out.session}
	return out
}

// Describe implements connector.Connector.
func (*Connector) Describe() connector.Description {
	return connector.Description{
		Name:        Name,
		Payloads:    []string{Name},
		Credentials: []string{"webhook_secrets", "headers"},
		Classes:     []job.Class{job.Keyed, job.Opaque},
		Retry:       retry,
		Promise: "Signed by Standard Webhooks 1.0 with every secret of the connection; without a secret, unsigned. " +
			"webhook-id is the same for every attempt: a receiver that dedupes on it acts once; " +
			"for one that does not, an outcome that stays unknown is never sent again on its own.",
	}
}

// retry keeps trying for about a day, as senders of webhooks do: a receiver is deployed, moved
// and down. The last attempt comes before half of a key window of two days is over.
var retry = job.RetryPolicy{
	MaxAttempts: 12, KeepTrying: 24 * time.Hour,
	Delays: []time.Duration{
		2 * time.Second, 10 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 8 * time.Hour,
	},
}

// settings are a connection's, as they were read and checked. They are shared and must
// not be changed.
type settings struct {
	stated   *connectionsv1.WebhookSettings
	origins  kit.Origins
	keep     *kit.Keep
	unacted  kit.Unacted
	refusals kit.Refusals
}

// maxSettingsCached bounds the settings in the cache.
const maxSettingsCached = 512

// read caches settings: each attempt asks for them three times.
var read = cache.New[string, settings](cache.Options{Max: maxSettingsCached})

func readSettings(encoded []byte) (settings, error) {
	if s, ok := cache.GetBytes(read, encoded); ok {
		return s, nil
	}
	s := settings{stated: new(connectionsv1.WebhookSettings)}
	if err := proto.Unmarshal(encoded, s.stated); err != nil {
		return settings{}, kit.Bad(connector.BadSettings, pathSettings)("", "not readable")
	}
	var err error
	if s.origins, err = kit.ParseOrigins(pathSettings, s.stated.GetOrigins()); err != nil {
		return settings{}, err
	}
	if s.keep, err = kit.ParseKeep(pathSettings, s.stated.GetKeepAnswer()); err != nil {
		return settings{}, err
	}
	if s.unacted, err = kit.ParseUnacted(pathSettings, s.stated.GetUnacted()); err != nil {
		return settings{}, err
	}
	if s.refusals, err = kit.ParseRefusals(pathSettings, s.stated.GetRefusals()); err != nil {
		return settings{}, err
	}
	read.Put(string(encoded), s)
	return s, nil
}

const pathSettings = "settings.webhook"

// fits checks headers only: a signature discloses nothing of its secret.
func (s settings) fits(cred credential) error { return s.origins.CheckSent(pathSettings, cred.Headers) }

func (s settings) offers() (connector.Capability, error) {
	traits, err := kit.ReceiverTraits(pathSettings, "webhook-id", s.stated)
	return connector.Capability{Traits: traits}, err
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
	m, err := kit.ReadMessage("payload.webhook", p.GetWebhook(), kit.UsualContentType, c.cfg.HTTPSOnly)
	if err != nil {
		return connector.Prepared{}, err
	}
	s, err := readSettings(r.Settings)
	if err != nil {
		return connector.Prepared{}, err
	}
	if !s.origins.Allow(m.URL) {
		return connector.Prepared{}, badPayload(".url", "is not at one of the connection's origins")
	}
	return connector.Prepared{HoldKey: transport.TargetOf(m.URL).String(), Frozen: m.Encode(job.NewCanon()).Bytes()}, nil
}

var badPayload = kit.Bad(connector.BadPayload, "payload.webhook")

// session reads what is to be sent.
func (c *Connector) session(o connector.Opening) (*kit.Delivery, error) {
	m, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return nil, kit.UnreadableFrozen("request", err)
	}
	s, cred, err := c.Account(o)
	if err != nil {
		return nil, err
	}
	// The request may have been frozen before the owner limited the connection.
	if len(cred.Headers) > 0 && !s.origins.Allow(m.URL) {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the URL is no longer at one of the connection's origins"}
	}
	out := &kit.Delivery{
		Method: "POST", Message: m, Auth: cred.Auth, Keyed: o.Class == job.Keyed, Narrow: narrow,
		Quote: s.stated.GetQuoteAnswers(), Keep: s.keep, Read: transport.MaxExcerpt, Unacted: s.unacted, Refusals: s.refusals,
	}
	out.Own = func(commit connector.Commit) []transport.Header { return c.headers(commit, out, cred) }
	return out, nil
}

// headers returns the connector's own headers, with room for all others.
func (c *Connector) headers(commit connector.Commit, d *kit.Delivery, cred credential) []transport.Header {
	m, at := d.Message, c.cfg.Now().Unix()
	const most = 5 + 2 // ours, and those of a trace
	headers := append(make([]transport.Header, 0, most+len(cred.Headers)+len(m.Headers)),
		transport.Header{Name: "Content-Type", Value: m.ContentType},
		transport.Header{Name: "Webhook-Id", Value: commit.EffectKey},
		transport.Header{Name: "Webhook-Timestamp", Value: strconv.FormatInt(at, 10)},
	)
	if len(cred.keys) > 0 {
		headers = append(headers, transport.Header{Name: "Webhook-Signature", Value: sign(cred.keys, commit.EffectKey, at, m.Body)})
	}
	if d.Keyed {
		// For receivers that know the IETF draft and not Standard Webhooks. Our sender
		// cannot send again, whatever the headers say.
		headers = append(headers, transport.Header{Name: "Idempotency-Key", Value: commit.EffectKey})
	}
	return headers
}

// narrow narrows the rules of transport.ClassifyNamed, and only these: 410 means that the
// receiver is gone for good (Standard Webhooks 1.0); every other refusal is worth another
// attempt. It is the same proof of no effect, but a receiver that is being deployed, or whose
// router has just started, refuses webhooks that it wants (404, 403), and so does one whose
// secret or configuration is being changed (401, 400).
func narrow(o *job.Outcome, a transport.Response) {
	switch {
	case !a.Complete || a.Written == 0 || o.Result != job.ResultRejected:
	case a.Status == 410:
		o.Message = "the receiver answered 410 Gone: this webhook is no longer wanted; remove the URL or ask its owner" + a.CutWords()
	case o.Kind == job.FailPermanent:
		o.Kind = job.FailTransient
		transport.Postpone(o, a)
	}
}

// Judge returns what an answer to a webhook of an unsigned connection says of the attempt, as
// Publish does. It is for proofs that have no network.
func Judge(encoded []byte, class job.Class, a transport.Response) (job.Outcome, error) {
	s, err := readSettings(encoded)
	d := kit.Delivery{Message: kit.Message{URL: new(url.URL)}, Keyed: class == job.Keyed, Narrow: narrow, Unacted: s.unacted, Refusals: s.refusals, Keep: s.keep}
	return d.Judge(a), err
}

// thaw reads a frozen webhook.
func thaw(frozen []byte) (kit.Message, error) {
	fields, err := kit.DecodeCanon(frozen)
	if err != nil {
		return kit.Message{}, err
	}
	m, err := kit.DecodeMessage(fields)
	if err == nil && m.ContentType == "" {
		err = kit.ErrBadCanon
	}
	return m, err
}
