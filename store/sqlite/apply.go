package sqlite

import (
	"context"
	"fmt"
	"slices"

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

// change is one decision under way: the job as it was, as it becomes, and the
// decision, which a conflict over an effect may alter.
type change struct {
	*tx
	job litedb.Job
	old litedb.JobState
	st  litedb.JobState
	d   job.Decision
}

func (t *tx) apply(ctx context.Context, in store.Change) (store.Applied, error) {
	row, err := t.q.GetJob(ctx, fromID(in.Job))
	if err != nil {
		return store.Applied{}, orNotFound(err)
	}
	c := &change{tx: t, job: row.Job, old: row.JobState, st: row.JobState, d: in.Decision}
	if err := c.check(in); err != nil {
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
	if err := c.content(ctx, in.Content); err != nil {
		return store.Applied{}, err
	}
	if err := c.write(ctx); err != nil {
		return store.Applied{}, err
	}
	err = t.event(ctx, c.job.ScheduleID, c.st, litedb.InsertEventParams{
		FromState: c.old.State, Cause: int64(c.d.Cause), Attempt: int64(c.d.Attempt),
		Actor: in.Actor, Reason: in.Reason, Detail: c.d.Detail,
	})
	if err != nil {
		return store.Applied{}, err
	}
	snap, err := t.view().complete(ctx, c.job, c.st)
	return store.Applied{Snapshot: snap, Stolen: stolen}, err
}

// check refuses what is no decision on the job as it is. Leases and intents are
// not given by decisions: those are Claim's and Arm's.
func (c *change) check(in store.Change) error {
	from, to := job.State(c.old.State), c.d.To
	switch {
	case c.old.Version != in.Version:
		return fmt.Errorf("%w: version %d, now %d", store.ErrStale, in.Version, c.old.Version)
	case c.d.Action != job.ActWrite:
		return fmt.Errorf("%w: the decision is not to write", store.ErrIllegal)
	case from != to && (to == job.Sending || to == job.Claimed):
		return fmt.Errorf("%w: a decision moves no job to %s", store.ErrIllegal, to)
	case c.d.Effect != nil && to != job.Succeeded:
		return fmt.Errorf("%w: an effect in state %s", store.ErrIllegal, to)
	case in.Content != nil && (c.d.Cause != job.CauseUpdated || from != job.Scheduled || to != job.Scheduled):
		return fmt.Errorf("%w: new content, of cause %s, from %s to %s", store.ErrIllegal, c.d.Cause, from, to)
	case c.d.Reschedule && !to.Runnable():
		return fmt.Errorf("%w: a new time in state %s", store.ErrIllegal, to)
	}
	return nil
}

// settle writes what became of the attempts. A move that says "no effect" needs
// every attempt closed.
func (c *change) settle(ctx context.Context) error {
	if c.old.Attempt == 0 {
		if len(c.d.Settle) > 0 {
			return fmt.Errorf("%w: settles an attempt that was never armed", store.ErrIllegal)
		}
		return nil
	}
	marks, err := c.q.AttemptMarks(ctx, c.st.JobID)
	if err != nil {
		return fmt.Errorf("attempts: %w", err)
	}
	results := make(map[int]job.Result, len(marks))
	for _, m := range marks {
		results[int(m.Number)] = job.Result(m.Result)
	}
	for _, s := range c.d.Settle {
		was, armed := results[s.Attempt]
		if !armed {
			return fmt.Errorf("%w: settles attempt %d, which was never armed", store.ErrIllegal, s.Attempt)
		}
		if !s.MayReplace(was) {
			continue
		}
		results[s.Attempt] = s.Result
		if err := c.q.SettleAttempt(ctx, settleParams(c.st.JobID, s, c.now)); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
	}
	for _, m := range marks {
		n := int(m.Number)
		settled := slices.ContainsFunc(c.d.Settle, func(s job.Settled) bool { return s.Attempt == n })
		if c.d.CloseOpen != 0 && !settled && results[n].Open() {
			results[n] = c.d.CloseOpen
			err := c.q.CloseAttempt(ctx, litedb.CloseAttemptParams{
				Result: int64(c.d.CloseOpen), Now: someMicros(c.now), JobID: c.st.JobID, Number: m.Number,
			})
			if err != nil {
				return fmt.Errorf("close attempt: %w", err)
			}
		}
		if results[n].Open() && c.d.SaysNoEffect(job.State(c.old.State)) {
			return fmt.Errorf("%w: %s while attempt %d is open", store.ErrIllegal, c.d.To, n)
		}
	}
	return nil
}

// record keeps the look and the ruling that led to the decision.
func (c *change) record(ctx context.Context) error {
	if c.d.Observed != nil {
		if err := c.q.InsertObservation(ctx, insertObservationParams(toID(c.st.JobID), *c.d.Observed)); err != nil {
			return fmt.Errorf("observation: %w", err)
		}
	}
	if c.d.Ruling != nil {
		id, err := c.q.InsertResolution(ctx, insertResolutionParams(c.st.JobID, *c.d.Ruling, c.now))
		if err != nil {
			return fmt.Errorf("resolution: %w", err)
		}
		c.st.ResolutionID = someMicros(id)
	}
	return nil
}

// move makes the new state row.
func (c *change) move() {
	setDecided(&c.st, c.d, c.now)
	from, to := job.State(c.old.State), c.d.To
	due := max(c.now+micros(max(0, c.d.Delay)), toMicros(c.d.StartAt).Int64)
	keep := c.d.Delay == job.KeepDelay || from == to && (to == job.Sending || to == job.Claimed)
	switch {
	case to.Terminal() || to == job.NeedsResolution:
		c.st.NextAt, c.st.ClaimToken = noMicros, nil
	case keep && c.old.NextAt.Valid:
		// A look that somebody else has leased stays his.
		if from != to {
			c.st.ClaimToken = nil
		}
	default:
		c.st.NextAt, c.st.ClaimToken = someMicros(due), nil
	}
	if c.d.Reschedule {
		c.st.ScheduledFor = c.st.NextAt.Int64
		if c.d.Window > 0 {
			c.job.StartWindow = micros(c.d.Window)
		}
	}
	if c.d.NewWindow {
		c.st.StartDeadline = due + window(c.job)
	}
	switch {
	case !to.Terminal():
		c.st.EndedAt = noMicros
	case from != to:
		c.st.EndedAt = someMicros(c.now)
	}
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
	from, to := job.State(c.old.State), c.d.To
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
	h := c.d.Hold
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
