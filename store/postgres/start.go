package postgres

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file: the transaction that stores a due job also claims it, if it need not
// wait for that and takes nothing from other jobs.
//   - It waits for no lock: claim locks and jobs are taken only if they are free. A
//     connection that would reach its bound, or that bounds its claims per minute, is left to
//     a claim, which may wait for results.
//   - A row that a stop covers, or may cover by a label, is left to a claim.
//   - A row whose first due jobs are not those of this batch is left too, because older jobs
//     go first.

// starts returns the jobs of the batch to be started, by their runnable rows.
func (b *jobCreator) starts() map[runnableKey][]*creation {
	var out map[runnableKey][]*creation
	if b.suspension().Suspended() {
		return nil
	}
	for i := range b.jobs {
		n := &b.jobs[i]
		if s := n.snapshot; b.items[n.item].Start != nil && s.WaitsFor.IsZero() && !s.NextAt.After(b.now) {
			if out == nil {
				out = make(map[runnableKey][]*creation)
			}
			k := runnableKey{s.Connection, s.HoldKey}
			out[k] = append(out[k], n)
		}
	}
	return out
}

// nextDue is the content of runnable rows after the jobs of a batch were added.
type nextDue struct {
	rows []pgdb.DueAmongRow
	held []pgdb.HeldRowsRow
	due  []pgdb.LockDueRow
}

// start claims the jobs of the batch that may start immediately.
func (b *jobCreator) start(ctx context.Context) error {
	starts := b.starts()
	if starts == nil {
		return nil
	}
	d, err := b.dueNext(ctx, starts)
	if err != nil {
		return err
	}
	c, err := b.starter()
	if err != nil {
		return err
	}
	c.holds(d.held)
	keys := make([]runnableKey, 0, len(d.rows))
	for _, r := range d.rows {
		keys = append(keys, runnableKey{r.ConnectionID, r.HoldKey})
	}
	if err := c.findStops(ctx, keys); err != nil {
		return err
	}
	labels := slices.ContainsFunc(c.stops, func(s store.Stop) bool { return s.Scope == store.StopLabel && s.InForce(b.now) })
	due := make(map[runnableKey][]pgdb.LockDueRow)
	for _, r := range d.due {
		k := runnableKey{r.ConnectionID, r.HoldKey}
		due[k] = append(due[k], r)
	}
	began := 0
	for _, r := range d.rows {
		k := runnableKey{r.ConnectionID, r.HoldKey}
		if labels || c.stopOver(k) != nil {
			continue
		}
		if t := c.locks[k.conn]; t != nil && int64(len(due[k])) < t.capacity && b.ours(starts[k], due[k]) {
			t.capacity -= int64(len(due[k]))
			if err := b.takeAll(ctx, c, k, starts[k], due[k]); err != nil {
				return err
			}
			began += len(due[k])
		}
	}
	if began == len(b.jobs) {
		b.hint[store.WatchWork] = false // no worker has to be woken for them
	}
	return nil
}

// starter takes the free claim locks of connections that do not bound their claims per
// minute.
func (b *jobCreator) starter() (*claimer, error) {
	c := &claimer{tx: b.tx, conns: make(map[job.ID]store.Connection), locks: make(map[job.ID]*claimLock)}
	free := make(map[job.ID]bool, len(b.reads.free))
	for _, f := range b.reads.free {
		free[f.ConnectionID] = true
	}
	for _, r := range b.reads.start {
		conn, err := sqlstore.ToConnection(shareddb.ConnectionsRow{
			Connection: shareddb.Connection(r.Connection), AuthHoldAt: r.AuthHoldAt, AuthHoldReason: r.AuthHoldReason,
			AuthHoldCause: r.AuthHoldCause, LimitedUntil: r.LimitedUntil,
		}, b.now)
		if err != nil {
			return nil, err
		}
		c.conns[conn.ID] = conn
		if free[conn.ID] && r.Connection.MaxPerMinute == 0 {
			c.locks[conn.ID] = &claimLock{capacity: c.bounds(r.Connection.MaxInFlight, r.Busy, store.Bucket{}).Free()}
		}
	}
	return c, nil
}

// dueNext reads the due jobs of the rows, in one round trip with earlier queued statements.
// Each statement sees what those before it have written or locked.
func (b *jobCreator) dueNext(ctx context.Context, starts map[runnableKey][]*creation) (d nextDue, err error) {
	rows := pgdb.DueAmongParams{Now: b.now}
	// The jobs of this transaction are the newest in the log.
	lock := pgdb.LockDueParams{Now: b.now, Base: math.MaxInt64}
	for k, jobs := range starts {
		rows.Connections, rows.HoldKeys = append(rows.Connections, k.conn), append(rows.HoldKeys, k.hold)
		lock.Most = append(lock.Most, int64(len(jobs)))
	}
	lock.Connections, lock.HoldKeys = rows.Connections, rows.HoldKeys
	b.queue(ctx, query("runnable rows", (*pgdb.Queries).DueAmong, rows, &d.rows))
	b.queue(ctx, query("due jobs", (*pgdb.Queries).LockDue, lock, &d.due))
	keys := pgdb.HeldRowsParams{Connections: rows.Connections, HoldKeys: rows.HoldKeys}
	b.queue(ctx, query("holds", (*pgdb.Queries).HeldRows, keys, &d.held))
	return d, b.flush(ctx)
}

// ours reports whether the first due jobs of a row are jobs to be started.
func (b *jobCreator) ours(starts []*creation, due []pgdb.LockDueRow) bool {
	mine := make(map[job.ID]bool, len(starts))
	for _, n := range starts {
		mine[n.snapshot.ID] = true
	}
	for _, r := range due {
		if !mine[r.JobID] {
			return false
		}
	}
	return len(due) > 0
}

// takeAll leases the jobs of one runnable row, each as its caller requested, and recounts the
// row.
func (b *jobCreator) takeAll(ctx context.Context, c *claimer, k runnableKey, starts []*creation, due []pgdb.LockDueRow) error {
	at := make(map[job.ID]*creation, len(starts))
	for _, n := range starts {
		at[n.snapshot.ID] = n
	}
	for _, r := range due {
		n := at[r.JobID]
		c.p, c.out = *b.items[n.item].Start, nil
		if err := c.take(ctx, []pgdb.LockDueRow{r}); err != nil {
			return err
		}
		b.out[n.item].Started = &c.out[0]
	}
	p := pgdb.ServedParams{
		Now: b.now, Connections: []job.ID{k.conn}, HoldKeys: []string{k.hold},
		Served: []bool{true}, Saturated: []bool{false}, PacedUntils: []time.Time{{}}, StoppedUntils: []time.Time{{}},
	}
	b.exec(ctx, statement("runnable rows", (*pgdb.Queries).Served, p))
	return nil
}
