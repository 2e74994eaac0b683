package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// CreateConnection implements store.Store. Of concurrent calls with one key, one
// inserts; the others wait for it and then read what it bound.
func (r *Roles) CreateConnection(ctx context.Context, c store.NewConnection) (store.Connection, bool, error) {
	created := false
	conn, err := write(ctx, r, "create connection", func(ctx context.Context, t Tx) (store.Connection, error) {
		id, project := c.Connection.ID, c.Connection.Project
		if c.Most > 0 {
			if err := t.LockCount(ctx, CountedConnections, project); err != nil {
				return store.Connection{}, err
			}
		}
		n, err := t.Q.InsertConnection(ctx, shareddb.InsertConnectionParams{
			ID: id, Project: project, Connector: c.Connection.Connector, IdemKey: c.Key, Fingerprint: c.Fingerprint.Bytes(),
			Now: t.Now, CreatedBy: c.Connection.CreatedBy, Class: c.Connection.Class, Settings: filled(c.Connection.Settings),
		})
		created = n == 1
		switch {
		case err != nil:
		case created:
			err = t.completeConnection(ctx, c)
		default:
			id, err = t.Q.ConnectionByKey(ctx, shareddb.ConnectionByKeyParams{Project: project, IdemKey: c.Key})
		}
		if err != nil {
			return store.Connection{}, err
		}
		return t.Connection(ctx, id)
	})
	return conn, created && err == nil, err
}

// completeConnection refuses a connection that is one too many, and writes all that its new
// row lacks. A key that is bound comes before the refusal.
func (t Tx) completeConnection(ctx context.Context, c store.NewConnection) error {
	conn := c.Connection
	if err := t.Counts(conn.Project).Connections.Before().OneMore(ctx, c.Most); err != nil {
		return err
	}
	conn.Version, conn.Updated, conn.UpdatedBy = 1, t.Now, conn.CreatedBy
	if s := c.Sealed; s != nil {
		conn.CredentialVersion, conn.CredentialFingerprint, conn.CredentialExpires, conn.CredentialRenews = 1, s.Fingerprint, s.Expires, s.Renews
	}
	if err := t.setConnection(ctx, conn); err != nil {
		return err
	}
	if err := t.SetBucket(ctx, conn.ID, 0); err != nil || c.Sealed == nil {
		return err
	}
	sealed := *c.Sealed
	sealed.Version = 1
	return t.insertCredential(ctx, conn.ID, sealed)
}

func (t Tx) insertCredential(ctx context.Context, connection job.ID, s store.Sealed) error {
	return named("credential", t.Q.InsertCredential(ctx, shareddb.InsertCredentialParams{
		ConnectionID: connection, Version: int64(s.Version), KeyID: s.KeyID, Data: filled(s.Data),
		Fingerprint: s.Fingerprint, ExpiresAt: s.Expires, CreatedAt: t.Now,
	}))
}

// Connection implements store.Store.
func (r *Roles) Connection(ctx context.Context, ref store.Ref) (store.Connection, error) {
	return read(ctx, r, "connection", func(ctx context.Context, v View) (store.Connection, error) {
		id := ref.ID
		if ref.Key != "" {
			var err error
			if id, err = v.Q.ConnectionByKey(ctx, shareddb.ConnectionByKeyParams{Project: ref.Project, IdemKey: ref.Key}); err != nil {
				return store.Connection{}, orNotFound(err)
			}
		}
		conn, err := v.Connection(ctx, id)
		if err == nil && ref.Project != "" && conn.Project != ref.Project {
			err = store.ErrNotFound
		}
		return conn, err
	})
}

// Connection reads a connection; store.ErrNotFound: there is none.
func (v View) Connection(ctx context.Context, id job.ID) (store.Connection, error) {
	all, err := v.Connections(ctx, []job.ID{id})
	conn, ok := all[id]
	if err == nil && !ok {
		err = store.ErrNotFound
	}
	return conn, err
}

// Connections reads connections in one statement. Missing ones are left out.
func (v View) Connections(ctx context.Context, ids []job.ID) (map[job.ID]store.Connection, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := v.Q.Connections(ctx, ids)
	if err != nil {
		return nil, named("connections", err)
	}
	out := make(map[job.ID]store.Connection, len(rows))
	for _, r := range rows {
		if out[r.Connection.ID], err = ToConnection(r, v.Now); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ToConnection converts a row, without a rate limit that is over at now.
func ToConnection(r shareddb.ConnectionsRow, now time.Time) (store.Connection, error) {
	c := r.Connection
	labels, fp, err := store.DecodeTerms(c.Labels, c.Fingerprint)
	if err != nil {
		return store.Connection{}, fmt.Errorf("connection %s: %w", c.ID, err)
	}
	retry, err := job.DecodeRetry(c.Retry)
	if err != nil {
		return store.Connection{}, fmt.Errorf("connection %s: %w", c.ID, err)
	}
	conn := store.Connection{
		ID: c.ID, Project: c.Project, Connector: c.Connector, DisplayName: c.DisplayName, Settings: bytesOf(c.Settings),
		Class: c.Class, KeyWindow: time.Duration(c.KeyWindow) * time.Microsecond,
		AccountIdentity: c.AccountIdentity, MaxInFlight: int(c.MaxInFlight), MaxPerMinute: int(c.MaxPerMinute),
		CoolDown: time.Duration(c.CoolDown) * time.Microsecond, Retry: retry, PausedAt: c.PausedAt, PausedReason: c.PausedReason,
		AuthHoldReason: r.AuthHoldReason, AuthHoldCause: job.AuthCause(r.AuthHoldCause),
		CredentialVersion: int(c.CredentialVersion), CredentialFingerprint: c.CredentialFingerprint,
		CredentialExpires: c.CredentialExpiresAt, CredentialRenews: c.CredentialRenews, Key: c.IdemKey, Fingerprint: fp, Version: c.Version, Labels: labels,
		Created: c.CreatedAt, Updated: c.UpdatedAt, Deleted: c.DeletedAt, CreatedBy: c.CreatedBy, UpdatedBy: c.UpdatedBy,
		AuthHoldAt: r.AuthHoldAt,
	}
	if r.LimitedUntil.After(now) {
		conn.RateLimitedUntil = r.LimitedUntil
	}
	return conn, nil
}

// Hold implements store.Store.
func (r *Roles) Hold(ctx context.Context, connection job.ID, holdKey string) (store.Hold, error) {
	return readOne(ctx, r, "hold", func(ctx context.Context, v View) (store.Hold, error) {
		row, err := v.Q.HoldOf(ctx, shareddb.HoldOfParams{ConnectionID: connection, HoldKey: holdKey})
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		h := store.Hold{AuthAt: row.AuthHoldAt, Auth: job.AuthCause(row.AuthHoldCause), Reason: row.AuthHoldReason}
		if row.RateLimitedUntil.After(time.Unix(0, 0)) {
			h.LimitedUntil = row.RateLimitedUntil
		}
		return h, err
	})
}

// Credential implements store.Store.
func (r *Roles) Credential(ctx context.Context, id job.ID) (store.Sealed, error) {
	return readOne(ctx, r, "credential", func(ctx context.Context, v View) (store.Sealed, error) {
		row, err := v.Q.NewestCredential(ctx, id)
		c := row.ConnectionCredential
		return store.Sealed{
			Version: int(c.Version), KeyID: c.KeyID, Data: bytesOf(c.Data), Fingerprint: c.Fingerprint,
			Expires: c.ExpiresAt, For: sealedFor(row.Project, row.Connector, row.Settings, row.AccountIdentity),
		}, orNotFound(err)
	})
}
