package sqlstore

import (
	"context"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/rules"
)

// ContentArms implements store.Store.
func (r *Roles) ContentArms(ctx context.Context, c store.GatedContent) (int64, error) {
	return readOne(ctx, r, "content arms", func(ctx context.Context, v View) (int64, error) {
		return v.Q.ContentArms(ctx, rules.BucketOf(c))
	})
}

// ArmedBy implements store.Store. A transaction that arms a job holds its row's lock until the
// arm is decided, even when its connection is lost: so ArmedBy waits for the row, and then
// reads.
func (r *Roles) ArmedBy(ctx context.Context, id, token job.ID) (store.Armed, error) {
	return write(ctx, r, "armed by", func(ctx context.Context, t Tx) (store.Armed, error) {
		if _, err := t.Q.LockJob(ctx, id); err != nil {
			return store.Armed{}, orNotFound(err)
		}
		rows, err := t.Q.Attempts(ctx, shareddb.AttemptsParams{JobID: id, ArmToken: column.OptionalID(token), MaxRows: 1})
		if err != nil {
			return store.Armed{}, err
		}
		snaps, err := t.Snapshots(ctx, []job.ID{id}, true)
		if err == nil && (len(rows) == 0 || len(snaps) == 0 || rows[0].ArmToken != token) {
			err = store.ErrNotFound
		}
		if err != nil {
			return store.Armed{}, err
		}
		attempt, err := toAttempt(rows[0])
		return store.Armed{Snapshot: snaps[0], Attempt: attempt}, err
	})
}

// SaveHandle implements store.Store. Only the attempt that is being sent may save a handle.
func (r *Roles) SaveHandle(ctx context.Context, id job.ID, attempt int, handle string) error {
	return writeOnly(ctx, r, "save handle", func(ctx context.Context, t Tx) error {
		if _, err := t.Q.LockJob(ctx, id); err != nil {
			return orNotFound(err)
		}
		n, err := t.Q.SaveHandle(ctx, shareddb.SaveHandleParams{Handle: handle, Number: attempt, JobID: id})
		if err != nil || n == 1 {
			return err
		}
		switch armed, err := t.Q.AttemptExists(ctx, shareddb.AttemptExistsParams{JobID: id, Number: int64(attempt)}); {
		case err != nil:
			return err
		case !armed:
			return store.ErrNotFound
		default:
			return store.ErrStale
		}
	})
}
