package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Apply implements store.Store. What may be written is judged by the contract's
// own rules, which all engines share: Change.Check, Change.Doubt and
// Change.Settlement.
func (s *Store) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	return batch(ctx, s, "apply", items, func(t *tx, c store.Change) store.Applied {
		out, err := t.apply(c)
		if err != nil {
			return store.Applied{Err: err}
		}
		return out
	})
}

// change is one decision under way, which a conflict over an effect may alter, and
// the job as it was.
type change struct {
	*tx
	store.Change
	*record
	old job.Job
}

func (t *tx) apply(in store.Change) (store.Applied, error) {
	r, ok := t.jobs[in.Job]
	if !ok {
		return store.Applied{}, store.ErrNotFound
	}
	c := &change{tx: t, Change: in, record: r, old: r.job}
	if err := c.Check(c.old.Status); err != nil {
		return store.Applied{}, err
	}
	marks := r.marks()
	if err := c.Absence(c.old.Status, marks.Fence()); err != nil {
		return store.Applied{}, err
	}
	if c.restarts() && !t.conns[c.old.Connection].Deleted.IsZero() {
		return store.Applied{}, fmt.Errorf("connection %s: %w", c.old.Connection, store.ErrNotFound)
	}
	take := c.judgeEffect()
	what, err := c.Settlement(c.old.State, marks.Results())
	if err != nil {
		return store.Applied{}, err
	}
	next := c.next()
	if err := c.sound(next); err != nil {
		return store.Applied{}, err
	}
	if to := c.Content; to != nil && to.OwnEffectKey != "" {
		if t.effectKeys[to.EffectKey] {
			return store.Applied{}, store.ErrEffectKeyTaken
		}
		t.effectKeys[to.EffectKey] = true
	}
	c.takeEffect(take)
	c.settle(what)
	if o := c.Decision.Observed; o != nil {
		look := *o
		look.Kind, look.Auth, look.RetryAfter = 0, 0, 0
		look.BegunAt, look.EndedAt = micros(look.BegunAt), micros(look.EndedAt)
		r.looks = append(r.looks, look)
	}
	c.write(next)
	t.event(r, job.Event{
		From: c.old.State, Cause: c.Decision.Cause, Attempt: c.Decision.Attempt,
		Actor: in.Actor, Reason: in.Reason, Detail: c.Decision.Detail,
	})
	out := store.Applied{Snapshot: lean(r.snapshot(t.now))}
	if take.Tells {
		out.Told, out.Stolen = take.other, take.Takes
	}
	return out, nil
}

// next is the job as the change leaves it.
func (c *change) next() job.Job {
	next := c.old.Decided(c.Decision, c.now)
	next.StartWindow = next.StartWindow.Truncate(time.Microsecond)
	next.StartDeadline = micros(next.StartDeadline)
	if ruling := c.Decision.Ruling; ruling != nil {
		next.Resolution = copied(ruling)
		next.Resolution.At = c.now
	}
	to := c.Content
	if to == nil {
		return next
	}
	next.Spec = to.Apply(next.Spec)
	if to.Labels != nil {
		next.Labels = someLabels(to.Labels)
	}
	if to.Payload != nil {
		next.Payload = some(to.Payload)
	}
	return next
}

// sound refuses what the tables of a database would.
func (c *change) sound(next job.Job) error {
	d := c.Decision
	least := min(next.Failures, next.Claims, next.Looks, next.Negatives, next.Misses)
	switch {
	case next.Round < 1 || least < 0:
		return fmt.Errorf("%w: a counter is below its least value", store.ErrIllegal)
	case d.Cause < job.CauseSubmitted || d.Cause > job.CauseAlreadyPresent:
		return fmt.Errorf("%w: cause %d", store.ErrIllegal, d.Cause)
	case d.LastError != nil && d.LastError.Kind > job.FailAlreadyPresent:
		return fmt.Errorf("%w: failure kind %d", store.ErrIllegal, d.LastError.Kind)
	case d.Observed != nil && (d.Observed.Verdict < job.SawPresent || d.Observed.Verdict > job.SawHandle):
		return fmt.Errorf("%w: verdict %d", store.ErrIllegal, d.Observed.Verdict)
	case d.Ruling != nil && (d.Ruling.Ruling < job.RuleSent || d.Ruling.Ruling > job.RuleCancel):
		return fmt.Errorf("%w: ruling %d", store.ErrIllegal, d.Ruling.Ruling)
	}
	return nil
}

// settle writes what became of the attempts.
func (c *change) settle(what store.Settlement) {
	for _, s := range what.Settle {
		a := &c.attempts[s.Attempt-1]
		a.Result, a.Kind, a.Message, a.HTTPStatus = s.Result, s.Kind, s.Message, s.HTTPStatus
		a.BytesWritten = max(a.BytesWritten, s.BytesWritten)
		if s.Handle != "" {
			a.Handle = s.Handle
		}
		if s.Answer != nil {
			a.Answer = s.Answer
		}
		c.end(a)
	}
	for _, n := range what.Close {
		a := &c.attempts[n-1]
		a.Result = c.Decision.CloseOpen
		c.end(a)
	}
}

// end notes when an attempt was first known to have ended.
func (c *change) end(a *Attempt) {
	if a.EndedAt.IsZero() {
		a.EndedAt = c.now
	}
}

// write stores the job, and what depends on its state: the gate, the hold, those
// that wait for it.
func (c *change) write(next job.Job) {
	from, to := c.old.State, next.State
	conn := c.conns[next.Connection]
	full := conn.busy >= c.maxInFlight(conn)
	if c.Content != nil && c.Content.Payload != nil {
		c.record.recipients = slices.Clone(c.Content.Recipients)
	}
	c.put(c.record, next)
	if from.Gated() && !to.Gated() {
		c.releaseGate(c.record)
	}
	if full && conn.busy < c.maxInFlight(conn) {
		c.hint[store.WatchWork] = true
	}
	c.hold(next, c.Decision.Hold)
	c.wakeSchedule(from, to, next.Schedule)
	if from.TellsReplies(to) {
		c.tellReplies(next.ID, to)
	}
	c.runnable(next)
	if !to.Runnable() && !next.NextAt.IsZero() && !next.NextAt.Equal(c.old.NextAt) {
		c.hint[store.WatchWork] = true
	}
}

// tellReplies tells the jobs that wait for a job of its end, or that it goes on after
// one; those of one that has SUCCEEDED may start. It is no change of theirs: no
// version, no event.
func (t *tx) tellReplies(id job.ID, state job.State) {
	for _, r := range t.waiting[id] {
		if state == job.Succeeded {
			r.job = r.job.Released(t.now)
			r.job.StartDeadline = micros(r.job.StartDeadline)
			t.runnable(r.job)
		} else {
			r.job.PredecessorEnd = state.BadEnd()
			t.hint[store.WatchWork] = t.hint[store.WatchWork] || leftBehind(r.job)
		}
		t.touch(r)
	}
	if state == job.Succeeded {
		delete(t.waiting, id)
	}
}
