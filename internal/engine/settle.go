package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

const (
	settlePause    = 50 * time.Millisecond
	settleMaxPause = 5 * time.Second
)

// settle makes one piece of evidence durable. It decides on s, the job as it is known,
// and writes by compare-and-set. When the job moved on meanwhile it reads and decides
// again: evidence addresses (job, attempt) and is never dropped for a version. It goes on
// until the evidence is stored or the process ends, and then logs the evidence whole.
//
// token, when set, is the lease that the evidence speaks for: evidence about a
// lease that is no longer held is worthless and ends quietly.
//
// settle returns the job as it was written, or as it was read when the evidence
// changes nothing, and whether the evidence is settled.
func (t *task) settle(s *job.Snapshot, ev job.Evidence, token job.ID) (after *job.Snapshot, stored bool) {
	e, conn := t.e, &t.leased.Connection
	step := t.work.Step(tracing.Settle)
	after = s // also where the write panics
	defer func() { step.Settled(after.State) }()
	traits := e.traits(conn, s.Class)
	ev = e.credentials.expired(conn, ev)
	pause := settlePause
	for {
		after, moved, err := t.settleOnce(s, traits, ev)
		switch {
		case err == nil && !moved:
			if !s.IsNotice() {
				e.Metrics.Settled(conn, t.leased.HoldKey, s.Class, ev)
			}
			return after, true
		case moved:
			pause = settlePause
		case errors.Is(err, store.ErrIllegal), errors.Is(err, store.ErrNotFound), errors.Is(err, errUndecidable):
			e.Log.ErrorContext(t.traceOf(s), "evidence could not be applied", logged(s, conn), "evidence", ev, "err", err)
			return s, false
		default:
			sleep.For(e.hard, pause)
			pause = min(2*pause, settleMaxPause)
		}
		if e.hard.Err() != nil {
			e.Log.ErrorContext(t.traceOf(s), "shut down before this evidence was stored; the outcome is unknown until looks or the answer's time decide",
				logged(s, conn), "evidence", ev)
			return s, false
		}
		fresh, err := e.read(s.ID)
		if err != nil {
			sleep.For(e.hard, pause) // a stale write does not wait by itself
			continue
		}
		if !token.IsZero() && fresh.ClaimToken != token {
			return fresh, false
		}
		s = fresh
	}
}

// settleLeased settles evidence that speaks for the task's lease.
func (t *task) settleLeased(ev job.Evidence) (after *job.Snapshot, stored bool) {
	return t.settle(&t.leased.Snapshot, ev, t.leased.ClaimToken)
}

var errUndecidable = errors.New("no decision")

// settleOnce decides and writes once. moved reports whether the job has moved on.
func (t *task) settleOnce(s *job.Snapshot, traits job.Traits, ev job.Evidence) (after *job.Snapshot, moved bool, err error) {
	ctx, cancel := context.WithTimeout(t.e.hard, storeTimeout)
	defer cancel()
	after = s
	stale, err := store.Decide(ctx, t, []*job.Snapshot{s},
		func(s *job.Snapshot, c *store.Change) (bool, error) {
			c.Actor = t.e.Worker
			write, err := c.Decide(s, traits, t.e.Jitter(), ev)
			if err != nil {
				return false, errors.Join(errUndecidable, err)
			}
			return write, nil
		},
		func(s *job.Snapshot, c *store.Change, a *store.Applied) error {
			if a.Err != nil {
				return a.Err
			}
			if other := a.Owner; !other.IsZero() {
				t.e.Log.ErrorContext(t.traceOf(s), "the platform answered two jobs with one object; one of them may have no effect",
					logged(s, &t.leased.Connection), "other", other.String(), "taken", a.TakenOver)
			}
			after = &a.Snapshot
			after.Complete(&s.Spec)
			t.followUp(s, after, &c.Decision)
			return nil
		})
	return after, len(stale) > 0, err
}

// Apply writes decisions for store.Decide, and notes a store that fails.
func (t *task) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	applied, err := t.e.Store.Apply(ctx, items)
	t.e.storeLog.note(t.e.hard, opApply, err)
	return applied, err
}

// traceOf returns a context with the trace that log lines about a job belong to: that of
// the work, or the one that the job was submitted in.
func (t *task) traceOf(s *job.Snapshot) context.Context {
	return tracing.Carrying(t.work.Context(), s.Trace)
}

// followUp follows up a decision that was written: it wakes jobs that wait for this one, and
// logs the ends that operators must know. Where the decision cannot mean an effect, the
// task's connection may be unknown.
func (t *task) followUp(before, after *job.Snapshot, d *job.Decision) {
	e, connector := t.e, t.leased.Connection.Connector
	e.Metrics.Wrote(connector, before, after, d)
	if !after.State.Gated() {
		e.contents.ended(after.ID)
	}
	if d.Hold != nil {
		e.holds.begun(t.traceOf(before), &t.leased.Connection, before, *d.Hold)
	}
	switch {
	case d.Cause == job.CauseDuplicateEffect:
		t.work.DuplicateSeen()
		e.Log.ErrorContext(t.traceOf(before), "a second effect was seen", logged(before, &t.leased.Connection), "detail", d.Detail)
	case d.To == job.NeedsResolution:
		t.work.NeedsResolution()
		e.Log.WarnContext(t.traceOf(before), "a job needs a person's decision", logged(before, &t.leased.Connection), "why", d.Detail)
	case d.To == job.Failed:
		e.Log.InfoContext(t.traceOf(before), "job failed", logged(before, &t.leased.Connection), "why", d.Detail)
	}
}

// read reads a job for a write that goes on after the shutdown began.
func (e *Engine) read(id job.ID) (*job.Snapshot, error) {
	ctx, cancel := context.WithTimeout(e.hard, storeTimeout)
	defer cancel()
	s, err := e.Store.Job(ctx, store.Ref{ID: id})
	return &s, err
}
