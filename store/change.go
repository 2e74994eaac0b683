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
	// Content, with a decision of cause UPDATED only, replaces the content of the request.
	Content *Content
}

// Content is what may change of a job's request. job.State.Updatable decides which parts may
// change, and when. The key and the fingerprint stay bound to the request that made the job.
type Content struct {
	// Payload, when not nil, replaces the payload; HoldKey and Recipients are the new one's.
	Payload    []byte
	HoldKey    string
	Recipients []string
	// OwnEffectKey, with a decision of cause RESOLVED only, is the effect key of the round
	// that begins, and EffectKey its digest, as in NewJob.
	OwnEffectKey string
	EffectKey    [32]byte
	// Labels, when not nil, replace all labels.
	Labels map[string]string
	// Delivery, when not 0, replaces the delivery. Retry, when not nil, replaces the
	// retry policy but not its AttemptTimeout, which is ignored. AttemptTimeout and TimeZone,
	// when not nil, replace theirs.
	Delivery       job.Delivery
	Retry          *job.RetryPolicy
	AttemptTimeout *time.Duration
	TimeZone       *string
}

// Fields returns the fields that a client's update changes.
func (c Content) Fields() job.Fields {
	var out job.Fields
	for _, part := range []struct {
		set   bool
		field job.Fields
	}{
		{c.Payload != nil, job.FieldPayload}, {c.Labels != nil, job.FieldLabels}, {c.Delivery != 0, job.FieldDelivery},
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
	if c.Delivery != 0 {
		spec.Delivery = c.Delivery
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
	// Snapshot is the job after the change, with the same parts of its request as Armed has.
	Snapshot job.Snapshot
	// Owner is another job that owned the object which this change's effect names, if the
	// effect was a direct answer; zero: none. Owner stays SUCCEEDED and got an event of cause
	// EFFECT_SHARED, and both effects name the other job.
	Owner job.ID
	// TakenOver reports whether Owner lost the object to this job, because only a look, a
	// person or an assumption had assigned it to Owner.
	TakenOver bool
}
