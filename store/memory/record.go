package memory

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// record is all that the store keeps of one job.
type record struct {
	// job has no Effect, which is in the field effect.
	job       job.Job
	claimedAt time.Time
	attempts  []Attempt
	// firstArmed is when the first attempt was armed. Only a step back of the clock changes it.
	firstArmed time.Time
	events     []job.Event
	looks      []job.Observation
	// recipients are NewJob.Recipients, or those of the content since.
	recipients []string
	// callback is NewJob.Callback.
	callback job.ID
	effect   *Effect
	// intent is the open intent with the job's content.
	intent *Intent
}

// view returns the job as it is, sharing the record's memory.
func (r *record) view(now time.Time) job.Snapshot {
	s := job.Snapshot{Job: r.job, Now: now}
	r.attemptViews().Complete(&s)
	if r.job.State == job.Succeeded && r.effect != nil {
		s.Effect = &r.effect.Effect
	}
	return s
}

// attemptViews returns what the rules read of the attempts.
func (r *record) attemptViews() rules.AttemptViews {
	out := make(rules.AttemptViews, len(r.attempts))
	for i, a := range r.attempts {
		out[i] = rules.AttemptView{
			Number: a.Number, Round: a.Round, Result: a.Result, ArmedAt: a.ArmedAt, Fence: a.Fence, PeerEnded: a.PeerEnded, Handle: a.Handle,
			EffectKey: a.EffectKey, Digest: string(a.RequestDigest),
		}
	}
	return out
}

// snapshot returns the job as it is, in memory of its own.
func (r *record) snapshot(now time.Time) job.Snapshot {
	s := r.view(now)
	s.Payload, s.Labels = slices.Clone(s.Payload), maps.Clone(s.Labels)
	s.LastError, s.Effect, s.Resolution = copied(s.LastError), copied(s.Effect), copied(s.Resolution)
	return s
}

// lean removes from a job's request what arms and changes need not return, so that no caller
// relies on it.
func lean(s job.Snapshot) job.Snapshot {
	s.Spec = job.Spec{
		ID: s.ID, Project: s.Project, Connection: s.Connection, HoldKey: s.HoldKey, Schedule: s.Schedule,
		StartWindow: s.StartWindow,
	}
	return s
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// some returns a copy of bytes; nil for none.
func some(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return slices.Clone(b)
}

// someLabels is some for labels.
func someLabels(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	return maps.Clone(labels)
}

// micros cuts a time to the stored precision; the zero time stays zero.
func micros(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return job.Micros(t)
}

// put writes a job, and what its state determines.
func (t *tx) put(r *record, next job.Job) {
	conn := t.conns[next.Connection]
	if r.job.State.InFlight() {
		conn.busy--
	}
	if next.State.InFlight() {
		conn.busy++
	}
	r.job = next
	i, active := slices.BinarySearchFunc(t.active, next.ID, byID)
	switch {
	case !active && !next.NextAt.IsZero():
		t.active = slices.Insert(t.active, i, r)
	case active && next.NextAt.IsZero():
		t.active = slices.Delete(t.active, i, i+1)
	}
	t.touch(r)
}

func byID(r *record, id job.ID) int { return bytes.Compare(r.job.ID[:], id[:]) }

// touch records that something of a job was written.
func (t *tx) touch(r *record) { t.journal = append(t.journal, r.job.ID) }

// event appends the event of a write, after it. e has the cause and the details.
func (t *tx) event(r *record, e job.Event) {
	j := &r.job
	e.Position = int64(len(t.log)) + 1
	e.Project, e.Job, e.Connection, e.Schedule = j.Project, j.ID, j.Connection, j.Schedule
	e.Sequence, e.To, e.At = j.Version, j.State, t.now
	t.log = append(t.log, e)
	r.events = append(r.events, e)
	t.hint[store.WatchEvents] = true
}

// runnable wakes the workers for a job that a claim may take, now or soon.
func (t *tx) runnable(j job.Job) {
	if j.State.Runnable() && j.WaitsFor.IsZero() && j.NextAt.Before(t.now.Add(store.HintAhead)) {
		t.hint[store.WatchWork] = true
	}
}
