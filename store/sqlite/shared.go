package sqlite

import (
	"context"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/store"
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

// Wake implements sqlstore.Writing.
func (w writing) Wake(kind store.WatchKind) { w.t.hint[kind] = true }
