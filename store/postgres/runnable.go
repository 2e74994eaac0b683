package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file, which let claims and other transactions work on runnable rows
// concurrently:
//   - a transaction that makes a job runnable writes the job first and then locks its
//     runnable row, even when there is nothing to change in it, and keeps the lock until it
//     commits. A claim that recounts a row locks the row first and counts in a later
//     statement: it sees every job whose writer had the lock before, and every later writer
//     sees, and lowers, what the claim wrote;
//   - runnable rows are locked last, in one statement (see lock_order.go).

// runnableKey names a runnable row.
type runnableKey struct {
	conn job.ID
	hold string
}

// runnableRows collects a transaction's changes of runnable rows: the earliest due time of
// jobs that became runnable, the zero time for a lock alone.
type runnableRows map[runnableKey]time.Time

// due records that a job of the row is due at a time.
func (r runnableRows) due(k runnableKey, at time.Time) {
	if old := r[k]; old.IsZero() || at.Before(old) {
		r[k] = at
	}
}

// touch locks the row.
func (r runnableRows) touch(k runnableKey) {
	if _, ok := r[k]; !ok {
		r[k] = time.Time{}
	}
}

// makeRunnable queues the writing of the rows, and ends the saturation of freed connections.
// Call it after the jobs are written or queued, and wait for no other lock after it.
func (t *tx) makeRunnable(ctx context.Context, rows runnableRows, freed []job.ID) {
	if len(rows) == 0 {
		return
	}
	p := pgdb.MakeRunnableParams{Freed: sqlstore.Listed(freed)}
	for k, at := range rows {
		p.Connections = append(p.Connections, k.conn)
		p.HoldKeys = append(p.HoldKeys, k.hold)
		p.NextAts = append(p.NextAts, job.Micros(at))
		if !at.IsZero() && at.Before(t.now.Add(store.HintAhead)) {
			t.hint[store.WatchWork] = true
		}
	}
	keep := pgdb.KeepForNewRowsParams{Connections: p.Connections, HoldKeys: p.HoldKeys}
	t.queue(ctx, statement("connections", (*pgdb.Queries).KeepForNewRows, keep))
	t.queue(ctx, statement("runnable rows", (*pgdb.Queries).MakeRunnable, p))
}

// shareClaimLocks prevents claims from counting the jobs under way of a connection while one
// of them ends. It takes all claim locks together, in the lock order.
func (b *changeApplier) shareClaimLocks(ctx context.Context) {
	conns := slices.Clone(b.freed)
	for _, j := range b.locked {
		if j.State.InFlight() {
			conns = append(conns, j.Connection)
		}
	}
	b.execRows(ctx, len(conns), statement("claim locks", (*pgdb.Queries).ShareClaimLocks, distinct(conns)))
}

// finish writes the runnable rows.
func (b *changeApplier) finish(ctx context.Context) error {
	if b.saturated {
		rows, err := b.q.SaturatedRows(ctx, distinct(b.freed))
		if err != nil {
			return fmt.Errorf("runnable rows: %w", err)
		}
		for _, r := range rows {
			b.runnable.touch(runnableKey{r.ConnectionID, r.HoldKey})
			b.hint[store.WatchWork] = true
		}
	}
	b.wakeSchedules(ctx)
	b.makeRunnable(ctx, b.runnable, b.freed)
	if err := b.flush(ctx); err != nil {
		return err
	}
	for _, h := range b.holds {
		if err := b.shared().Hold(ctx, h.conn, h.hold, h.HoldUntil); err != nil {
			return err
		}
	}
	for _, k := range sortedKeys(b.left) {
		err := b.shared().Q.Recount(ctx, shareddb.RecountParams{ConnectionID: k.conn, HoldKey: k.hold})
		if err != nil {
			return fmt.Errorf("runnable rows: %w", err)
		}
	}
	return nil
}
