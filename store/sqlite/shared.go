package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// stepRows bounds the rows of a step that removes or fires: the writer is busy with that many
// jobs for some milliseconds.
const stepRows = 25

// shared returns the roles that both engines share.
func (s *Store) shared() sqlstore.Roles {
	reading := func(ctx context.Context, name string, fn func(context.Context, sqlstore.View) error) error {
		_, err := read(ctx, s, name, func(ctx context.Context, v view) (struct{}, error) { return struct{}{}, fn(ctx, v.shared()) })
		return err
	}
	return sqlstore.New(sqlstore.Engine{
		Enlist: s.enlist, StepRows: stepRows, FireTime: 22 * time.Millisecond,
		Read: reading, ReadOne: reading,
		Write: func(ctx context.Context, name string, fn func(context.Context, sqlstore.Tx) error) error {
			return writeOnly(ctx, s, name, func(ctx context.Context, t *tx) error { return fn(ctx, t.shared()) })
		},
	})
}

// shared returns the view as shared bodies see it.
func (v view) shared() sqlstore.View {
	return sqlstore.View{Q: v.sq, DB: dialect{v.conn}, Now: v.now, Suspect: v.suspect, Reading: sharedView{v}}
}

// shared returns the transaction as shared bodies see it.
func (t *tx) shared() sqlstore.Tx { return sqlstore.Tx{View: t.view().shared(), Writing: writing{t}} }

// sharedView is a view as shared bodies see it.
type sharedView struct{ view }

var _ sqlstore.Reading = sharedView{}

// At implements sqlstore.Reading.
func (v sharedView) At(time.Time) time.Time { return v.now }

// OtherRolls implements sqlstore.Reading.
func (sharedView) OtherRolls(context.Context, job.ID) (bool, error) { return false, nil }

// CreatedByState implements sqlstore.Reading.
func (sharedView) CreatedByState() bool { return true }

// BoundPlans implements sqlstore.Reading.
func (sharedView) BoundPlans(context.Context) error { return nil }

// CountByLabels implements sqlstore.Reading.
func (sharedView) CountByLabels(context.Context, string, []any) (int, error) {
	return store.SearchCandidates + 1, nil
}

// writing is an operation as shared bodies see it.
type writing struct{ t *tx }

var _ sqlstore.Writing = writing{}

// LockCount implements sqlstore.Writing.
func (writing) LockCount(context.Context, sqlstore.CountedKind, string) error { return nil }

// RefuseQuarantined implements sqlstore.Writing.
func (w writing) RefuseQuarantined(ctx context.Context) error { return w.t.refuseQuarantined(ctx) }

// RefuseClosed implements sqlstore.Writing.
func (w writing) RefuseClosed(ctx context.Context) error { return w.t.refuseClosed(ctx) }

// OpenStops implements sqlstore.Writing.
func (w writing) OpenStops(ctx context.Context) (int64, error) {
	m, err := w.t.meta(ctx)
	return m.Stops, err
}

// CountUse implements sqlstore.Writing.
func (w writing) CountUse(ctx context.Context, project string, jobs, bytes int64) error {
	if jobs == 0 && bytes == 0 {
		return nil
	}
	return w.t.w.usage.add(ctx, w.t, project, jobs, bytes)
}

// FoldUse implements sqlstore.Writing.
func (writing) FoldUse(context.Context, string) error { return nil }

// Overwriting implements sqlstore.Writing.
func (w writing) Overwriting(ctx context.Context, fn func() error) error {
	return w.t.overwriting(ctx, fn)
}

// overwriting runs fn while SQLite overwrites what is deleted with zeros: a deleted row cannot be
// read from the file afterwards. It costs writes.
func (t *tx) overwriting(ctx context.Context, fn func() error) (err error) {
	if t.overwrites {
		return fn()
	}
	if err := t.pragma(ctx, "secure_delete = ON"); err != nil {
		return err
	}
	t.overwrites = true
	defer func() {
		t.overwrites = false
		err = errors.Join(err, t.pragma(ctx, "secure_delete = OFF"))
	}()
	return fn()
}

func (t *tx) pragma(ctx context.Context, text string) error {
	if _, err := t.w.conn.ExecContext(ctx, "PRAGMA "+text); err != nil {
		return fmt.Errorf("pragma %s: %w", text, err)
	}
	return nil
}

// MoveRoll implements sqlstore.Writing.
func (w writing) MoveRoll(ctx context.Context, _ store.RollParams, from, to int64, at time.Time) (bool, error) {
	n, err := w.t.q.MoveRoll(ctx, sqlitedb.MoveRollParams{Position: to, At: at, Was: from})
	return n == 1, err
}

// TakeRetention implements sqlstore.Writing.
func (w writing) TakeRetention(ctx context.Context, _ job.ID, _ time.Duration) (droppedTo int64, busy bool, err error) {
	droppedTo, err = w.ShareRetention(ctx)
	return droppedTo, false, err
}

// ShareRetention implements sqlstore.Writing.
func (w writing) ShareRetention(ctx context.Context) (int64, error) {
	m, err := w.t.meta(ctx)
	return m.DroppedTo, err
}

// SetDroppedTo implements sqlstore.Writing.
func (w writing) SetDroppedTo(ctx context.Context, to int64) error {
	return w.t.q.SetDroppedTo(ctx, to)
}

// LockConnection implements sqlstore.Writing.
func (w writing) LockConnection(ctx context.Context, id job.ID) (bucketAt int64, err error) {
	return w.t.q.BucketOf(ctx, id)
}

// SetBucket implements sqlstore.Writing.
func (w writing) SetBucket(ctx context.Context, connection job.ID, at int64) error {
	return named("token bucket", w.t.q.SetBucket(ctx, sqlitedb.SetBucketParams{BucketAt: at, ID: connection}))
}

// LabelConnection implements sqlstore.Writing.
func (w writing) LabelConnection(ctx context.Context, id job.ID, write func(context.Context) error) error {
	return sqlstore.InSequence(ctx, sqlstore.With(w.t.q.DropConnectionLabels, id), write, sqlstore.With(w.t.q.InsertConnectionLabels, id))
}

// Wake implements sqlstore.Writing.
func (w writing) Wake(kind store.WatchKind) { w.t.hint[kind] = true }
