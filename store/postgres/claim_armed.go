package postgres

import (
	"context"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file: a job that its claim arms is written once, in its state after both
// steps, with an event for each. The table of transitions and every guard hold as for two
// steps. The rows are locked, so that the judgment still holds when it is written. Holds are
// read after the locks, as for any arm.

// holds records which runnable rows are held.
func (c *claimer) holds(rows []pgdb.HeldRowsRow) {
	c.held = make(map[runnableKey]bool, len(rows))
	for _, r := range rows {
		c.held[runnableKey{r.ConnectionID, r.HoldKey}] = rules.Hold{Paused: r.Held, LimitedUntil: r.RateLimitedUntil}.Held(c.now)
	}
}

// armClaimed calls ClaimParams.Intent, and queues the writes of the jobs for which every
// guard of an arm holds.
func (c *claimer) armClaimed(ctx context.Context, leased []store.Leased, due []pgdb.LockDueRow) error {
	if c.p.Intent == nil {
		return nil
	}
	var intents []*intent
	for i := range leased {
		l := &leased[i]
		a := c.p.Intent(*l)
		if a == nil || !a.Intended(*l) {
			continue
		}
		// The job was RETRYING, so each of its attempts has an outcome.
		j := rules.Armable{
			Snapshot: &l.Snapshot, ClaimedAt: c.now, Held: c.held[runnableKey{l.Spec.Connection, l.HoldKey}],
			Suspension: c.suspension(), Stop: l.Stopped,
		}
		if !rules.MayArm(*a, j) {
			continue
		}
		in := &intent{Arm: *a, index: i}
		in.next, in.attempt = rules.Begin(*a, j)
		l.Armed = &store.Armed{Snapshot: in.next, Attempt: in.attempt}
		history, err := c.note(c.claimEvent(&l.Job, due[i].State))
		if err != nil {
			return err
		}
		arm, err := c.note(armEvent(&in.next.Job, job.Claimed, c.now))
		if err != nil {
			return err
		}
		in.Version, in.Claim = due[i].Version, job.ID{} // as the row is
		in.position, in.history = c.last(), append(history, arm...)
		intents = append(intents, in)
	}
	c.execRows(ctx, len(intents), statement("arm jobs", (*pgdb.Queries).ArmJobs, armColumns(intents, 2, c.now)))
	return nil
}

// stillArmed reports whether an intent that was written with a claim is durable.
func (t *tx) stillArmed(ctx context.Context, l store.Leased) (bool, error) {
	rows, err := t.view().shared().Q.Attempts(ctx, shareddb.AttemptsParams{
		JobID: l.ID, ArmToken: column.OptionalID(l.Armed.Attempt.ArmToken), MaxRows: 1,
	})
	return len(rows) > 0, named("attempt", err)
}
