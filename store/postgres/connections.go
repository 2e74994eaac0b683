package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// CreateConnection implements store.Store. Of concurrent calls with one key, one
// inserts; the others wait for it and then read what it bound.
func (s *Store) CreateConnection(ctx context.Context, c store.NewConnection) (store.Connection, bool, error) {
	created := false
	conn, err := write(ctx, s, "create connection", func(ctx context.Context, t *tx) (store.Connection, error) {
		created = false
		if err := t.lockCount(ctx, sqlstore.CountedConnections, c.Connection.Project, c.Most); err != nil {
			return store.Connection{}, err
		}
		n, err := t.q.InsertConnection(ctx, insertConnectionParams(c, t.now))
		if err != nil {
			return store.Connection{}, err
		}
		id := c.Connection.ID
		created = n == 1
		if created {
			err = t.completeConnection(ctx, c) // refuses one too many: the key comes first
		} else {
			id, err = t.connectionOf(ctx, c)
		}
		if err != nil {
			return store.Connection{}, err
		}
		return t.view().connection(ctx, id)
	})
	return conn, created && err == nil, err
}

// connectionOf returns the connection that a key is bound to.
func (t *tx) connectionOf(ctx context.Context, c store.NewConnection) (job.ID, error) {
	id, err := t.q.ConnectionByKey(ctx, pgdb.ConnectionByKeyParams{Project: c.Connection.Project, IdemKey: c.Key})
	return toID(id), err
}

// completeConnection writes the other rows of a connection that was inserted.
func (t *tx) completeConnection(ctx context.Context, c store.NewConnection) error {
	if err := t.shared().Counts(c.Connection.Project).Connections.Before().OneMore(ctx, c.Most); err != nil {
		return err
	}
	if err := t.q.InsertClaimRow(ctx, fromID(c.Connection.ID)); err != nil {
		return fmt.Errorf("claim row: %w", err)
	}
	if c.Sealed == nil {
		return nil
	}
	sealed := *c.Sealed
	sealed.Version = 1
	return named("credential", t.q.InsertCredential(ctx, insertCredentialParams(c.Connection.ID, sealed, t.now)))
}

// Connection implements store.Store.
func (s *Store) Connection(ctx context.Context, ref store.Ref) (store.Connection, error) {
	return readOne(ctx, s, "connection", func(ctx context.Context, v view) (store.Connection, error) {
		id := ref.ID
		if ref.Key != "" { // a key is never bound again, so two statements agree
			bound, err := v.q.ConnectionByKey(ctx, pgdb.ConnectionByKeyParams{Project: ref.Project, IdemKey: ref.Key})
			if err != nil {
				return store.Connection{}, err
			}
			id = toID(bound)
		}
		conn, err := v.connection(ctx, id)
		if err == nil && ref.Project != "" && conn.Project != ref.Project {
			return store.Connection{}, store.ErrNotFound
		}
		return conn, err
	})
}

// Hold implements store.Store.
func (s *Store) Hold(ctx context.Context, connection job.ID, holdKey string) (store.Hold, error) {
	return readOne(ctx, s, "hold", func(ctx context.Context, v view) (store.Hold, error) {
		h, err := v.q.HoldOf(ctx, pgdb.HoldOfParams{ConnectionID: fromID(connection), HoldKey: holdKey})
		if errors.Is(err, pgx.ErrNoRows) {
			return store.Hold{}, nil
		}
		return store.Hold{
			AuthAt: toTime(h.AuthHoldAt), Auth: job.AuthCause(h.AuthHoldCause), Reason: h.AuthHoldReason,
			LimitedUntil: sinceEpoch(h.RateLimitedUntil),
		}, err
	})
}

func (v view) connection(ctx context.Context, id job.ID) (store.Connection, error) {
	all, err := v.connections(ctx, []job.ID{id})
	if err != nil {
		return store.Connection{}, err
	}
	conn, ok := all[id]
	if !ok {
		return store.Connection{}, store.ErrNotFound
	}
	return conn, nil
}

// connections reads connections in one statement. Missing ones are left out.
func (v view) connections(ctx context.Context, ids []job.ID) (map[job.ID]store.Connection, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := v.q.Connections(ctx, fromIDs(ids))
	if err != nil {
		return nil, fmt.Errorf("connections: %w", err)
	}
	return v.whatConnections(rows)
}

func (v view) whatConnections(rows []pgdb.ConnectionsRow) (map[job.ID]store.Connection, error) {
	out := make(map[job.ID]store.Connection, len(rows))
	for _, r := range rows {
		conn, err := toConnection(r, v.at(r.Now))
		if err != nil {
			return nil, err
		}
		out[conn.ID] = conn
	}
	return out, nil
}

// Credential implements store.Store.
func (s *Store) Credential(ctx context.Context, id job.ID) (store.Sealed, error) {
	return readOne(ctx, s, "credential", func(ctx context.Context, v view) (store.Sealed, error) {
		row, err := v.q.NewestCredential(ctx, fromID(id))
		if err != nil {
			return store.Sealed{}, err
		}
		return toSealed(row), nil
	})
}
