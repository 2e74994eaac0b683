package server

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: a fingerprint is taken from what the client asked for. An unset field is
// its own value, defaults are not filled in, times are cut to microseconds, ids are in lower
// case. What the client named by a key is its id, so that a repeat by the other name is the same
// request; the key is an alias, so that a repeat by the key stays the same whatever becomes of
// what it names. Fields have their names in the request, because an error about a conflict names
// them. Stored fingerprints depend on every line.

// jobPrints returns the fingerprint of a request, and the key that is derived from its
// connection, payload and time. conn and replyTo are the ids of what it names.
func jobPrints(r *fireoncev1.ScheduleJobRequest, conn, replyTo job.ID) (f job.Fingerprint, derived string, err error) {
	if err := noUnknown(r); err != nil {
		return f, "", err
	}
	payload, err := canonicalOrNil("payload", r.GetPayload())
	if err != nil {
		return f, "", err
	}
	retry, err := canonicalOrNil("retry_policy", r.GetRetryPolicy())
	if err != nil {
		return f, "", err
	}
	var at, window, timeout, wait, reply []byte
	if t := r.GetScheduleTime(); t != nil {
		at = canonicalInt(job.Micros(t.AsTime()).UnixMicro())
	}
	if d := r.GetStartWindow(); d != nil {
		window = canonicalInt(int64(d.AsDuration()))
	}
	if d := r.GetAttemptTimeout(); d != nil {
		timeout = canonicalInt(int64(d.AsDuration()))
	}
	if d := r.GetWaitWindow(); d != nil {
		wait = canonicalInt(int64(d.AsDuration()))
	}
	if r.GetReplyTo() != nil {
		reply = []byte(idToWire(replyTo))
	}
	f.Set(ofConnection.id, []byte(idToWire(conn)))
	f.Set("payload", payload)
	f.Set("schedule_time", at)
	if local := r.GetLocalTime(); local != nil {
		said, err := canonicalOrNil("local_time", local)
		if err != nil {
			return f, "", err
		}
		f.Set("local_time", said)
	}
	if r.GetDeriveKey() {
		derived = job.DerivedKey(f)
	}
	f.Set("start_window", window)
	f.Set("retry_policy", retry)
	f.Set("attempt_timeout", timeout)
	f.Set("ambiguity_policy", binary.BigEndian.AppendUint32(nil, uint32(r.GetAmbiguityPolicy())))
	f.Set(repliedTo.id, reply)
	if k := r.GetEffectKey(); k != "" {
		f.Set("effect_key", []byte(k))
	}
	f.Set("wait_window", wait)
	if p := r.GetSkipIfPresent(); p != nil {
		f.Set("skip_if_present", canonicalInt(int64(p.GetMaxAge().AsDuration())))
	}
	if key := r.GetConnectionKey(); key != "" {
		f.Alias(ofConnection.id, []byte(key))
	}
	if key := r.GetReplyToKey(); key != "" {
		f.Alias(repliedTo.id, []byte(key))
	}
	return f, derived, nil
}

// schedulePrint returns the fingerprint of a request to create a schedule. conn is the id of what
// its template names.
func schedulePrint(r *fireoncev1.CreateScheduleRequest, conn job.ID) (f job.Fingerprint, err error) {
	t := r.GetJobTemplate()
	if err := noUnknownAt("job_template", t); err != nil {
		return f, err
	}
	set := func(path string, m proto.Message) {
		enc, bad := canonicalOrNil(path, m)
		if f.Set(path, enc); err == nil {
			err = bad
		}
	}
	set("spec", r.GetSpec())
	set("job_template.payload", t.GetPayload())
	set("job_template.retry_policy", t.GetRetryPolicy())
	set("policies", r.GetPolicies())
	var window, timeout, labels, paused []byte
	if d := t.GetStartWindow(); d != nil {
		window = canonicalInt(int64(d.AsDuration()))
	}
	if d := t.GetAttemptTimeout(); d != nil {
		timeout = canonicalInt(int64(d.AsDuration()))
	}
	if err == nil && len(t.GetLabels()) > 0 {
		labels, err = canonical((&fireoncev1.JobTemplate{Labels: t.GetLabels()}).ProtoReflect())
	}
	if r.GetPaused() {
		paused = []byte{1}
	}
	f.Set("job_template.connection_id", []byte(idToWire(conn)))
	f.Set("job_template.start_window", window)
	f.Set("job_template.ambiguity_policy", binary.BigEndian.AppendUint32(nil, uint32(t.GetAmbiguityPolicy())))
	f.Set("job_template.labels", labels)
	f.Set("job_template.attempt_timeout", timeout)
	f.Set("paused", paused)
	if key := t.GetConnectionKey(); key != "" {
		f.Alias("job_template.connection_id", []byte(key))
	}
	return f, err
}

// connectionPrint returns the fingerprint of a connection to be created, which a request has at a
// path. The credential is no part of it: a repeat must not need it, nor prove it.
func connectionPrint(c *fireoncev1.Connection, at string) (job.Fingerprint, error) {
	var f job.Fingerprint
	if err := noUnknownAt(at, c); err != nil {
		return f, err
	}
	settings := &fireoncev1.Connection{Settings: c.GetSettings()}
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
func settingsPath(c *fireoncev1.Connection) string {
	m := c.ProtoReflect()
	if got := m.WhichOneof(settingsOf); got != nil {
		return string(got.Name())
	}
	return string(settingsFor(c.GetConnector()).Name())
}

// connectionDiff names the parts of a request to make a connection that differ from what
// another one asked for.
func connectionDiff(c *fireoncev1.Connection, want, stored job.Fingerprint) []string {
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
	enc, err := canonical(r)
	if err != nil {
		return nil, badField(field, "unknown_field", errUnknownField.Error())
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
	return badField(at, "unknown_field", errUnknownField.Error())
}
