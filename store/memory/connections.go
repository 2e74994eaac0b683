package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
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

// newConnection is a connection as it is stored for the first time.
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
		CoolDown: in.CoolDown.Truncate(time.Microsecond), PausedAt: micros(in.PausedAt), PausedReason: in.PausedReason,
		Key: n.Key, Fingerprint: fp, Version: 1, Created: t.now, Updated: t.now,
		CreatedBy: in.CreatedBy, UpdatedBy: in.CreatedBy,
	}}
	if len(in.Labels) > 0 {
		c.Labels = maps.Clone(in.Labels)
	}
	if n.Sealed != nil {
		c.sealed = copied(n.Sealed)
		c.sealed.Version, c.sealed.Data, c.sealed.Expires = 1, some(n.Sealed.Data), micros(n.Sealed.Expires)
		c.CredentialVersion, c.CredentialFingerprint, c.CredentialExpires = 1, c.sealed.Fingerprint, c.sealed.Expires
	}
	return c, nil
}

// public joins a connection with the holds on its hold keys: the oldest refused
// credential, the longest rate limit.
func (t *tx) public(c *connection) store.Connection {
	out := c.Connection
	out.Settings, out.Labels = slices.Clone(out.Settings), maps.Clone(out.Labels)
	var oldest readyKey
	for k, row := range t.ready {
		if k.conn != c.ID {
			continue
		}
		if at := row.authHoldAt; !at.IsZero() {
			// Of two at one time, the lower hold key's.
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
		row, ok := t.ready[readyKey{connection, holdKey}]
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

// ListConnections implements store.Store.
func (s *Store) ListConnections(ctx context.Context, q store.ConnectionQuery) (store.ConnectionPage, error) {
	return call(ctx, s, "list connections", func(t *tx) (store.ConnectionPage, error) {
		var p store.ConnectionPage
		list := slices.DeleteFunc(slices.Clone(t.connOrder), func(c *connection) bool {
			return c.Project != q.Project || !onWalk(q, c.Connection)
		})
		slices.SortFunc(list, newest)
		if !q.After.IsZero() {
			last, ok := t.conns[q.After]
			if !ok {
				return p, store.ErrNotFound
			}
			list = slices.DeleteFunc(list, func(c *connection) bool { return newest(c, last) <= 0 })
		}
		for i, c := range list {
			if i == q.MaxScan() {
				p.Next = list[i-1].ID
				break
			}
			seen := t.public(c)
			if !selects(q, seen, t.now) {
				continue
			}
			if len(p.Connections) == rules.Page(q.Limit) {
				p.Next = p.Connections[len(p.Connections)-1].ID
				break
			}
			p.Connections = append(p.Connections, seen)
		}
		if len(list) == q.MaxScan() && p.Next.IsZero() {
			p.Next = list[len(list)-1].ID
		}
		return p, nil
	})
}

// onWalk reports whether a connection is on the index that the engines walk.
func onWalk(q store.ConnectionQuery, c store.Connection) bool {
	switch names := slices.Sorted(maps.Keys(q.Labels)); {
	case len(q.Connections) > 0:
		return slices.Contains(q.Connections, c.ID)
	case len(q.Keys) > 0:
		return c.Key != "" && slices.Contains(q.Keys, c.Key)
	case q.AccountIdentity != "":
		return c.AccountIdentity == q.AccountIdentity
	case len(names) > 0:
		value, ok := c.Labels[names[0]]
		return ok && value == q.Labels[names[0]]
	case len(q.Connectors) == 1:
		return c.Connector == q.Connectors[0]
	default:
		return true
	}
}

// selects reports whether a query lets a connection through.
func selects(q store.ConnectionQuery, c store.Connection, now time.Time) bool {
	for name, value := range q.Labels {
		if got, ok := c.Labels[name]; !ok || got != value {
			return false
		}
	}
	switch state := q.StateOf(c, now); {
	case len(q.States) > 0 && !slices.Contains(q.States, state),
		len(q.States) == 0 && !q.Deleted && state == store.ConnectionDeleted,
		len(q.Connections) > 0 && !slices.Contains(q.Connections, c.ID),
		len(q.Keys) > 0 && (c.Key == "" || !slices.Contains(q.Keys, c.Key)),
		len(q.Connectors) > 0 && !slices.Contains(q.Connectors, c.Connector),
		q.AccountIdentity != "" && c.AccountIdentity != q.AccountIdentity,
		!q.ExpiresBefore.IsZero() && (c.CredentialExpires.IsZero() || !c.CredentialExpires.Before(q.ExpiresBefore)):
		return false
	}
	text := lowered(c.DisplayName + "\n" + c.AccountIdentity + "\n" + c.Key)
	return strings.Contains(text, lowered(q.Text))
}

// lowered lowers the letters A to Z.
func lowered(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// newest orders connections, the newest first.
func newest(a, b *connection) int {
	return cmp.Or(b.Created.Compare(a.Created), bytes.Compare(b.ID[:], a.ID[:]))
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

// CredentialKeys implements store.Store.
func (s *Store) CredentialKeys(ctx context.Context) ([]string, error) {
	return call(ctx, s, "credential keys", func(t *tx) ([]string, error) {
		var out []string
		for _, c := range t.connOrder {
			if c.sealed != nil {
				out = append(out, c.sealed.KeyID)
			}
		}
		slices.Sort(out)
		return slices.Compact(out), nil
	})
}
