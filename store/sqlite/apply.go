package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Apply implements store.Store.
func (s *Store) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	return batch(ctx, s, "apply", items, (*tx).apply, func(err error) store.Applied { return store.Applied{Err: err} })
}

// change is one decision in progress, as it is written, and the job before and after it.
type change struct {
	*tx
	rules.Plan
	job sqlitedb.Job
	old sqlitedb.JobState
	st  sqlitedb.JobState
	// attempts are the views of its attempts, account is the last one's.
	attempts rules.AttemptViews
	account  string
	// newest is the new result of the newest attempt; nil: none, unless it is closed. known
	// reports that it had an outcome before.
	newest *job.Settled
	closed bool
	known  bool
	// effect is the effect row to write, if any. owner is the other job that owned its
	// object; zero: none.
	effect *sqlitedb.PutEffectParams
	owner  rules.Owner
}

func (t *tx) apply(ctx context.Context, in store.Change) (store.Applied, error) {
	h, err := t.load(ctx, fromID(in.Job))
	if err != nil {
		return store.Applied{}, err
	}
	c := &change{tx: t, job: h.job, old: h.st, st: h.st, attempts: slices.Clone(h.attempts), account: h.account}
	if err := c.judge(ctx, in); err != nil {
		return store.Applied{}, err
	}
	// The content may still be refused, and so it is written first.
	if err := sqlstore.InSequence(ctx, c.content, c.putEffect, c.settle, c.record, c.write); err != nil {
		return store.Applied{}, err
	}
	snap, err := t.view().completed(ctx, c.remember(), c.effect)
	out := store.Applied{Snapshot: snap}
	if c.Notifies {
		out.Owner, out.TakenOver = c.owner.Job, c.Takes
	}
	return out, err
}

// remember caches the job as it is now, if more work on it follows soon.
func (c *change) remember() *cachedJob {
	h := &cachedJob{job: c.job, st: c.st, attempts: c.attempts, account: c.account}
	c.w.cache.moved(c.st.ConnectionID, job.State(c.old.State), job.State(c.st.State))
	if job.State(c.st.State).InFlight() {
		c.w.cache.keep(h)
	} else {
		c.w.cache.drop(c.Job)
	}
	return h
}

// judge plans the change from the job's rows.
func (c *change) judge(ctx context.Context, in store.Change) error {
	j := rules.Changeable{
		Job: job.Job{
			Spec: job.Spec{
				Connection: toID(c.st.ConnectionID), StartWindow: fromDuration(c.job.StartWindow),
				WaitWindow: fromDuration(c.old.WaitWindow),
			},
			Status: toStatus(c.old),
		},
		Attempts: c.attempts, Now: fromMicros(c.now),
	}
	if rules.Restarts(in, j.Job.State) {
		conn, err := c.getConnection(ctx, toID(c.old.ConnectionID))
		if err != nil {
			return fmt.Errorf("connection: %w", err)
		}
		j.Deleted = !conn.Deleted.IsZero()
	}
	var row sqlitedb.PutEffectParams
	inRow := in.Decision.Effect == nil || c.inRow(in.Decision)
	if !inRow {
		var err error
		if row, j.Owner, err = c.objectOf(ctx, *in.Decision.Effect); err != nil {
			return err
		}
	}
	var err error
	if c.Plan, err = rules.NewPlan(in, j); err != nil {
		return err
	}
	c.owner = j.Owner
	switch e := c.Decision.Effect; {
	case e == nil:
	case inRow:
		c.st.EffectAttempt = someMicros(int64(e.Attempt))
	default:
		row.SharedWith, row.OwnsID = fromOptionalID(e.SharedWith), toBool(c.Owns)
		c.effect, c.st.EffectAttempt = &row, sql.NullInt64{}
	}
	setStatus(&c.st, c.Next.Status)
	return nil
}

// countAnswer adds the size of an answer that will be kept to the project's use, and
// subtracts that of the answer that it replaces.
func (c *change) countAnswer(ctx context.Context, s job.Settled) error {
	if s.Answer == nil {
		return nil
	}
	if c.attempts[s.Attempt-1].Result == 0 { // it has none yet
		return c.w.usage.add(ctx, c.tx, c.st.Project, 0, int64(len(s.Answer.Encode())))
	}
	before, err := c.q.AnswerBytes(ctx, sqlitedb.AnswerBytesParams{JobID: c.st.JobID, Number: int64(s.Attempt)})
	if err != nil {
		return fmt.Errorf("kept answer: %w", err)
	}
	return c.w.usage.add(ctx, c.tx, c.st.Project, 0, int64(len(s.Answer.Encode()))-before)
}

// settle writes the results of earlier attempts. The newest one's is in the job's row.
func (c *change) settle(ctx context.Context) error {
	for _, s := range c.Settle {
		if err := c.countAnswer(ctx, s); err != nil {
			return err
		}
		if int64(s.Attempt) == c.st.Attempt {
			c.newest, c.known = &s, c.attempts[s.Attempt-1].Result != 0
		} else if err := c.q.SettleAttempt(ctx, settleParams(c.st.JobID, s, c.now)); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		c.attempts.Settle(s)
	}
	for _, n := range c.Close {
		c.closed = c.closed || int64(n) == c.st.Attempt
		c.attempts[n-1].Result = c.Decision.CloseOpen
		if int64(n) == c.st.Attempt {
			continue
		}
		err := c.q.CloseAttempt(ctx, sqlitedb.CloseAttemptParams{
			Result: int64(c.Decision.CloseOpen), Now: someMicros(c.now), JobID: c.st.JobID, Number: int64(n),
		})
		if err != nil {
			return fmt.Errorf("close attempt: %w", err)
		}
	}
	return nil
}

// record stores the look and the ruling that led to the decision.
func (c *change) record(ctx context.Context) error {
	if c.Decision.Observed != nil {
		if err := c.q.InsertObservation(ctx, insertObservationParams(toID(c.st.JobID), *c.Decision.Observed)); err != nil {
			return fmt.Errorf("observation: %w", err)
		}
	}
	if c.Decision.Ruling != nil {
		id, err := c.shared().AddRuling(ctx, c.Job, *c.Decision.Ruling)
		if err != nil {
			return err
		}
		c.st.ResolutionID = someMicros(id)
	}
	return nil
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
	from, to := job.State(c.old.State), c.Decision.To
	if c.OpensGate {
		if err := c.q.ReleaseGate(ctx, c.st.JobID); err != nil {
			return fmt.Errorf("gate: %w", err)
		}
	}
	if c.Frees {
		freed, err := c.unsaturate(ctx, c.st.ConnectionID)
		if err != nil {
			return err
		}
		c.hint[store.WatchWork] = c.hint[store.WatchWork] || freed
	}
	if err := c.hold(ctx); err != nil {
		return err
	}
	if c.NotifiesReplies {
		if err := c.notifyReplies(ctx, c.st.JobID, to); err != nil {
			return err
		}
	}
	if err := c.leaveRow(ctx); err != nil {
		return err
	}
	if err := c.followJob(ctx, c.job.ScheduleID, c.st.JobID, from, to); err != nil {
		return err
	}
	switch {
	case to.Runnable():
		return c.makeRunnable(ctx, c.st)
	case c.Wakes:
		c.hint[store.WatchWork] = true
	}
	return nil
}

func (c *change) setState(ctx context.Context) (int64, error) {
	history := c.note(c.job.ScheduleID, &c.st, job.Event{
		From: job.State(c.old.State), Cause: c.Decision.Cause, Attempt: c.Decision.Attempt,
		Actor: c.Actor, Reason: c.Reason, Detail: c.Decision.Detail,
	})
	if c.closed || c.known || !isSuccessOnly(c.newest) || !onlySucceeded(c.st, c.old) {
		p := setStateParams(c.st, history)
		if c.closed {
			p.Result = someMicros(int64(c.Decision.CloseOpen))
		}
		settleNewest(&p, c.newest)
		return c.q.SetState(ctx, p)
	}
	return c.q.Succeed(ctx, sqlitedb.SucceedParams{
		Now: c.now, EffectAttempt: c.st.EffectAttempt, JobID: c.st.JobID, Version: c.old.Version, History: history,
		Message: someText(c.newest.Message), HttpStatus: someMicros(int64(c.newest.HTTPStatus)),
		BytesWritten: someMicros(c.newest.BytesWritten), Answer: c.newest.Answer.Encode(),
	})
}

// hold holds the job's hold key.
func (c *change) hold(ctx context.Context) error {
	if c.Decision.Hold == nil {
		return nil
	}
	return c.shared().Hold(ctx, toID(c.st.ConnectionID), c.st.HoldKey, *c.Decision.Hold)
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
		row, err := c.q.GetJob(ctx, c.job.ID)
		if err != nil {
			return fmt.Errorf("job: %w", err)
		}
		c.job = row.Job
		if c.Content.Payload != nil {
			c.job.HoldKey, c.st.HoldKey = c.Content.HoldKey, c.Content.HoldKey
		}
	}
	c.job.StartWindow = micros(c.Next.StartWindow)
	return named("content", c.q.SetStart(ctx, sqlitedb.SetStartParams{HoldKey: c.job.HoldKey, StartWindow: c.job.StartWindow, ID: c.job.ID}))
}

// leaveRow removes a job that has moved to another runnable row from the old one.
func (c *change) leaveRow(ctx context.Context) error {
	if c.old.HoldKey == c.st.HoldKey {
		return nil
	}
	return named("runnable row", c.q.Recount(ctx, sqlitedb.RecountParams{ConnectionID: c.old.ConnectionID, HoldKey: c.old.HoldKey}))
}
