package postgres

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file: a change of a connection is serialized with all work on its jobs.
//   - It takes the connection's claim lock first, alone: claims, starts and results that are
//     being written end before it, and later ones see what it has written.
//   - It locks the connection's row, which a transaction that adds a runnable row locks
//     before, and then all its runnable rows (see lock_order.go): transactions that make jobs
//     runnable end before it, or wait for it, or find their row gone. In the last case they
//     add the row again, and its trigger makes them restart. A refusal of a credential locks
//     its runnable row before it compares versions.
//   - Jobs are counted when all that is locked, so that no transaction can add one unseen. A
//     job that waits for another one has no runnable row: a transaction that stores or
//     retries one locks the connection itself (see keep).

// LockConnection implements sqlstore.Writing.
func (w writing) LockConnection(ctx context.Context, id job.ID) (bucketAt int64, err error) {
	if bucketAt, err = w.t.q.LockClaimLock(ctx, id); err != nil {
		return 0, fmt.Errorf("claim lock: %w", err)
	}
	if err := w.t.q.LockConnection(ctx, id); err != nil {
		return 0, fmt.Errorf("connection: %w", err)
	}
	return bucketAt, named("runnable rows", w.t.q.LockRunnableOf(ctx, id))
}

// keep prevents connections from being deleted until the commit, and returns which are
// deleted already. Jobs may be locked by then, runnable rows may not.
func (t *tx) keep(ctx context.Context, conns []job.ID) (deleted map[job.ID]bool, err error) {
	if len(conns) == 0 {
		return nil, nil
	}
	rows, err := t.q.KeepConnections(ctx, distinct(conns))
	if err != nil {
		return nil, fmt.Errorf("connections: %w", err)
	}
	deleted = make(map[job.ID]bool)
	for _, r := range rows {
		if r.Deleted {
			deleted[r.ID] = true
		}
	}
	return deleted, nil
}

// keepConnections keeps the connections of jobs that changes restart after an end: on a
// deleted connection no job may restart.
func (b *changeApplier) keepConnections(ctx context.Context, which []int) error {
	var conns []job.ID
	for _, i := range which {
		if j, ok := b.locked[b.items[i].Job]; ok && rules.Restarts(b.items[i], j.State) {
			conns = append(conns, j.Connection)
		}
	}
	if len(conns) == 0 {
		return nil
	}
	// The claim locks are taken before.
	if err := b.flush(ctx); err != nil {
		return err
	}
	var err error
	b.deleted, err = b.keep(ctx, conns)
	return err
}
