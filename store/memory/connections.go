package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// connection is an account, its newest credential and its bounds.
type connection struct {
	store.Connection
	sealed *store.Sealed
	// busy counts its CLAIMED and SENDING jobs.
	busy     int
	bucketAt int64
}

// CreateConnection implements store.Store.
func (s *Store) CreateConnection(ctx context.Context, n store.NewConnection) (store.Connection, bool, error) {
	created := false
	conn, err := call(ctx, s, "create connection", func(t *tx) (store.Connection, error) {
		bound := key{n.Connection.Project, n.Key}
		if c, ok := t.connKeys[bound]; ok && n.Key != "" {
			return t.public(c), nil
		}
		if err := store.OneMore(t.holdings(n.Connection.Project).Connections, n.Most); err != nil {
			return store.Connection{}, err
		}
		c, err := t.newConnection(n)
		if err != nil {
			return store.Connection{}, err
		}
		t.conns[c.ID], t.connOrder = c, append(t.connOrder, c)
		if n.Key != "" {
			t.connKeys[bound] = c
		}
		created = true
		return t.public(c), nil
	})
	return conn, created, err
}

// newConnection returns a connection as it is first stored.
func (t *tx) newConnection(n store.NewConnection) (*connection, error) {
	in := n.Connection
	fp, err := job.ParseFingerprint(n.Fingerprint.Bytes())
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", store.ErrIllegal, err)
	case t.conns[in.ID] != nil:
		return nil, fmt.Errorf("%w: the id %s is taken", store.ErrIllegal, in.ID)
	case !rules.Class(in.Class):
		return nil, fmt.Errorf("%w: class %d", store.ErrIllegal, in.Class)
	case in.KeyWindow < 0 || min(in.MaxInFlight, in.MaxPerMinute) < 0:
		return nil, fmt.Errorf("%w: a negative bound", store.ErrIllegal)
	case !rules.MayCool(in.CoolDown):
		return nil, fmt.Errorf("%w: cool-down %v", store.ErrIllegal, in.CoolDown)
	}
	c := &connection{Connection: store.Connection{
		ID: in.ID, Project: in.Project, Connector: in.Connector, DisplayName: in.DisplayName,
		Settings: some(in.Settings), Class: in.Class, KeyWindow: in.KeyWindow.Truncate(time.Microsecond),
		AccountIdentity: in.AccountIdentity, MaxInFlight: in.MaxInFlight, MaxPerMinute: in.MaxPerMinute,
		CoolDown: in.CoolDown.Truncate(time.Microsecond), Retry: in.Retry, PausedAt: micros(in.PausedAt), PausedReason: in.PausedReason,
		Key: n.Key, Fingerprint: fp, Version: 1, Created: t.now, Updated: t.now,
		CreatedBy: in.CreatedBy, UpdatedBy: in.CreatedBy,
	}}
	if len(in.Labels) > 0 {
		c.Labels = maps.Clone(in.Labels)
	}
	if n.Sealed != nil {
		c.sealed = copied(n.Sealed)
		c.sealed.Version, c.sealed.Data, c.sealed.Expires = 1, some(n.Sealed.Data), micros(n.Sealed.Expires)
		c.CredentialVersion, c.CredentialFingerprint, c.CredentialExpires, c.CredentialRenews = 1, c.sealed.Fingerprint, c.sealed.Expires, c.sealed.Renews
	}
	return c, nil
}

// public returns a connection with the holds on its hold keys: the oldest refused credential,
// the longest rate limit.
func (t *tx) public(c *connection) store.Connection {
	out := c.Connection
	out.Settings, out.Labels = slices.Clone(out.Settings), maps.Clone(out.Labels)
	var oldest runnableKey
	for k, row := range t.rows {
		if k.conn != c.ID {
			continue
		}
		if at := row.authHoldAt; !at.IsZero() {
			// Of two at one time, that of the lower hold key.
			older := at.Compare(out.AuthHoldAt)
			if out.AuthHoldAt.IsZero() || cmp.Or(older, cmp.Compare(k.hold, oldest.hold)) < 0 {
				oldest, out.AuthHoldAt, out.AuthHoldReason, out.AuthHoldCause = k, at, row.authHoldReason, row.authHoldCause
			}
		}
		if until := row.rateLimitedUntil; until.After(t.now) && until.After(out.RateLimitedUntil) {
			out.RateLimitedUntil = until
		}
	}
	return out
}

// Hold implements store.Store.
func (s *Store) Hold(ctx context.Context, connection job.ID, holdKey string) (store.Hold, error) {
	return call(ctx, s, "hold", func(t *tx) (store.Hold, error) {
		row, ok := t.rows[runnableKey{connection, holdKey}]
		if !ok {
			return store.Hold{}, nil
		}
		return store.Hold{
			AuthAt: row.authHoldAt, Auth: row.authHoldCause, Reason: row.authHoldReason, LimitedUntil: row.rateLimitedUntil,
		}, nil
	})
}

// Connection implements store.Store.
func (s *Store) Connection(ctx context.Context, ref store.Ref) (store.Connection, error) {
	return call(ctx, s, "connection", func(t *tx) (store.Connection, error) {
		c, ok := t.conns[ref.ID]
		if ref.Key != "" {
			c, ok = t.connKeys[key{ref.Project, ref.Key}]
		}
		if !ok || ref.Project != "" && c.Project != ref.Project {
			return store.Connection{}, store.ErrNotFound
		}
		return t.public(c), nil
	})
}

// Credential implements store.Store.
func (s *Store) Credential(ctx context.Context, id job.ID) (store.Sealed, error) {
	return call(ctx, s, "credential", func(t *tx) (store.Sealed, error) {
		c, ok := t.conns[id]
		if !ok || c.sealed == nil {
			return store.Sealed{}, store.ErrNotFound
		}
		out := *c.sealed
		out.Data, out.For = slices.Clone(out.Data), t.public(c).SealedFor()
		return out, nil
	})
}
