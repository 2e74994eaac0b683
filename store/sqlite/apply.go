package sqlite

import (
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Apply implements store.Store.
func (s *Store) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	return batch(ctx, s, "apply", items, (*tx).apply, func(err error) store.Applied { return store.Applied{Err: err} })
}

// change is one decision in progress, and the job before and after it.
type change struct {
	*tx
	rules.Plan
	was *cachedJob
	is  cachedJob
	// newest is the new result of the newest attempt. known reports that it had an outcome
	// before.
	newest outcome
	known  bool
	// effect is the effect row to write, if any. owner is the other job that owned its
	// object; zero: none.
	effect *sqlitedb.PutEffectParams
	owner  rules.Owner
}

// outcome is a result for a job's newest attempt; 0: none. If it does not settle the attempt,
// it only closes it.
type outcome struct {
	job.Settled
	settles bool
}

func (t *tx) apply(ctx context.Context, in store.Change) (store.Applied, error) {
	h, err := t.load(ctx, in.Job)
	if err != nil {
		return store.Applied{}, err
	}
	c := &change{tx: t, was: h, is: *h}
	c.is.attempts = slices.Clone(h.attempts)
	if err := c.judge(ctx, in); err != nil {
		return store.Applied{}, err
	}
	// The content may still be refused, and so it is written first.
	if err := sqlstore.InSequence(ctx, c.content, c.putEffect, c.settle, c.record, c.write); err != nil {
		return store.Applied{}, err
	}
	// The job is cached if more work on it follows soon.
	c.w.cache.moved(c.is.Connection, c.was.State, c.is.State)
	if c.is.State.InFlight() {
		c.w.cache.keep(&c.is)
	} else {
		c.w.cache.drop(c.Job)
	}
	out := store.Applied{Snapshot: c.is.at(c.now)}
	if c.Notifies {
		out.Owner, out.TakenOver = c.owner.Job, c.Takes
	}
	return out, nil
}

// judge plans the change, and sets the job as it leaves it.
func (c *change) judge(ctx context.Context, in store.Change) (err error) {
	j := rules.Changeable{Job: c.was.Job, Attempts: c.was.attempts, Now: c.now}
	if rules.Restarts(in, j.Job.State) {
		conn, err := c.getConnection(ctx, j.Job.Connection)
		if err != nil {
			return fmt.Errorf("connection: %w", err)
		}
		j.Deleted = !conn.Deleted.IsZero()
	}
	var row sqlitedb.PutEffectParams
	inRow := in.Decision.Effect == nil || c.inRow(in.Decision)
	if !inRow {
		if row, j.Owner, err = c.objectOf(ctx, *in.Decision.Effect); err != nil {
			return err
		}
	}
	if c.Plan, err = rules.NewPlan(in, j); err != nil {
		return err
	}
	c.owner, c.is.Job = j.Owner, c.Next
	if c.Content != nil {
		c.is.Spec = c.Content.Apply(c.is.Spec)
	}
	e := c.Decision.Effect
	if e == nil {
		return nil
	}
	effect := *e
	effect.At = c.now
	if c.is.Effect, c.is.effectAttempt = &effect, e.Attempt; !inRow {
		row.SharedWith, row.OwnsID = column.OptionalID(e.SharedWith), c.Owns
		c.effect, c.is.effectAttempt = &row, 0
	}
	return nil
}

// countAnswer adds the size of an answer that will be kept to the project's use, and
// subtracts that of the answer that it replaces.
func (c *change) countAnswer(ctx context.Context, s job.Settled) error {
	if s.Answer == nil {
		return nil
	}
	var before int64
	if c.is.attempts[s.Attempt-1].Result != 0 { // it may have one
		var err error
		if before, err = c.q.AnswerBytes(ctx, sqlitedb.AnswerBytesParams{JobID: c.Job, Number: s.Attempt}); err != nil {
			return fmt.Errorf("kept answer: %w", err)
		}
	}
	return c.w.usage.add(ctx, c.tx, c.is.Project, 0, int64(len(s.Answer.Encode()))-before)
}

// settle writes the results of earlier attempts. The newest one's is in the job's row.
func (c *change) settle(ctx context.Context) error {
	for _, s := range c.Settle {
		if err := c.countAnswer(ctx, s); err != nil {
			return err
		}
		if s.Attempt == c.is.Attempt {
			c.newest, c.known = outcome{Settled: s, settles: true}, c.is.attempts[s.Attempt-1].Result != 0
		} else if err := c.w.sq.SettleAttempt(ctx, sqlstore.Settle(c.Job, s, c.now)); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		c.is.attempts.Settle(s)
	}
	for _, n := range c.Close {
		c.is.attempts[n-1].Result = c.Decision.CloseOpen
		if n == c.is.Attempt {
			c.newest.Result = c.Decision.CloseOpen
			continue
		}
		err := c.w.sq.CloseAttempt(ctx, shareddb.CloseAttemptParams{Result: c.Decision.CloseOpen, Now: c.now, JobID: c.Job, Number: int64(n)})
		if err != nil {
			return fmt.Errorf("close attempt: %w", err)
		}
	}
	return nil
}

// record stores the look and the ruling that led to the decision.
func (c *change) record(ctx context.Context) (err error) {
	if o := c.Decision.Observed; o != nil {
		if err := c.w.sq.InsertObservation(ctx, sqlstore.Observed(c.Job, o)); err != nil {
			return fmt.Errorf("observation: %w", err)
		}
	}
	if r := c.Decision.Ruling; r != nil {
		c.is.Resolution = &job.Resolution{Ruling: r.Ruling, Actor: r.Actor, Note: r.Note, At: c.now}
		c.is.resolution, err = c.shared().AddRuling(ctx, c.Job, *r)
	}
	return err
}

// write stores the new state row and what depends on it: the hold, the gate, the runnable
// row.
func (c *change) write(ctx context.Context) error {
	n, err := c.setState(ctx)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if n != 1 {
		return store.ErrStale
	}
	from, to := c.was.State, c.Decision.To
	if c.OpensGate {
		if err := c.q.ReleaseGate(ctx, c.Job); err != nil {
			return fmt.Errorf("gate: %w", err)
		}
	}
	if c.Frees {
		freed, err := c.unsaturate(ctx, c.is.Connection)
		if err != nil {
			return err
		}
		c.hint[store.WatchWork] = c.hint[store.WatchWork] || freed
	}
	if err := c.hold(ctx); err != nil {
		return err
	}
	if c.NotifiesReplies {
		if err := c.notifyReplies(ctx, c.Job, to); err != nil {
			return err
		}
	}
	if err := c.leaveRow(ctx); err != nil {
		return err
	}
	if err := c.followJob(ctx, &c.is.Job, from); err != nil {
		return err
	}
	switch {
	case to.Runnable():
		return c.makeRunnable(ctx, &c.is.Job)
	case c.Wakes:
		c.hint[store.WatchWork] = true
	}
	return nil
}

func (c *change) setState(ctx context.Context) (int64, error) {
	history := c.note(&c.is.Job, job.Event{
		From: c.was.State, Cause: c.Decision.Cause, Attempt: c.Decision.Attempt,
		Actor: c.Actor, Reason: c.Reason, Detail: c.Decision.Detail,
	})
	if s := &c.newest; c.onlySucceeded() {
		return c.q.Succeed(ctx, sqlitedb.SucceedParams{
			Now: c.now, EffectAttempt: c.is.effectAttempt, JobID: c.Job, Version: c.was.Version, History: history,
			Message: s.Message, HttpStatus: s.HTTPStatus, BytesWritten: s.BytesWritten, Answer: s.Answer.Encode(),
		})
	}
	return c.tx.setState(ctx, &c.is, c.newest, history)
}

// onlySucceeded reports whether the job's row changes only in the columns that every success
// of the newest attempt changes.
func (c *change) onlySucceeded() bool {
	s, st := &c.newest, c.was.Status
	st.State, st.Version, st.NextAt, st.Updated, st.Ended, st.Effect = c.is.State, c.is.Version, c.is.NextAt, c.is.Updated, c.is.Ended, c.is.Effect
	return c.was.State == job.Sending && c.is.State == job.Succeeded && st == c.is.Status && c.was.HoldKey == c.is.HoldKey &&
		c.is.effectAttempt > 0 && !c.known && s.settles && s.Result == job.ResultSucceeded && s.Kind == 0 && s.Handle == "" && !s.PeerEnded
}

// setState writes a job as a decision leaves it, with the history of its event.
func (t *tx) setState(ctx context.Context, h *cachedJob, newest outcome, history []byte) (int64, error) {
	failure := job.Failure{}
	if h.LastError != nil {
		failure = *h.LastError
	}
	return t.q.SetState(ctx, sqlitedb.SetStateParams{
		JobID: h.ID, State: h.State, Version: h.Version, Round: h.Round, Failures: h.Failures, Claims: h.Claims,
		Looks: h.Looks, Negatives: h.Negatives, Misses: h.Misses, HoldKey: h.HoldKey, ScheduleTime: h.ScheduleTime,
		Unasked: h.Unasked, StartDeadline: h.StartDeadline, KeepTrying: h.KeepTrying, NextAt: h.NextAt, ClaimToken: column.OptionalID(h.ClaimToken),
		CancelAskedAt: h.CancelAsked, Blocked: h.Blocked, ErrorKind: failure.Kind, ErrorMessage: failure.Message,
		ErrorStatus: failure.HTTPStatus, ErrorAt: failure.At, Resolution: h.resolution, UpdatedAt: h.Updated, EndedAt: h.Ended,
		EffectAttempt: int64(h.effectAttempt), History: history, Settles: newest.settles, Result: int64(newest.Result),
		Kind: int64(newest.Kind), Message: newest.Message, HttpStatus: int64(newest.HTTPStatus),
		BytesWritten: newest.BytesWritten, PeerEnded: newest.PeerEnded, Handle: newest.Handle, Answer: newest.Answer.Encode(),
	})
}

// hold holds the job's hold key.
func (c *change) hold(ctx context.Context) error {
	if c.Decision.Hold == nil {
		return nil
	}
	return c.shared().Hold(ctx, c.is.Connection, c.is.HoldKey, *c.Decision.Hold)
}

// content writes the parts of the request that a decision changes: the content, and the start
// window. A job whose hold key changes leaves its old runnable row later (see leaveRow), and
// joins the new one with its state.
func (c *change) content(ctx context.Context) error {
	if c.Content == nil && c.Decision.Window <= 0 {
		return nil
	}
	if c.Content != nil {
		if err := c.shared().SetContent(ctx, c.Job, *c.Content); err != nil {
			return err
		}
	}
	return named("content", c.q.SetStart(ctx, sqlitedb.SetStartParams{HoldKey: c.is.HoldKey, StartWindow: c.is.StartWindow, ID: c.Job}))
}

// leaveRow removes a job that has moved to another runnable row from the old one.
func (c *change) leaveRow(ctx context.Context) error {
	if c.was.HoldKey == c.is.HoldKey {
		return nil
	}
	return named("runnable row", c.w.sq.Recount(ctx, shareddb.RecountParams{ConnectionID: c.was.Connection, HoldKey: c.was.HoldKey}))
}
