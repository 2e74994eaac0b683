package postgres

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// shared returns the roles that both engines share.
func (s *Store) shared() sqlstore.Roles {
	none := struct{}{}
	return sqlstore.New(sqlstore.Engine{
		Enlist: s.enlist, StepRows: store.MaxBatch, FireTime: time.Second, FiresOnce: true,
		Read: func(ctx context.Context, name string, fn func(context.Context, sqlstore.View) error) error {
			_, err := read(ctx, s, name, func(ctx context.Context, v view) (struct{}, error) { return none, fn(ctx, v.shared()) })
			return err
		},
		ReadOne: func(ctx context.Context, name string, fn func(context.Context, sqlstore.View) error) error {
			_, err := readOne(ctx, s, name, func(ctx context.Context, v view) (struct{}, error) { return none, fn(ctx, v.shared()) })
			return err
		},
		Write: func(ctx context.Context, name string, fn func(context.Context, sqlstore.Tx) error) error {
			return writeOnly(ctx, s, name, func(ctx context.Context, t *tx) error { return fn(ctx, t.shared()) })
		},
	})
}

// shared returns the view as shared bodies see it.
func (v view) shared() sqlstore.View {
	return sqlstore.View{Q: shareddb.New(v.conn), DB: v.conn, Now: v.now, Suspect: v.suspect, Reading: sharedView{v}}
}

// shared returns the transaction as shared bodies see it.
func (t *tx) shared() sqlstore.Tx { return sqlstore.Tx{View: t.view().shared(), Writing: writing{t}} }

// sharedView is a view as shared bodies see it.
type sharedView struct{ view }

var _ sqlstore.Reading = sharedView{}

// OtherRolls implements sqlstore.Reading.
func (v sharedView) OtherRolls(ctx context.Context, owner job.ID) (bool, error) {
	return v.q.OtherRolls(ctx, pgdb.OtherRollsParams{Owner: owner, Now: v.now})
}

// writing is a transaction as shared bodies see it.
type writing struct{ t *tx }

var _ sqlstore.Writing = writing{}

// LockCount implements sqlstore.Writing.
func (w writing) LockCount(ctx context.Context, kind sqlstore.CountedKind, project string) error {
	return named("count lock", w.t.q.LockUse(ctx, pgdb.LockUseParams{Kind: int32(kind), Project: project}))
}

// RefuseQuarantined implements sqlstore.Writing.
func (w writing) RefuseQuarantined(context.Context) error { return w.t.refuseQuarantined() }

// RefuseClosed implements sqlstore.Writing.
func (w writing) RefuseClosed(context.Context) error { return w.t.refuseClosed() }

// OpenStops implements sqlstore.Writing.
func (w writing) OpenStops(context.Context) (int64, error) { return w.t.stops, nil }

// CountUse implements sqlstore.Writing.
func (w writing) CountUse(ctx context.Context, project string, jobs, bytes int64) error {
	if jobs == 0 && bytes == 0 {
		return nil
	}
	return named("use", w.t.q.AddUse(ctx, pgdb.AddUseParams{Project: project, Jobs: jobs, Bytes: bytes}))
}

// Overwriting implements sqlstore.Writing.
func (writing) Overwriting(_ context.Context, fn func() error) error { return fn() }

// MoveRoll implements sqlstore.Writing.
func (w writing) MoveRoll(ctx context.Context, p store.RollParams, from, to int64, at time.Time) (bool, error) {
	n, err := w.t.q.MoveRoll(ctx, pgdb.MoveRollParams{
		Position: to, At: at, Owner: p.Owner, LeaseUntil: soon(w.t.now, p.Lease), Was: from, Now: w.t.now,
	})
	return n == 1, err
}

// TakeRetention implements sqlstore.Writing.
func (w writing) TakeRetention(ctx context.Context, owner job.ID, lease time.Duration) (droppedTo int64, busy bool, err error) {
	rows, err := w.t.q.TakeRetention(ctx)
	if err != nil || len(rows) == 0 {
		return 0, true, err
	}
	row, now := rows[0], w.t.now
	mine := job.ID(row.Owner) == owner
	switch {
	case !mine && row.LeaseUntil.After(now):
		return 0, true, nil
	case mine && row.LeaseUntil.Sub(now) > lease/2: // a row that each step writes would collect dead versions
		return row.DroppedTo, false, nil
	}
	err = w.t.q.LeaseRetention(ctx, pgdb.LeaseRetentionParams{Owner: owner, LeaseUntil: soon(now, lease)})
	return row.DroppedTo, false, err
}

// ShareRetention implements sqlstore.Writing.
func (w writing) ShareRetention(ctx context.Context) (int64, error) { return w.t.q.ShareRetention(ctx) }

// SetDroppedTo implements sqlstore.Writing.
func (w writing) SetDroppedTo(ctx context.Context, to int64) error {
	return w.t.q.SetDroppedTo(ctx, to)
}

// SetBucket implements sqlstore.Writing.
func (w writing) SetBucket(ctx context.Context, connection job.ID, at int64) error {
	return named("token bucket", w.t.q.SetBucket(ctx, pgdb.SetBucketParams{ConnectionID: connection, BucketAt: at}))
}

// LabelConnection implements sqlstore.Writing.
func (writing) LabelConnection(ctx context.Context, _ job.ID, write func(context.Context) error) error {
	return write(ctx)
}

// Wake implements sqlstore.Writing.
func (w writing) Wake(kind store.WatchKind) { w.t.hint[kind] = true }
