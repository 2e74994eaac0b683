package store

import (
	"fmt"
	"slices"
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

// Rules of this file: what every engine judges before it writes a change, from
// the rows that it has locked.

// Check refuses what is no decision on the job as it is. Leases and intents are
// not given by decisions: those are Claim's and Arm's.
func (c Change) Check(st job.Status) error {
	d, from, to := c.Decision, st.State, c.Decision.To
	switch {
	case st.Version != c.Version:
		return fmt.Errorf("%w: version %d, now %d", ErrStale, c.Version, st.Version)
	case d.Action != job.ActWrite:
		return fmt.Errorf("%w: the decision is not to write", ErrIllegal)
	case !job.Legal(from, to):
		return fmt.Errorf("%w: from %s to %s", ErrIllegal, from, to)
	case from != to && (to == job.Sending || to == job.Claimed):
		return fmt.Errorf("%w: a decision moves no job to %s", ErrIllegal, to)
	case d.Effect != nil && to != job.Succeeded:
		return fmt.Errorf("%w: an effect in state %s", ErrIllegal, to)
	case d.Cause == job.CausePredecessorEnded && st.PredecessorEnd == 0:
		return fmt.Errorf("%w: its predecessor goes on", ErrStale)
	case d.Reschedule && !to.Runnable():
		return fmt.Errorf("%w: a new time in state %s", ErrIllegal, to)
	}
	return c.checkContent(st)
}

// checkContent refuses new content where a decision brings none: a client's update does,
// and a person's RESEND, which brings the effect key of the round that it begins.
func (c Change) checkContent(st job.Status) error {
	d := c.Decision
	switch {
	case c.Content == nil:
		return nil
	case c.Content.OwnEffectKey != "" && d.Cause == job.CauseResolved && d.To == job.Retrying && d.Round > st.Round:
		return nil
	case c.Content.OwnEffectKey == "" && d.Cause == job.CauseUpdated && d.To == st.State &&
		c.Content.Fields()&^st.State.Updatable() == 0 && st.State.Updatable() != 0:
		return nil
	default:
		return fmt.Errorf("%w: new content, of cause %s, from %s to %s", ErrIllegal, d.Cause, st.State, d.To)
	}
}

// Absence refuses to count an absence that Decide would not count on the job as
// it is: of a look that began before the fence of the last attempt, or one that is
// forgotten by now. The version does not tell: Release raises fences and forgets
// absences without a new one.
func (c Change) Absence(st job.Status, fence time.Time) error {
	d, look := c.Decision, c.Decision.Observed
	counts := d.Negatives > st.Negatives
	switch {
	case look == nil && counts:
		return fmt.Errorf("%w: counts an absence that is forgotten", ErrStale)
	case look == nil || look.BegunAt.IsZero() || !look.BegunAt.Before(fence):
		return nil
	case counts || d.CloseOpen == job.ResultAbsent:
		return fmt.Errorf("%w: the look began before the fence", ErrStale)
	}
	return nil
}

// Doubt turns a success by a look into a question for a person, or, where a job
// in state from cannot wait for one, into a note that changes nothing: the object
// that was found is the effect of another job.
func (c *Change) Doubt(from job.State, other job.ID) {
	d := &c.Decision
	d.Effect, d.Settle, d.CloseOpen = nil, nil, 0
	c.Note(fmt.Sprintf("the object that was found is the effect of job %s already", other))
	d.To = job.NeedsResolution
	if !job.Legal(from, job.NeedsResolution) {
		d.To, d.Delay = from, job.KeepDelay
	}
}

// Note adds to what the change's event says.
func (c *Change) Note(text string) {
	if c.Decision.Detail != "" {
		text = c.Decision.Detail + "; " + text
	}
	c.Decision.Detail = text
}

// Settlement is what a change writes to the attempts of its job.
type Settlement struct {
	Settle []job.Settled
	// Close numbers the attempts that get the decision's CloseOpen.
	Close []int
	// Open numbers those that stay open, in rising order.
	Open []int
}

// Settlement judges what the decision says of the attempts of a job in state
// from; results are those that were armed, oldest first. A move that says "no
// effect" needs every attempt closed.
func (c Change) Settlement(from job.State, results []job.Result) (Settlement, error) {
	var s Settlement
	d := c.Decision
	results = slices.Clone(results)
	settled := make(map[int]bool, len(d.Settle))
	for _, a := range d.Settle {
		if a.Attempt < 1 || a.Attempt > len(results) {
			return s, fmt.Errorf("%w: settles attempt %d, which was never armed", ErrIllegal, a.Attempt)
		}
		if settled[a.Attempt] {
			return s, fmt.Errorf("%w: settles attempt %d twice", ErrIllegal, a.Attempt)
		}
		settled[a.Attempt] = true
		if a.MayReplace(results[a.Attempt-1]) {
			results[a.Attempt-1] = a.Result
			s.Settle = append(s.Settle, a)
		}
	}
	for i, r := range results {
		n := i + 1
		if r.Open() && d.CloseOpen != 0 && !settled[n] {
			r = d.CloseOpen
			s.Close = append(s.Close, n)
		}
		if !r.Open() {
			continue
		}
		if d.SaysNoEffect(from) {
			return s, fmt.Errorf("%w: %s while attempt %d is open", ErrIllegal, d.To, n)
		}
		s.Open = append(s.Open, n)
	}
	return s, nil
}
