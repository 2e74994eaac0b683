package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

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

// onWalk reports whether a connection is in the index that the engines walk.
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

// selects reports whether a query selects a connection.
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
