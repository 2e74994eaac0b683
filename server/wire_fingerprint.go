package server

import (
	"cmp"
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server/wire"
)

// Rules of this file: a fingerprint is taken from what the client asked for. An unset field is
// its own value, defaults are not filled in, times are cut to microseconds, ids are in lower
// case. What the client named by a key is its id, so that a repeat by the other name is the same
// request; the key is an alias, so that a repeat by the key stays the same whatever becomes of
// what it names. Fields have their names in the request, because an error about a conflict names
// them. Stored fingerprints depend on every line.

// prints takes a fingerprint part by part. err is of the first one that cannot be compared.
type prints struct {
	job.Fingerprint
	err error
}

func (p *prints) message(path string, m proto.Message) {
	enc, err := canonicalOrNil(path, m)
	p.Set(path, enc)
	p.err = cmp.Or(p.err, err)
}

func (p *prints) duration(path string, d *durationpb.Duration) {
	var enc []byte
	if d != nil {
		enc = wire.CanonicalInt(int64(d.AsDuration()))
	}
	p.Set(path, enc)
}

// alias adds the key by which the client named what a part has the id of. Empty: none.
func (p *prints) alias(path, key string) {
	if key != "" {
		p.Alias(path, []byte(key))
	}
}

func (p *prints) policy(path string, a fireoncev1.Delivery) {
	p.Set(path, binary.BigEndian.AppendUint32(nil, uint32(a)))
}

// jobPrints returns the fingerprint of a request, and the key that is derived from its
// connection, payload and time. conn and replyTo are the ids of what it names.
func jobPrints(r *fireoncev1.ScheduleJobRequest, conn, replyTo job.ID) (f job.Fingerprint, derived string, err error) {
	p := prints{err: noUnknown(r)}
	var at, reply []byte
	if t := r.GetScheduleTime(); t != nil {
		at = wire.CanonicalInt(job.Micros(t.AsTime()).UnixMicro())
	}
	if r.GetReplyTo() != nil {
		reply = []byte(idToWire(replyTo))
	}
	p.Set(ofConnection.id, []byte(idToWire(conn)))
	p.message("payload", r.GetPayload())
	p.Set("schedule_time", at)
	if local := r.GetLocalTime(); local != nil {
		p.message("local_time", local)
	}
	if r.GetDeriveKey() {
		derived = job.DerivedKey(p.Fingerprint)
	}
	p.duration("start_window", r.GetStartWindow())
	p.message("retry_policy", r.GetRetryPolicy())
	p.duration("attempt_timeout", r.GetAttemptTimeout())
	p.policy("delivery", r.GetDelivery())
	p.Set(repliedTo.id, reply)
	if k := r.GetEffectKey(); k != "" {
		p.Set("effect_key", []byte(k))
	}
	p.duration("wait_window", r.GetWaitWindow())
	if to := r.GetCallback(); to != "" {
		p.Set("callback", []byte(to))
	}
	if skip := r.GetSkipIfPresent(); skip != nil {
		p.duration("skip_if_present", skip.GetMaxAge())
	}
	p.alias(ofConnection.id, r.GetConnectionKey())
	p.alias(repliedTo.id, r.GetReplyToKey())
	return p.Fingerprint, derived, p.err
}

// schedulePrint returns the fingerprint of a request to create a schedule. conn is the id of what
// its template names.
func schedulePrint(r *schedulesv1.CreateScheduleRequest, conn job.ID) (job.Fingerprint, error) {
	t := r.GetJobTemplate()
	p := prints{err: noUnknownAt("job_template", t)}
	p.message("spec", r.GetSpec())
	p.message("job_template.payload", t.GetPayload())
	p.message("job_template.retry_policy", t.GetRetryPolicy())
	p.message("policies", r.GetPolicies())
	var labels, paused []byte
	if len(t.GetLabels()) > 0 {
		var err error
		labels, err = wire.Canonical((&schedulesv1.JobTemplate{Labels: t.GetLabels()}).ProtoReflect())
		p.err = cmp.Or(p.err, err)
	}
	if r.GetPaused() {
		paused = []byte{1}
	}
	p.Set("job_template.connection_id", []byte(idToWire(conn)))
	p.duration("job_template.start_window", t.GetStartWindow())
	p.policy("job_template.delivery", t.GetDelivery())
	p.Set("job_template.labels", labels)
	p.duration("job_template.attempt_timeout", t.GetAttemptTimeout())
	if to := t.GetCallback(); to != "" {
		p.Set("job_template.callback", []byte(to))
	}
	p.Set("paused", paused)
	p.alias("job_template.connection_id", t.GetConnectionKey())
	return p.Fingerprint, p.err
}

// subscriptionPrint returns the fingerprint of a request to create a subscription. conn is the id of
// what it names.
func subscriptionPrint(r *subscriptionsv1.CreateSubscriptionRequest, conn job.ID) (job.Fingerprint, error) {
	p := prints{err: noUnknown(r)}
	p.message("filter", r.GetFilter())
	p.message("rules", r.GetRules())
	p.message("target", r.GetTarget())
	var content []byte
	if r.GetIncludeContent() {
		content = []byte{1}
	}
	p.Set("include_content", content)
	p.Set(ofConnection.id, []byte(idToWire(conn)))
	p.alias(ofConnection.id, r.GetConnectionKey())
	return p.Fingerprint, p.err
}

// connectionPrint returns the fingerprint of a connection to be created, which a request has at a
// path. The credential is no part of it: a repeat must not need it, nor prove it.
func connectionPrint(c *connectionsv1.Connection, at string) (job.Fingerprint, error) {
	var f job.Fingerprint
	if err := noUnknownAt(at, c); err != nil {
		return f, err
	}
	settings := &connectionsv1.Connection{Settings: c.GetSettings()}
	var enc []byte
	if settings.GetSettings() != nil {
		var err error
		if enc, err = canonicalOrNil(under(at, settingsPath(c)), settings); err != nil {
			return f, err
		}
	}
	limits, err := canonicalOrNil(under(at, "limits"), c.GetLimits())
	if err != nil {
		return f, err
	}
	retry, err := canonicalOrNil(under(at, "retry_policy"), c.GetRetryPolicy())
	if err != nil {
		return f, err
	}
	f.Set("connection.retry_policy", retry)
	f.Set("connection.connector", []byte(c.GetConnector()))
	f.Set("connection.display_name", []byte(c.GetDisplayName()))
	f.Set(settingsPrint, enc)
	f.Set("connection.limits", limits)
	return f, nil
}

// settingsPrint is the name of settings of any kind in fingerprints. A connection that a
// request wants to make has them under the name of their kind.
const settingsPrint = "connection.settings"

// settingsPath is the path, in a connection to be made, of its settings, or of those that
// it should have.
func settingsPath(c *connectionsv1.Connection) string {
	m := c.ProtoReflect()
	if got := m.WhichOneof(settingsOf); got != nil {
		return string(got.Name())
	}
	return string(settingsFor(c.GetConnector()).Name())
}

// connectionDiff names the parts of a request to make a connection that differ from what
// another one asked for.
func connectionDiff(c *connectionsv1.Connection, want, stored job.Fingerprint) []string {
	differ := want.Diff(stored)
	if i := slices.Index(differ, settingsPrint); i >= 0 {
		differ[i] = under("connection", settingsPath(c))
	}
	return differ
}

// canonicalOrNil encodes a message; an unset one is nil.
func canonicalOrNil(field string, m proto.Message) ([]byte, error) {
	r := m.ProtoReflect()
	if !r.IsValid() {
		return nil, nil
	}
	enc, err := wire.Canonical(r)
	if err != nil {
		return nil, badField(field, "unknown_field", wire.ErrUnknownField.Error())
	}
	return enc, nil
}

// noUnknown refuses a message that has, at its top, fields that this server does not know:
// a client that is newer than the server may ask with them for something that must not be
// ignored. Requests that change something are refused so in any case (checkRules).
func noUnknown(m proto.Message) error { return noUnknownAt("", m) }

// noUnknownAt is noUnknown for a message that a request has at a path.
func noUnknownAt(at string, m proto.Message) error {
	if f := unknownAt(at, m); f != nil {
		return f
	}
	return nil
}

func unknownAt(at string, m proto.Message) *fault {
	if len(m.ProtoReflect().GetUnknown()) == 0 {
		return nil
	}
	return badField(at, "unknown_field", wire.ErrUnknownField.Error())
}
