package sqlite

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// shared returns the roles that both engines share.
func (s *Store) shared() sqlstore.Roles {
	reading := func(ctx context.Context, name string, fn func(context.Context, sqlstore.View) error) error {
		_, err := read(ctx, s, name, func(ctx context.Context, v view) (struct{}, error) { return struct{}{}, fn(ctx, v.shared()) })
		return err
	}
	return sqlstore.New(sqlstore.Engine{
		Read: reading, ReadOne: reading,
		Write: func(ctx context.Context, name string, fn func(context.Context, sqlstore.Tx) error) error {
			return writeOnly(ctx, s, name, func(ctx context.Context, t *tx) error { return fn(ctx, t.shared()) })
		},
	})
}

// shared returns the view as shared bodies see it.
func (v view) shared() sqlstore.View {
	return sqlstore.View{Q: v.sq, DB: dialect{conn: v.conn}, Now: fromMicros(v.now), Suspect: v.suspect, Reading: sharedView{v}}
}

// shared returns the transaction as shared bodies see it.
func (t *tx) shared() sqlstore.Tx { return sqlstore.Tx{View: t.view().shared(), Writing: writing{t}} }

// sharedQueries returns the shared queries on a connection.
func sharedQueries(conn sqlitedb.DBTX) *shareddb.Queries {
	return shareddb.New(dialect{conn: conn, known: make(map[string]string)})
}

// sharedView is a view as shared bodies see it.
type sharedView struct{ view }

var _ sqlstore.Reading = sharedView{}

// Log implements sqlstore.Reading. Events that the log no longer returns are not read.
func (v sharedView) Log(ctx context.Context, after int64, most int) ([]logpage.Entry, bool, error) {
	m, err := v.q.GetMeta(ctx)
	if err != nil {
		return nil, false, err
	}
	entries, more, err := v.allEntries(ctx, max(after, m.EventsFrom), most)
	if len(entries) > most {
		return entries[:most], true, err
	}
	return entries, more, err
}

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

// CountUse implements sqlstore.Writing.
func (w writing) CountUse(ctx context.Context, project string, bytes int64) error {
	return w.t.w.usage.add(ctx, w.t, project, 0, bytes)
}

// Overwriting implements sqlstore.Writing.
func (w writing) Overwriting(ctx context.Context, fn func() error) error {
	return w.t.overwriting(ctx, fn)
}

// MoveRoll implements sqlstore.Writing.
func (w writing) MoveRoll(ctx context.Context, _ store.RollParams, from, to int64, at time.Time) (bool, error) {
	n, err := w.t.q.MoveRoll(ctx, sqlitedb.MoveRollParams{Position: to, At: at.UnixMicro(), Was: from})
	return n == 1, err
}

// Wake implements sqlstore.Writing.
func (w writing) Wake(kind store.WatchKind) { w.t.hint[kind] = true }
