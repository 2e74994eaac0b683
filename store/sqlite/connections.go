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

// CreateConnection implements store.Store.
func (s *Store) CreateConnection(ctx context.Context, c store.NewConnection) (store.Connection, bool, error) {
	created := false
	conn, err := write(ctx, s, "create connection", func(ctx context.Context, t *tx) (store.Connection, error) {
		created = false
		if c.Key != "" {
			row, err := t.q.ConnectionByKey(ctx, sqlitedb.ConnectionByKeyParams{Project: c.Connection.Project, IdemKey: c.Key})
			if err == nil {
				return t.view().withHolds(ctx, row)
			}
			if !errors.Is(err, sql.ErrNoRows) {
				return store.Connection{}, err
			}
		}
		if err := t.shared().Counts(c.Connection.Project).Connections.OneMore(ctx, c.Most); err != nil {
			return store.Connection{}, err
		}
		if err := t.q.InsertConnection(ctx, insertConnectionParams(c, t.now)); err != nil {
			return store.Connection{}, err
		}
		if len(c.Connection.Labels) > 0 {
			if err := t.q.InsertConnectionLabels(ctx, fromID(c.Connection.ID)); err != nil {
				return store.Connection{}, fmt.Errorf("labels: %w", err)
			}
		}
		if c.Sealed != nil {
			sealed := *c.Sealed
			sealed.Version = 1
			if err := t.q.InsertCredential(ctx, insertCredentialParams(c.Connection.ID, sealed, t.now)); err != nil {
				return store.Connection{}, fmt.Errorf("credential: %w", err)
			}
		}
		created = true
		return t.view().connection(ctx, fromID(c.Connection.ID))
	})
	return conn, created && err == nil, err
}

// Connection implements store.Store.
func (s *Store) Connection(ctx context.Context, ref store.Ref) (store.Connection, error) {
	return read(ctx, s, "connection", func(ctx context.Context, v view) (store.Connection, error) {
		if ref.Key != "" {
			row, err := v.q.ConnectionByKey(ctx, sqlitedb.ConnectionByKeyParams{Project: ref.Project, IdemKey: ref.Key})
			if err != nil {
				return store.Connection{}, orNotFound(err)
			}
			return v.withHolds(ctx, row)
		}
		conn, err := v.connection(ctx, fromID(ref.ID))
		if err == nil && ref.Project != "" && conn.Project != ref.Project {
			return store.Connection{}, store.ErrNotFound
		}
		return conn, err
	})
}

func (v view) connection(ctx context.Context, id []byte) (store.Connection, error) {
	row, err := v.q.GetConnection(ctx, id)
	if err == nil && row.Project == "" { // erased
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Connection{}, orNotFound(err)
	}
	return v.withHolds(ctx, row)
}

// Hold implements store.Store.
func (s *Store) Hold(ctx context.Context, connection job.ID, holdKey string) (store.Hold, error) {
	return read(ctx, s, "hold", func(ctx context.Context, v view) (store.Hold, error) {
		h, err := v.q.HoldOf(ctx, sqlitedb.HoldOfParams{ConnectionID: fromID(connection), HoldKey: holdKey})
		if errors.Is(err, sql.ErrNoRows) {
			return store.Hold{}, nil
		}
		hold := store.Hold{AuthAt: fromNullMicros(h.AuthHoldAt), Auth: job.AuthCause(h.AuthHoldCause), Reason: h.AuthHoldReason}
		if h.RateLimitedUntil > 0 {
			hold.LimitedUntil = fromMicros(h.RateLimitedUntil)
		}
		return hold, err
	})
}

func (v view) withHolds(ctx context.Context, row sqlitedb.Connection) (store.Connection, error) {
	holds, err := v.q.ConnectionHolds(ctx, sqlitedb.ConnectionHoldsParams{
		ConnectionID: row.ID, Now: v.now, MaxRows: store.MaxBatch,
	})
	if err != nil {
		return store.Connection{}, fmt.Errorf("holds: %w", err)
	}
	return toConnection(row, holds)
}

// Credential implements store.Store.
func (s *Store) Credential(ctx context.Context, id job.ID) (store.Sealed, error) {
	return read(ctx, s, "credential", func(ctx context.Context, v view) (store.Sealed, error) {
		row, err := v.q.NewestCredential(ctx, fromID(id))
		if err != nil {
			return store.Sealed{}, orNotFound(err)
		}
		return toSealed(row), nil
	})
}
