package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/litedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Apply implements store.Store.
func (s *Store) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	if err := bounded(len(items)); err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	return write(ctx, s, "apply", func(ctx context.Context, t *tx) ([]store.Applied, error) {
		out := make([]store.Applied, len(items))
		for i, c := range items {
			verdict, fatal := t.item(ctx, len(items), func() (err error) {
				out[i], err = t.apply(ctx, c)
				return err
			})
			if fatal != nil {
				return nil, fatal
			}
			if verdict != nil {
				out[i] = store.Applied{Err: verdict}
			}
		}
		return out, nil
	})
}

// change is one decision under way, which a conflict over an effect may alter,
// and the job as it was and as it becomes.
type change struct {
	*tx
	store.Change
	job litedb.Job
	old litedb.JobState
	st  litedb.JobState
}

func (t *tx) apply(ctx context.Context, in store.Change) (store.Applied, error) {
	row, err := t.q.GetJob(ctx, fromID(in.Job))
	if err != nil {
		return store.Applied{}, orNotFound(err)
	}
	c := &change{tx: t, Change: in, job: row.Job, old: row.JobState, st: row.JobState}
	if err := c.Check(toStatus(row.JobState)); err != nil {
		return store.Applied{}, err
	}
	stolen, err := c.claimEffect(ctx)
	if err != nil {
		return store.Applied{}, err
	}
	if err := c.settle(ctx); err != nil {
		return store.Applied{}, err
	}
	if err := c.record(ctx); err != nil {
		return store.Applied{}, err
	}
	c.move()
	if err := c.content(ctx); err != nil {
		return store.Applied{}, err
	}
	if err := c.write(ctx); err != nil {
		return store.Applied{}, err
	}
	err = t.event(ctx, c.job.ScheduleID, c.st, litedb.InsertEventParams{
		FromState: c.old.State, Cause: int64(c.Decision.Cause), Attempt: int64(c.Decision.Attempt),
		Actor: in.Actor, Reason: in.Reason, Detail: c.Decision.Detail,
	})
	if err != nil {
		return store.Applied{}, err
	}
	snap, err := t.view().complete(ctx, c.job, c.st)
	return store.Applied{Snapshot: snap, Stolen: stolen}, err
}

// settle writes what became of the attempts.
func (c *change) settle(ctx context.Context) error {
	var results []job.Result
	var fence time.Time
	if c.old.Attempt > 0 {
		marks, err := c.q.AttemptMarks(ctx, c.st.JobID)
		if err != nil {
			return fmt.Errorf("attempts: %w", err)
		}
		for _, m := range marks {
			results = append(results, job.Result(m.Result))
			fence = fromMicros(m.FenceAt)
		}
	}
	if err := c.Absence(toStatus(c.old), fence); err != nil {
		return err
	}
	what, err := c.Settlement(job.State(c.old.State), results)
	if err != nil {
		return err
	}
	for _, s := range what.Settle {
		if err := c.q.SettleAttempt(ctx, settleParams(c.st.JobID, s, c.now)); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
	}
	for _, n := range what.Close {
		err := c.q.CloseAttempt(ctx, litedb.CloseAttemptParams{
			Result: int64(c.Decision.CloseOpen), Now: someMicros(c.now), JobID: c.st.JobID, Number: int64(n),
		})
		if err != nil {
			return fmt.Errorf("close attempt: %w", err)
		}
	}
	return nil
}

// record keeps the look and the ruling that led to the decision.
func (c *change) record(ctx context.Context) error {
	if c.Decision.Observed != nil {
		if err := c.q.InsertObservation(ctx, insertObservationParams(toID(c.st.JobID), *c.Decision.Observed)); err != nil {
			return fmt.Errorf("observation: %w", err)
		}
	}
	if c.Decision.Ruling != nil {
		id, err := c.q.InsertResolution(ctx, insertResolutionParams(c.st.JobID, *c.Decision.Ruling, c.now))
		if err != nil {
			return fmt.Errorf("resolution: %w", err)
		}
		c.st.ResolutionID = someMicros(id)
	}
	return nil
}

// move makes the new rows.
func (c *change) move() {
	was := job.Job{Spec: job.Spec{StartWindow: fromDuration(c.job.StartWindow)}, Status: toStatus(c.old)}
	is := was.Decided(c.Decision, fromMicros(c.now))
	c.job.StartWindow = micros(is.StartWindow)
	setStatus(&c.st, is.Status)
}

// write stores the new state row and what depends on it: the hold, the gate,
// the ready row.
func (c *change) write(ctx context.Context) error {
	n, err := c.q.SetState(ctx, setStateParams(c.st))
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if n != 1 {
		return store.ErrStale
	}
	from, to := job.State(c.old.State), c.Decision.To
	if from.Gated() && !to.Gated() {
		if err := c.q.ReleaseGate(ctx, c.st.JobID); err != nil {
			return fmt.Errorf("gate: %w", err)
		}
	}
	if from.InFlight() && !to.InFlight() {
		freed, err := c.q.Unsaturate(ctx, c.st.ConnectionID)
		if err != nil {
			return fmt.Errorf("ready row: %w", err)
		}
		c.hint[store.WatchWork] = c.hint[store.WatchWork] || freed > 0
	}
	if err := c.hold(ctx); err != nil {
		return err
	}
	if to == job.Succeeded && from != to {
		if err := c.letGo(ctx, c.st.JobID); err != nil {
			return err
		}
	}
	if err := c.leaveRow(ctx); err != nil {
		return err
	}
	switch {
	case to.Runnable():
		return c.makeReady(ctx, c.st)
	case c.st.NextAt.Valid && c.st.NextAt != c.old.NextAt:
		c.hint[store.WatchWork] = true
	}
	return nil
}

// hold holds the job's hold key. A refusal of a credential that was replaced
// meanwhile holds nothing.
func (c *change) hold(ctx context.Context) error {
	h := c.Decision.Hold
	switch {
	case h == nil:
		return nil
	case h.Auth:
		_, err := c.q.HoldAuth(ctx, litedb.HoldAuthParams{
			Now: someMicros(c.now), Reason: h.Reason, ConnectionID: c.st.ConnectionID,
			HoldKey: c.st.HoldKey, CredentialVersion: int64(h.CredentialVersion),
		})
		if err != nil {
			return fmt.Errorf("hold: %w", err)
		}
	default:
		err := c.q.HoldRate(ctx, litedb.HoldRateParams{
			Until: c.now + micros(h.For), Reason: h.Reason, ConnectionID: c.st.ConnectionID, HoldKey: c.st.HoldKey,
		})
		if err != nil {
			return fmt.Errorf("hold: %w", err)
		}
	}
	return nil
}
