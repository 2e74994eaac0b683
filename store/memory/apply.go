package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Apply implements store.Store. rules.NewPlan judges what may be written.
func (s *Store) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	return batch(ctx, s, "apply", items, func(t *tx, c store.Change) store.Applied {
		out, err := t.apply(c)
		if err != nil {
			return store.Applied{Err: err}
		}
		return out
	})
}

// change is one decision under way, as it is written, and the job as it was.
type change struct {
	*tx
	rules.Plan
	*record
	old   job.Job
	owner rules.Owner
}

func (t *tx) apply(in store.Change) (store.Applied, error) {
	r, ok := t.jobs[in.Job]
	if !ok {
		return store.Applied{}, store.ErrNotFound
	}
	c := &change{tx: t, record: r, old: r.job, owner: t.ownerOf(r, in.Decision.Effect)}
	var err error
	c.Plan, err = rules.NewPlan(in, rules.Changeable{
		Job: r.job, Attempts: r.attemptViews(), Owner: c.owner, Deleted: !t.conns[r.job.Connection].Deleted.IsZero(), Now: t.now,
	})
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
	c.takeEffect()
	c.settle()
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
	if c.Notifies {
		out.Owner, out.TakenOver = c.owner.Job, c.Takes
	}
	return out, nil
}

// next returns the job as the change leaves it, with its ruling and its new content.
func (c *change) next() job.Job {
	next := c.Next
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

// sound refuses what the tables of a database would refuse.
func (c *change) sound(next job.Job) error {
	d := c.Decision
	least := min(next.Failures, next.Claims, next.Looks, next.Negatives, next.Misses)
	switch {
	case next.Round < 1 || least < 0:
		return fmt.Errorf("%w: a counter is below its least value", store.ErrIllegal)
	case d.LastError != nil && d.LastError.Kind > job.FailAlreadyPresent:
		return fmt.Errorf("%w: failure kind %d", store.ErrIllegal, d.LastError.Kind)
	case d.Observed != nil && (d.Observed.Verdict < job.SawPresent || d.Observed.Verdict > job.SawHandle):
		return fmt.Errorf("%w: verdict %d", store.ErrIllegal, d.Observed.Verdict)
	case d.Ruling != nil && (d.Ruling.Ruling < job.RuleSent || d.Ruling.Ruling > job.RuleCancel):
		return fmt.Errorf("%w: ruling %d", store.ErrIllegal, d.Ruling.Ruling)
	}
	return nil
}

// settle writes the results of the attempts.
func (c *change) settle() {
	for _, s := range c.Settle {
		a := &c.attempts[s.Attempt-1]
		a.Result, a.Kind, a.Message, a.HTTPStatus, a.PeerEnded = s.Result, s.Kind, s.Message, s.HTTPStatus, s.PeerEnded
		a.BytesWritten = max(a.BytesWritten, s.BytesWritten)
		if s.Handle != "" {
			a.Handle = s.Handle
		}
		if s.Answer != nil {
			a.Answer = s.Answer
		}
		c.end(a)
	}
	for _, n := range c.Settlement.Close {
		a := &c.attempts[n-1]
		a.Result = c.Decision.CloseOpen
		c.end(a)
	}
	if n := len(c.attempts); n > 0 && c.Decision.To == job.Succeeded {
		c.attempts[n-1].Frozen = nil
	}
}

// end records when an attempt was first known to have ended.
func (c *change) end(a *Attempt) {
	if a.EndedAt.IsZero() {
		a.EndedAt = c.now
	}
}

// write stores the job, and what depends on its state: the open content, the hold, and the
// jobs that wait for it.
func (c *change) write(next job.Job) {
	from, to := c.old.State, next.State
	conn := c.conns[next.Connection]
	full := c.bounds(conn).Free() <= 0
	if c.Content != nil && c.Content.Payload != nil {
		c.record.recipients = slices.Clone(c.Content.Recipients)
	}
	c.put(c.record, next)
	if c.OpensGate {
		c.closeIntent(c.record)
	}
	if full && c.bounds(conn).Free() > 0 {
		c.hint[store.WatchWork] = true
	}
	c.hold(next, c.Decision.Hold)
	c.wakeSchedule(from, to, next.Schedule)
	if c.NotifiesReplies {
		c.notifyReplies(next.ID, to)
	}
	c.runnable(next)
	if c.Wakes {
		c.hint[store.WatchWork] = true
	}
}

// notifyReplies updates the jobs that wait for a job that has ended, or that goes on after
// its end. If it has SUCCEEDED, they may start. This is no change of theirs: no version, no
// event.
func (t *tx) notifyReplies(id job.ID, state job.State) {
	for _, r := range t.waiting[id] {
		r.job = rules.ReplyAfter(r.job, state, t.now)
		if state == job.Succeeded {
			t.runnable(r.job)
		} else {
			t.hint[store.WatchWork] = t.hint[store.WatchWork] || leftBehind(r.job)
		}
		t.touch(r)
	}
	if state == job.Succeeded {
		delete(t.waiting, id)
	}
}
