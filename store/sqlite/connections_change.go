package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// ChangeConnection implements store.Store.
func (s *Store) ChangeConnection(ctx context.Context, c store.ConnectionChange) (store.Connection, error) {
	return write(ctx, s, "change connection", func(ctx context.Context, t *tx) (store.Connection, error) {
		r := &connectionChange{tx: t, ConnectionChange: c}
		if err := r.judge(ctx); err != nil {
			return store.Connection{}, err
		}
		writeAll := func() error { return inSequence(ctx, r.write, r.credential, r.runnable) }
		var err error
		if c.Delete || c.Credential != nil { // an old credential is not left in the file
			err = t.overwriting(ctx, writeAll)
		} else {
			err = writeAll()
		}
		if err != nil {
			return store.Connection{}, err
		}
		return t.view().connection(ctx, fromID(c.ID))
	})
}

// connectionChange is a change of a connection in progress.
type connectionChange struct {
	*tx
	store.ConnectionChange
	next   store.Connection
	bucket store.Bucket
}

// judge refuses an illegal change before the first write.
func (r *connectionChange) judge(ctx context.Context) error {
	row, err := r.getConnection(ctx, fromID(r.ID))
	if errors.Is(err, sql.ErrNoRows) || err == nil && row.Project != r.Project {
		return store.ErrNotFound
	}
	if err != nil {
		return err
	}
	conn, err := toConnection(row, nil)
	if err != nil {
		return err
	}
	if r.next, err = r.Changed(conn, fromMicros(r.now)); err != nil {
		return err
	}
	r.bucket = store.Bucket{PerMinute: row.MaxPerMinute, At: row.BucketAt}
	if r.Limits != nil {
		r.bucket = r.bucket.Repaced(r.now, int64(r.Limits.MaxPerMinute))
	}
	if !r.Delete {
		return nil
	}
	used, err := r.q.ConnectionInUse(ctx, sqlitedb.ConnectionInUseParams{ID: fromID(r.ID), Project: r.Project})
	if err == nil && used != 0 {
		return store.ErrInUse
	}
	return err
}

// write writes the connection's row, and the rows by which its labels are found.
func (r *connectionChange) write(ctx context.Context) error {
	id := fromID(r.ID)
	if r.Labels != nil {
		if err := r.q.DropConnectionLabels(ctx, id); err != nil {
			return named("labels", err)
		}
	}
	err := r.q.SetConnection(ctx, setConnectionParams(r.next, r.bucket.At))
	if err == nil && r.Labels != nil {
		err = r.q.InsertConnectionLabels(ctx, id)
	}
	return named("connection", err)
}

func (r *connectionChange) credential(ctx context.Context) error {
	if r.Seal != nil {
		return r.seal(ctx)
	}
	if r.Credential == nil && !r.Delete {
		return nil
	}
	err := r.q.DropCredentials(ctx, fromID(r.ID))
	if err == nil && r.Credential != nil {
		err = r.q.InsertCredential(ctx, insertCredentialParams(r.ID, *r.Credential, r.now))
	}
	return named("credential", err)
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
		return r.q.DropRunnableOf(ctx, id)
	}
	r.hint[store.WatchWork] = r.hint[store.WatchWork] || r.Resume || r.Credential != nil || r.Limits != nil
	paused := toBool(!r.next.PausedAt.IsZero())
	if err := r.q.PauseRunnable(ctx, sqlitedb.PauseRunnableParams{ConnectionID: id, Paused: paused}); err != nil {
		return err
	}
	if r.Credential != nil {
		lifted, err := r.q.LiftAuth(ctx, id)
		if err == nil && lifted > 0 {
			err = r.q.WakeLooks(ctx, sqlitedb.WakeLooksParams{ConnectionID: id, Now: someMicros(r.now)})
		}
		if err != nil {
			return err
		}
	}
	if r.Limits == nil {
		return nil
	}
	p := sqlitedb.UnboundParams{ConnectionID: id}
	if r.bucket.PerMinute > 0 {
		p.PacedUntil = r.bucket.At
	}
	return r.q.Unbound(ctx, p)
}

// Missed implements store.Store.
func (s *Store) Missed(ctx context.Context, project string, id job.ID, limit int) ([]job.Snapshot, error) {
	return read(ctx, s, "missed", func(ctx context.Context, v view) ([]job.Snapshot, error) {
		ids, err := v.q.MissedIDs(ctx, sqlitedb.MissedIDsParams{
			ID: fromID(id), Project: project, Now: someMicros(v.now), MaxRows: page(limit),
		})
		if err != nil {
			return nil, err
		}
		out := make([]job.Snapshot, len(ids))
		for i, id := range ids {
			if out[i], err = v.snapshot(ctx, id); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}
