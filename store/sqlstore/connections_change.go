package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file: jobs are counted when the connection is locked, so that no transaction
// can add one unseen.

// ChangeConnection implements store.Store.
func (r *Roles) ChangeConnection(ctx context.Context, c store.ConnectionChange) (store.Connection, error) {
	return write(ctx, r, "change connection", func(ctx context.Context, t Tx) (store.Connection, error) {
		bucketAt, err := t.LockConnection(ctx, c.ID)
		if err != nil {
			return store.Connection{}, orNotFound(err)
		}
		conn, err := t.Connection(ctx, c.ID)
		if err == nil && conn.Project != c.Project {
			err = store.ErrNotFound
		}
		if err != nil {
			return store.Connection{}, err
		}
		next, err := c.Changed(conn, t.Now)
		if err != nil {
			return store.Connection{}, err
		}
		if c.Delete {
			used, err := t.Q.ConnectionInUse(ctx, shareddb.ConnectionInUseParams{
				ID: c.ID, Projects: []string{c.Project, job.NoticeProject(c.Project)},
			})
			if err == nil && used {
				err = store.ErrInUse
			}
			if err != nil {
				return store.Connection{}, err
			}
		}
		err = t.Overwriting(ctx, func() error {
			if err := t.setConnection(ctx, next); err != nil {
				return err
			}
			if err := t.changeCredential(ctx, c, next.CredentialVersion); err != nil {
				return err
			}
			return named("runnable rows", t.changeRunnable(ctx, c, conn, next, bucketAt))
		})
		if err != nil {
			return store.Connection{}, err
		}
		return t.Connection(ctx, c.ID)
	})
}

func (t Tx) setConnection(ctx context.Context, c store.Connection) error {
	return named("connection", t.LabelConnection(ctx, c.ID, func(ctx context.Context) error {
		return t.Q.SetConnection(ctx, shareddb.SetConnectionParams{
			ID: c.ID, DisplayName: c.DisplayName, Settings: filled(c.Settings), Class: c.Class,
			KeyWindow: c.KeyWindow.Microseconds(), AccountIdentity: c.AccountIdentity, MaxInFlight: int64(c.MaxInFlight),
			MaxPerMinute: int64(c.MaxPerMinute), CoolDown: c.CoolDown.Microseconds(), Retry: c.Retry.Encode(), PausedAt: c.PausedAt,
			PausedReason: c.PausedReason, CredentialVersion: int64(c.CredentialVersion),
			CredentialFingerprint: c.CredentialFingerprint, CredentialExpiresAt: c.CredentialExpires, CredentialRenews: c.CredentialRenews, Version: c.Version,
			UpdatedAt: c.Updated, DeletedAt: c.Deleted, UpdatedBy: c.UpdatedBy, Labels: store.EncodeLabels(c.Labels),
		})
	}))
}

// changeCredential replaces the credential, or the seal of the present one.
func (t Tx) changeCredential(ctx context.Context, c store.ConnectionChange, version int) error {
	if c.Seal != nil {
		n, err := t.Q.SetSeal(ctx, shareddb.SetSealParams{
			KeyID: c.Seal.KeyID, Data: filled(c.Seal.Data), ConnectionID: c.ID, Version: int64(version),
		})
		if err == nil && n != 1 {
			err = fmt.Errorf("%w: credential version %d is not there", store.ErrIllegal, version)
		}
		return named("seal", err)
	}
	if c.Credential == nil && !c.Delete {
		return nil
	}
	if err := t.Q.RemoveCredentialsOf(ctx, []job.ID{c.ID}); err != nil || c.Credential == nil {
		return named("credential", err)
	}
	return t.insertCredential(ctx, c.ID, *c.Credential)
}

// changeRunnable updates the runnable rows, and wakes the watchers for work.
func (t Tx) changeRunnable(ctx context.Context, c store.ConnectionChange, conn, next store.Connection, bucketAt int64) error {
	if c.Delete {
		return t.Q.DropRunnableOf(ctx, c.ID)
	}
	p := shareddb.SetRunnableOfParams{
		Paused: !next.PausedAt.IsZero(), Rotated: c.Credential != nil, Bounded: c.Limits != nil,
		PacedUntil: time.Unix(0, 0), ConnectionID: c.ID,
	}
	if c.Limits != nil {
		b := store.Bucket{At: bucketAt}.Repaced(t.Now.UnixMicro(), int64(c.Limits.MaxPerMinute))
		if b.PerMinute > 0 {
			p.PacedUntil = time.UnixMicro(b.At)
		}
		if err := t.SetBucket(ctx, c.ID, b.At); err != nil {
			return err
		}
	}
	if c.Resume || c.Credential != nil || c.Limits != nil {
		t.Wake(store.WatchWork)
	}
	if c.Credential != nil && !conn.AuthHoldAt.IsZero() {
		if err := t.Q.WakeLooks(ctx, shareddb.WakeLooksParams{Now: t.Now, ConnectionID: c.ID}); err != nil {
			return fmt.Errorf("looks: %w", err)
		}
	}
	return t.Q.SetRunnableOf(ctx, p)
}

// Missed implements store.Store.
func (r *Roles) Missed(ctx context.Context, project string, id job.ID, limit int) ([]job.Snapshot, error) {
	return read(ctx, r, "missed", func(ctx context.Context, v View) ([]job.Snapshot, error) {
		ids, err := v.Q.MissedIDs(ctx, shareddb.MissedIDsParams{
			ID: id, Project: project, Now: v.Now, MaxRows: int32(rules.Page(limit)),
		})
		if err != nil {
			return nil, err
		}
		jobs, err := v.Leased(ctx, ids)
		return store.Converted(jobs, err, func(l store.Leased) job.Snapshot { return l.Snapshot })
	})
}
