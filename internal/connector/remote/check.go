package remote

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Limits of what a service answers, as the protocol has them.
const (
	maxFrozen      = 256 << 10
	maxFingerprint = 64
	maxIdentity    = 256
	maxReadLag     = time.Hour
	maxSpacing     = time.Hour
	maxNegatives   = 10

	defaultReadLag    = time.Minute
	defaultNegatives  = 2
	spacingLags       = 5
	maxDefaultSpacing = 15 * time.Minute
)

var classes = map[fireoncev1.EffectClass]job.Class{
	fireoncev1.EffectClass_EFFECT_CLASS_KEYED:      job.Keyed,
	fireoncev1.EffectClass_EFFECT_CLASS_HANDLE:     job.Handle,
	fireoncev1.EffectClass_EFFECT_CLASS_OBSERVABLE: job.Observable,
	fireoncev1.EffectClass_EFFECT_CLASS_OPAQUE:     job.Opaque,
}

// describe asks what the service is. It fails with *connector.Refusal.
func (c *Connector) describe(ctx context.Context) (connector.Description, error) {
	var out connectorv1.DescribeResponse
	hide := transport.Secrets(nil).With(c.token) // it describes no connection
	if err := c.ask(ctx, "Describe", c.askFor, &connectorv1.DescribeRequest{}, &out, nil); err != nil {
		return connector.Description{}, err
	}
	d := connector.Description{
		Name: c.name, Payloads: out.GetPayloadKinds(), Credentials: out.GetCredentialKinds(), Replies: out.GetReplies(),
		Promise: hide.Quote(out.GetPromise(), transport.MaxMessage),
	}
	bad := func(what string) (connector.Description, error) {
		return connector.Description{}, &connector.Refusal{Kind: job.FailTransient, Msg: c.who + " describes itself with " + what}
	}
	for _, kind := range d.Payloads {
		if !kit.IsPayloadKind(kind) {
			return bad("a kind of payload that there is not: " + hide.Quote(kind, maxIdentity))
		}
	}
	for _, kind := range d.Credentials {
		if kind != hide.Quote(kind, maxIdentity) {
			return bad("a kind of credential that cannot be shown")
		}
	}
	for _, class := range out.GetEffectClasses() {
		known, ok := classes[class]
		if !ok {
			return bad("an effect class that there is not")
		}
		d.Classes = append(d.Classes, known)
	}
	if len(d.Payloads) == 0 || len(d.Classes) == 0 {
		return bad("no kind of payload or no effect class")
	}
	return d, nil
}

// Check implements connector.Connector. While the service cannot be asked it fails
// with *connector.Refusal of kind HELD.
func (c *Connector) Check(encoded []byte, cred connector.Credential) (connector.Capability, error) {
	settings, err := readSettings(encoded)
	if err != nil {
		return connector.Capability{}, err
	}
	sec, err := c.opened(cred)
	if err != nil {
		return connector.Capability{}, err
	}
	return c.check(encoded, sec, &connectorv1.CheckRequest{
		Account: &connectorv1.Account{Settings: settings, Credential: sec.credential},
	})
}

func (c *Connector) check(encoded []byte, sec secret, in *connectorv1.CheckRequest) (connector.Capability, error) {
	var none connector.Capability
	if err := c.reach(); err != nil {
		return none, c.held(err)
	}
	var out connectorv1.CheckResponse
	if err := c.ask(context.Background(), "Check", c.askFor, in, &out, sec.hide); err != nil {
		return none, c.held(err)
	}
	switch r := out.GetResult().(type) {
	case *connectorv1.CheckResponse_Invalid:
		return none, c.invalid(r.Invalid, connector.BadSettings, sec.hide)
	case *connectorv1.CheckResponse_Checked:
		traits, err := traitsOf(r.Checked.GetTraits())
		if err != nil {
			return none, c.held(&connector.Refusal{Msg: "it answered Check with " + err.Error()})
		}
		c.learn(encoded, traits)
		return connector.Capability{Traits: traits, Identity: c.identity(r.Checked.GetAccountIdentity(), sec.hide)}, nil
	default:
		return none, c.held(&connector.Refusal{Msg: "it answered Check with no result that this version knows"})
	}
}

// identity keeps the accounts of two connectors apart. An identity that holds a secret
// counts as none.
func (c *Connector) identity(said string, hide transport.Secrets) string {
	if said = transport.Clean(said, maxIdentity); said == "" || said != hide.Redact(said) {
		return ""
	}
	return c.name + ":" + said
}

// Traits implements connector.Settler: what Check returned, and after a start what the
// service answers now.
func (c *Connector) Traits(encoded []byte) (job.Traits, error) {
	settings, err := readSettings(encoded)
	if err != nil {
		return job.Traits{}, err
	}
	if traits, known := c.known.Get(sha256.Sum256(encoded)); known {
		return traits, nil
	}
	cp, err := c.check(encoded, secret{}, &connectorv1.CheckRequest{
		Account: &connectorv1.Account{Settings: settings}, TraitsOnly: true,
	})
	return cp.Traits, err
}

// learn caches what the service answers about settings. Two accounts with the same settings
// have the same traits. If a service answers otherwise, or changes its answer after an
// upgrade, the more careful answer counts for as long as this server runs, because jobs
// of both may be in flight.
func (c *Connector) learn(encoded []byte, t job.Traits) {
	c.known.Update(sha256.Sum256(encoded), func(before job.Traits, known bool) job.Traits {
		if !known || before.Class != t.Class {
			return t
		}
		t.KeyWindow = min(t.KeyWindow, before.KeyWindow)
		t.DedupesInFlight = t.DedupesInFlight && before.DedupesInFlight
		t.MaxHandling = max(t.MaxHandling, before.MaxHandling)
		t.ReadLag, t.Spacing = max(t.ReadLag, before.ReadLag), max(t.Spacing, before.Spacing)
		t.Negatives = max(t.Negatives, before.Negatives)
		return t
	})
}

// traitsOf checks what a service promises. Its errors go on "it answered with".
func traitsOf(in *connectorv1.Traits) (job.Traits, error) {
	class, ok := classes[in.GetEffectClass()]
	if !ok {
		return job.Traits{}, errors.New("no effect class that this version knows")
	}
	handling, err := span(in.GetMaxHandlingTime(), 0, kit.MaxHandlingTime)
	if err != nil || handling > 0 && in.GetDedupesInFlight() {
		return job.Traits{}, errors.New("a handling time that is not 0 to 1 hour, or one of a target that dedupes in flight")
	}
	t := job.Traits{Class: class, MaxHandling: handling}
	switch class {
	case job.Keyed:
		window, err := span(in.GetKeyWindow(), 0, kit.MaxKeyWindow)
		if err != nil || window < kit.MinKeyWindow {
			return job.Traits{}, errors.New("a key window that is not 1 minute to 30 days")
		}
		t.KeyWindow, t.DedupesInFlight = window, in.GetDedupesInFlight()
	case job.Observable:
		return settles(t, in)
	default:
	}
	return t, nil
}

// settles adds the settle times of a target that is looked at.
func settles(t job.Traits, in *connectorv1.Traits) (job.Traits, error) {
	var err error
	if t.ReadLag, err = span(in.GetReadLag(), defaultReadLag, maxReadLag); err != nil {
		return job.Traits{}, errors.New("a read lag that is not 0 to 1 hour")
	}
	t.Negatives = int(in.GetNegatives())
	switch {
	case t.Negatives < 0 || t.Negatives > maxNegatives:
		return job.Traits{}, errors.New("a number of negatives that is not 0 to 10")
	case t.Negatives == 0 && t.ReadLag == 0:
		t.Negatives = 1
	case t.Negatives == 0:
		t.Negatives = defaultNegatives
	}
	if t.Spacing, err = span(in.GetSpacing(), min(spacingLags*t.ReadLag, maxDefaultSpacing), maxSpacing); err != nil {
		return job.Traits{}, errors.New("a spacing that is not 0 to 1 hour")
	}
	return t, nil
}

// span reads a duration of 0 to most; unset is otherwise.
func span(in *durationpb.Duration, otherwise, most time.Duration) (time.Duration, error) {
	if in == nil {
		return otherwise, nil
	}
	d := in.AsDuration()
	if in.CheckValid() != nil || d < 0 || d > most {
		return 0, errNoAnswer
	}
	return d, nil
}

// errOffline means that the caller wants no call.
var errOffline = errors.New("offline")

// Prepare implements connector.Connector: it freezes the service's form of the content.
// While the service cannot be asked it fails with *connector.Refusal of kind HELD, and
// returns the hold key all the same, which does not depend on the service.
func (c *Connector) Prepare(r connector.Request) (connector.Prepared, error) {
	content, settings, err := c.content(r)
	if err != nil {
		return connector.Prepared{}, err
	}
	held := connector.Prepared{HoldKey: holdKey}
	if r.Offline {
		return held, c.held(errOffline)
	}
	if err := c.reach(); err != nil {
		return held, c.held(err)
	}
	var out connectorv1.PrepareResponse
	if err := c.ask(context.Background(), "Prepare", c.askFor, &connectorv1.PrepareRequest{
		Account: &connectorv1.Account{Settings: settings}, Content: content, EffectKey: r.EffectKey,
	}, &out, nil); err != nil {
		return held, c.held(err)
	}
	switch made := out.GetResult().(type) {
	case *connectorv1.PrepareResponse_Invalid:
		return connector.Prepared{}, c.unprepared(made.Invalid, r)
	case *connectorv1.PrepareResponse_Prepared:
		return c.prepared(r, made.Prepared)
	default:
		return held, c.held(&connector.Refusal{Msg: "it answered Prepare with no result that this version knows"})
	}
}

// content checks what needs no service.
func (c *Connector) content(r connector.Request) (*connectorv1.Content, *connectionsv1.CustomSettings, error) {
	d := c.described()
	if !kit.IsPayloadKind(r.PayloadKind) || d != nil && !slices.Contains(d.Payloads, r.PayloadKind) {
		return nil, nil, &connector.InputError{
			Reason: connector.PayloadMismatch, Field: "payload", Msg: "the connector " + c.name + " does not send this kind of payload",
		}
	}
	payload, err := kit.ReadPayload(r, "", r.PayloadKind)
	if err != nil {
		return nil, nil, err
	}
	if r.ReplyTo != "" && d != nil && !d.Replies {
		return nil, nil, &connector.InputError{
			Reason: connector.BadPayload, Field: "payload", Msg: "jobs of the connector " + c.name + " cannot reply to others",
		}
	}
	settings, err := readSettings(r.Settings)
	return &connectorv1.Content{Payload: payload, ReplyToExternalId: r.ReplyTo}, settings, err
}

// prepared freezes. A target that is looked at has a content lock.
func (c *Connector) prepared(r connector.Request, in *connectorv1.Prepared) (connector.Prepared, error) {
	out := connector.Prepared{HoldKey: holdKey}
	if len(in.GetFrozen()) > maxFrozen || len(in.GetFingerprint()) > maxFingerprint {
		return out, &connector.InputError{Reason: connector.BadPayload, Field: "payload", Msg: c.who + " made more of it than there is room for"}
	}
	out.Frozen = request{payload: r.Payload, replyTo: r.ReplyTo, own: in.GetFrozen()}.freeze()
	traits, err := c.Traits(r.Settings)
	switch {
	case err != nil:
		return connector.Prepared{HoldKey: holdKey}, err
	case traits.Class != job.Observable:
		return out, nil
	}
	gate := sha256.Sum256(out.Frozen)
	if len(in.GetFingerprint()) > 0 {
		gate = sha256.Sum256(job.NewCanon().Field("fingerprint", in.GetFingerprint()).Bytes())
	}
	out.Gate = gate[:]
	return out, nil
}

var inputKinds = map[connectorv1.InvalidInput_Kind]connector.InputReason{
	connectorv1.InvalidInput_KIND_SETTINGS:     connector.BadSettings,
	connectorv1.InvalidInput_KIND_CREDENTIAL:   connector.BadCredential,
	connectorv1.InvalidInput_KIND_PAYLOAD:      connector.BadPayload,
	connectorv1.InvalidInput_KIND_PAYLOAD_KIND: connector.PayloadMismatch,
}

// invalid is what a service finds wrong with a user's input.
func (c *Connector) invalid(in *connectorv1.InvalidInput, otherwise connector.InputReason, hide transport.Secrets) error {
	reason, ok := inputKinds[in.GetKind()]
	if !ok {
		reason = otherwise
	}
	msg := words(in.GetMessage(), hide)
	switch {
	case msg != "":
	case hide == nil:
		msg = "refused by " + c.who + "; its reason is not shown, because it may have secrets of the connection"
	default:
		msg = "refused by " + c.who + ", which does not say why"
	}
	field := transport.Clean(in.GetField(), maxIdentity)
	if hide == nil || field != hide.Redact(field) {
		field = ""
	}
	return &connector.InputError{Reason: reason, Field: field, Msg: msg}
}

// unprepared is what a service finds wrong with a job. The service is not handed the credential
// in Prepare, and may remember it from another call.
func (c *Connector) unprepared(in *connectorv1.InvalidInput, r connector.Request) error {
	var hide transport.Secrets
	if r.Credential != nil {
		if cred, err := r.Credential(); err == nil {
			if sec, err := c.opened(cred); err == nil {
				hide = sec.hide
			}
		}
	}
	return c.invalid(in, connector.BadPayload, hide)
}

// words are a service's, fit for a user: none for a nil hide.
func words(text string, hide transport.Secrets) string {
	if hide == nil {
		return ""
	}
	return hide.Quote(text, transport.MaxMessage)
}
