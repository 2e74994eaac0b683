package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
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

// ChangeConnection implements store.Store.
func (s *Store) ChangeConnection(ctx context.Context, c store.ConnectionChange) (store.Connection, error) {
	return write(ctx, s, "change connection", func(ctx context.Context, t *tx) (store.Connection, error) {
		r := &connectionChange{tx: t, ConnectionChange: c}
		if err := inSequence(ctx, r.lock, r.refuseInUse); err != nil {
			return store.Connection{}, err
		}
		if err := t.q.SetConnection(ctx, setConnectionParams(r.next)); err != nil {
			return store.Connection{}, fmt.Errorf("connection: %w", err)
		}
		if err := inSequence(ctx, r.credential, r.runnable); err != nil {
			return store.Connection{}, err
		}
		return t.view().connection(ctx, c.ID)
	})
}

// connectionChange is a change of a connection in progress.
type connectionChange struct {
	*tx
	store.ConnectionChange
	next   store.Connection
	bucket int64
	// held: there was an auth hold.
	held bool
}

// lock takes the locks in the lock order, and judges the change.
func (r *connectionChange) lock(ctx context.Context) error {
	id := fromID(r.ID)
	var err error
	if r.bucket, err = r.q.LockClaimLock(ctx, id); err != nil {
		return fmt.Errorf("claim lock: %w", err)
	}
	n, err := r.q.LockConnection(ctx, pgdb.LockConnectionParams{ID: id, Project: r.Project})
	if err != nil {
		return fmt.Errorf("connection: %w", err)
	}
	if n == 0 {
		return store.ErrNotFound
	}
	conn, err := r.view().connection(ctx, r.ID)
	if err != nil {
		return err
	}
	if r.next, err = r.Changed(conn, r.now); err != nil {
		return err
	}
	r.held = !conn.AuthHoldAt.IsZero()
	return named("runnable rows", r.q.LockRunnableOf(ctx, id))
}

func (r *connectionChange) refuseInUse(ctx context.Context) error {
	if !r.Delete {
		return nil
	}
	used, err := r.q.ConnectionInUse(ctx, pgdb.ConnectionInUseParams{ID: fromID(r.ID), Project: r.Project})
	if err == nil && used {
		return store.ErrInUse
	}
	return named("jobs", err)
}

func (r *connectionChange) credential(ctx context.Context) error {
	if r.Seal != nil {
		return r.seal(ctx)
	}
	if r.Credential == nil && !r.Delete {
		return nil
	}
	if err := r.q.DropCredentials(ctx, fromID(r.ID)); err != nil || r.Credential == nil {
		return named("credential", err)
	}
	return named("credential", r.q.InsertCredential(ctx, insertCredentialParams(r.ID, *r.Credential, r.now)))
}

// seal writes a new seal of the connection's present credential.
func (r *connectionChange) seal(ctx context.Context) error {
	n, err := r.q.SetSeal(ctx, setSealParams(r.ID, r.next.CredentialVersion, *r.Seal))
	if err == nil && n != 1 {
		return fmt.Errorf("%w: credential version %d is not there", store.ErrIllegal, r.next.CredentialVersion)
	}
	return named("seal", err)
}

// runnable updates the runnable rows, and wakes the watchers for work.
func (r *connectionChange) runnable(ctx context.Context) error {
	id := fromID(r.ID)
	if r.Delete {
		return named("runnable rows", r.q.DropRunnableOf(ctx, id))
	}
	p := pgdb.SetRunnableOfParams{
		Paused: !r.next.PausedAt.IsZero(), Rotated: r.Credential != nil, Bounded: r.Limits != nil,
		PacedUntil: time.Unix(0, 0), ConnectionID: id,
	}
	if r.Limits != nil {
		b := store.Bucket{At: r.bucket}.Repaced(r.now.UnixMicro(), int64(r.Limits.MaxPerMinute))
		if b.PerMinute > 0 {
			p.PacedUntil = time.UnixMicro(b.At)
		}
		if err := r.q.SetBucket(ctx, pgdb.SetBucketParams{BucketAt: b.At, ConnectionID: id}); err != nil {
			return fmt.Errorf("token bucket: %w", err)
		}
	}
	r.hint[store.WatchWork] = r.Resume || r.Credential != nil || r.Limits != nil
	if r.Credential != nil && r.held {
		if err := r.q.WakeLooks(ctx, pgdb.WakeLooksParams{Now: r.now, ConnectionID: id}); err != nil {
			return fmt.Errorf("looks: %w", err)
		}
	}
	return named("runnable rows", r.q.SetRunnableOf(ctx, p))
}

// keep prevents connections from being deleted until the commit, and returns which are
// deleted already. Jobs may be locked by then, runnable rows may not.
func (t *tx) keep(ctx context.Context, conns []job.ID) (deleted map[job.ID]bool, err error) {
	if len(conns) == 0 {
		return nil, nil
	}
	rows, err := t.q.KeepConnections(ctx, fromIDs(distinct(conns)))
	if err != nil {
		return nil, fmt.Errorf("connections: %w", err)
	}
	deleted = make(map[job.ID]bool)
	for _, r := range rows {
		if r.Deleted {
			deleted[toID(r.ID)] = true
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

// Missed implements store.Store.
func (s *Store) Missed(ctx context.Context, project string, id job.ID, limit int) ([]job.Snapshot, error) {
	return read(ctx, s, "missed", func(ctx context.Context, v view) ([]job.Snapshot, error) {
		most := rules.Page(limit)
		ids, err := v.q.MissedIDs(ctx, pgdb.MissedIDsParams{
			ID: fromID(id), Project: project, Now: v.now, MaxRows: int32(most),
		})
		if err != nil {
			return nil, err
		}
		return v.interleaved(ctx, most, ids)
	})
}
