package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/fireonce/fireonce/gen/litedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// CreateConnection implements store.Store.
func (s *Store) CreateConnection(ctx context.Context, c store.NewConnection) (store.Connection, bool, error) {
	type result struct {
		conn    store.Connection
		created bool
	}
	r, err := write(ctx, s, "create connection", func(ctx context.Context, t *tx) (result, error) {
		if c.Key != "" {
			row, err := t.q.ConnectionByKey(ctx, litedb.ConnectionByKeyParams{Project: c.Connection.Project, IdemKey: c.Key})
			if err == nil {
				conn, err := t.view().withHolds(ctx, row)
				return result{conn: conn}, err
			}
			if !errors.Is(err, sql.ErrNoRows) {
				return result{}, err
			}
		}
		if err := t.view().counts(c.Connection.Project).Connections.OneMore(ctx, c.Most); err != nil {
			return result{}, err
		}
		if err := t.q.InsertConnection(ctx, insertConnectionParams(c, t.now)); err != nil {
			return result{}, err
		}
		if c.Sealed != nil {
			sealed := *c.Sealed
			sealed.Version = 1
			if err := t.q.InsertCredential(ctx, insertCredentialParams(c.Connection.ID, sealed, t.now)); err != nil {
				return result{}, fmt.Errorf("credential: %w", err)
			}
		}
		conn, err := t.view().connection(ctx, fromID(c.Connection.ID))
		return result{conn: conn, created: true}, err
	})
	return r.conn, r.created, err
}

// Connection implements store.Store.
func (s *Store) Connection(ctx context.Context, project string, id job.ID) (store.Connection, error) {
	return read(ctx, s, "connection", func(ctx context.Context, v view) (store.Connection, error) {
		conn, err := v.connection(ctx, fromID(id))
		if err == nil && project != "" && conn.Project != project {
			return store.Connection{}, store.ErrNotFound
		}
		return conn, err
	})
}

func (v view) connection(ctx context.Context, id []byte) (store.Connection, error) {
	row, err := v.q.GetConnection(ctx, id)
	if err != nil {
		return store.Connection{}, orNotFound(err)
	}
	return v.withHolds(ctx, row)
}

func (v view) withHolds(ctx context.Context, row litedb.Connection) (store.Connection, error) {
	holds, err := v.q.ConnectionHolds(ctx, litedb.ConnectionHoldsParams{
		ConnectionID: row.ID, Now: v.now, MaxRows: store.MaxBatch,
	})
	if err != nil {
		return store.Connection{}, fmt.Errorf("holds: %w", err)
	}
	return toConnection(row, holds)
}

// ListConnections implements store.Store.
func (s *Store) ListConnections(ctx context.Context, q store.ConnectionQuery) ([]store.Connection, error) {
	return read(ctx, s, "list connections", func(ctx context.Context, v view) ([]store.Connection, error) {
		p := litedb.ListConnectionsParams{
			Project: q.Project, Deleted: toBool(q.Deleted), Held: toBool(q.Held),
			CreatedAt: math.MaxInt64, ID: []byte{}, MaxRows: page(q.Limit),
		}
		if !q.After.IsZero() {
			last, err := v.q.GetConnection(ctx, fromID(q.After))
			if err != nil {
				return nil, orNotFound(err)
			}
			p.CreatedAt, p.ID = last.CreatedAt, last.ID
		}
		rows, err := v.q.ListConnections(ctx, p)
		if err != nil {
			return nil, err
		}
		out := make([]store.Connection, len(rows))
		for i, row := range rows {
			if out[i], err = v.withHolds(ctx, row); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
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

// CredentialKeys implements store.Store.
func (s *Store) CredentialKeys(ctx context.Context) ([]string, error) {
	return read(ctx, s, "credential keys", func(ctx context.Context, v view) ([]string, error) {
		return v.q.CredentialKeys(ctx)
	})
}
