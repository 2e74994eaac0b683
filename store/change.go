package store

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Change is one decision to write.
type Change struct {
	Job      job.ID
	Version  int64 // that was read; another version is ErrStale
	Decision job.Decision
	Actor    string
	Reason   string
	// Content, with a decision of cause UPDATED only, replaces what is to be sent.
	Content *Content
}

// Content is what may change of a job's request: what of it, and when, is for
// job.State.Updatable to say. The key and the fingerprint stay bound to the request that
// made the job.
type Content struct {
	// Payload, when not nil, replaces the payload; HoldKey and Recipients are the new one's.
	Payload    []byte
	HoldKey    string
	Recipients []string
	// OwnEffectKey, with a decision of cause RESOLVED only, is the effect key of the round
	// that begins, and EffectKey its digest, as NewJob has them.
	OwnEffectKey string
	EffectKey    [32]byte
	// Labels, when not nil, replace all labels.
	Labels map[string]string
	// Policy, when not 0, replaces the ambiguity policy; Retry, when not nil, the retry
	// policy without its AttemptTimeout, which is not read; AttemptTimeout, when not nil,
	// that; TimeZone, when not nil, the time zone.
	Policy         job.Policy
	Retry          *job.RetryPolicy
	AttemptTimeout *time.Duration
	TimeZone       *string
}

// Fields gives what a client's update changes.
func (c Content) Fields() job.Fields {
	var out job.Fields
	for _, part := range []struct {
		set   bool
		field job.Fields
	}{
		{c.Payload != nil, job.FieldPayload}, {c.Labels != nil, job.FieldLabels}, {c.Policy != 0, job.FieldPolicy},
		{c.Retry != nil, job.FieldRetry}, {c.AttemptTimeout != nil, job.FieldAttemptTimeout}, {c.TimeZone != nil, job.FieldTimeZone},
	} {
		if part.set {
			out |= part.field
		}
	}
	return out
}

// Apply returns a request with this content.
func (c Content) Apply(spec job.Spec) job.Spec {
	if c.Payload != nil {
		spec.Payload, spec.HoldKey = c.Payload, c.HoldKey
	}
	if c.OwnEffectKey != "" {
		spec.OwnEffectKey = c.OwnEffectKey
	}
	if c.Labels != nil {
		spec.Labels = c.Labels
	}
	if c.Policy != 0 {
		spec.Policy = c.Policy
	}
	if c.Retry != nil {
		timeout := spec.Retry.AttemptTimeout
		spec.Retry = *c.Retry
		spec.Retry.AttemptTimeout = timeout
	}
	if c.AttemptTimeout != nil {
		spec.Retry.AttemptTimeout = *c.AttemptTimeout
	}
	if c.TimeZone != nil {
		spec.TimeZone = *c.TimeZone
	}
	return spec
}

// Applied is Apply's verdict.
type Applied struct {
	Err error
	// Snapshot is the job after the change, with as much of its request as Armed has.
	Snapshot job.Snapshot
	// Told is the job that owns the object which this change's effect names, by a direct
	// answer. It stays SUCCEEDED and got an event of cause EFFECT_SHARED, and both
	// effects name the other job; zero: none.
	Told job.ID
	// Stolen says that Told lost the object, because only a look, a person or an
	// assumption had given it to that job.
	Stolen bool
}
