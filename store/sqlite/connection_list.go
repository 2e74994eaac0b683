package sqlite

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - the query is written at run time, like a list of jobs; values are always parameters;
//   - a page walks one index in the list's order, the narrowest that the query allows, and
//     judges each row. The length of the walk is bounded, so a query's cost does not depend
//     on how much it selects.

// ListConnections implements store.Store.
func (s *Store) ListConnections(ctx context.Context, q store.ConnectionQuery) (store.ConnectionPage, error) {
	return read(ctx, s, "list connections", func(ctx context.Context, v view) (store.ConnectionPage, error) {
		var p store.ConnectionPage
		w := walkOf(q)
		if !q.After.IsZero() {
			last, err := v.q.GetConnection(ctx, fromID(q.After))
			if err != nil {
				return p, orNotFound(err)
			}
			w.after(last.CreatedAt, last.ID)
		}
		most := int(page(q.Limit))
		ids, err := v.ids(ctx, w.matches(v.now, most+1))
		if err != nil {
			return p, err
		}
		for _, id := range ids[:min(len(ids), most)] {
			conn, err := v.connection(ctx, id)
			if err != nil {
				return p, err
			}
			p.Connections = append(p.Connections, conn)
		}
		if len(ids) > most {
			p.Next = p.Connections[most-1].ID
			return p, nil
		}
		end, err := v.ids(ctx, w.end())
		if err == nil && len(end) == 1 {
			p.Next = toID(end[0])
		}
		return p, err
	})
}

// connectionWalk is one page's way through an index.
type connectionWalk struct {
	store.ConnectionQuery
	from  string
	where conditions
}

// conditions are parts of a query's text, and their values in the text's order.
type conditions struct {
	texts []string
	args  []any
}

func (c *conditions) add(text string, args ...any) {
	c.texts, c.args = append(c.texts, text), append(c.args, args...)
}

func (c *conditions) String() string { return strings.Join(c.texts, " AND ") }

// query is a text with its values.
type query struct {
	text string
	args []any
}

// walkOf chooses the index.
func walkOf(q store.ConnectionQuery) *connectionWalk {
	w := &connectionWalk{ConnectionQuery: q}
	switch names := slices.Sorted(maps.Keys(q.Labels)); {
	case len(q.Connections) > 0:
		w.from = "connections AS c"
		w.where.add("c.project = ?", q.Project)
		w.where.add("c.id IN (SELECT unhex(value) FROM json_each(?))", hexList(q.Connections))
	case len(q.Keys) > 0:
		w.from = "connections AS c INDEXED BY connections_key"
		w.where.add("c.project = ? AND c.idem_key <> ''", q.Project)
		w.where.add("c.idem_key IN (SELECT value FROM json_each(?))", asJSON(q.Keys))
	case q.AccountIdentity != "":
		w.from = "connections AS c INDEXED BY connections_account"
		w.where.add("c.project = ? AND c.account_identity = ? AND c.account_identity <> ''", q.Project, q.AccountIdentity)
	case len(names) > 0:
		w.from = "connection_labels AS w CROSS JOIN connections AS c ON c.id = w.connection_id"
		w.where.add("w.project = ? AND w.name = ? AND w.value = ?", q.Project, names[0], q.Labels[names[0]])
	case len(q.Connectors) == 1:
		w.from = "connections AS c INDEXED BY connections_connector"
		w.where.add("c.project = ? AND c.connector = ?", q.Project, q.Connectors[0])
	default:
		w.from = "connections AS c INDEXED BY connections_list"
		w.where.add("c.project = ?", q.Project)
	}
	return w
}

// place has the columns of the list's order, from the table whose index has them.
func (w *connectionWalk) place() (createdAt, id string) {
	if strings.HasPrefix(w.from, "connection_labels") {
		return "w.created_at", "w.connection_id"
	}
	return "c.created_at", "c.id"
}

func (w *connectionWalk) after(createdAt int64, id []byte) {
	at, by := w.place()
	w.where.add(fmt.Sprintf("(%s, %s) < (?, ?)", at, by), createdAt, id)
}

// matches reads the connections that the query selects.
func (w *connectionWalk) matches(now int64, most int) query {
	at, by := w.place()
	ok := w.filter(now)
	text := fmt.Sprintf("SELECT id FROM (SELECT %[2]s AS id, (%[1]s) AS ok FROM %[3]s WHERE %[4]s ORDER BY %[5]s DESC, %[2]s DESC LIMIT ?) WHERE ok LIMIT ?",
		ok.String(), by, w.from, w.where.String(), at)
	return query{text, slices.Concat(ok.args, w.where.args, []any{w.MaxScan(), most})}
}

// end reads the last connection of a walk that its bound has ended.
func (w *connectionWalk) end() query {
	at, by := w.place()
	text := fmt.Sprintf("SELECT %[1]s AS id FROM %[2]s WHERE %[3]s ORDER BY %[4]s DESC, %[1]s DESC LIMIT 1 OFFSET ?",
		by, w.from, w.where.String(), at)
	return query{text, slices.Concat(w.where.args, []any{w.MaxScan() - 1})}
}

// stateOfConnection is store.ConnectionQuery.StateOf in SQL.
const stateOfConnection = `CASE
	WHEN c.deleted_at IS NOT NULL THEN 5
	WHEN c.credential_version = 0 AND c.connector IN (SELECT value FROM json_each(?)) THEN 3
	WHEN EXISTS (SELECT 1 FROM connection_ready AS r WHERE r.connection_id = c.id AND r.auth_hold_at IS NOT NULL) THEN 3
	WHEN c.paused_at IS NOT NULL THEN 2
	WHEN EXISTS (SELECT 1 FROM connection_ready AS r
		WHERE r.connection_id = c.id AND r.rate_limited_until > 0 AND r.rate_limited_until > ?) THEN 4
	ELSE 1 END`

// filter judges a connection on the walk.
func (w *connectionWalk) filter(now int64) *conditions {
	c := &conditions{}
	switch {
	case len(w.States) > 0:
		c.add(stateOfConnection+" IN (SELECT value FROM json_each(?))", asJSON(w.CredentialRequired), now, asJSON(w.States))
	case !w.Deleted:
		c.add("c.deleted_at IS NULL")
	default:
		c.add("1")
	}
	if len(w.Connections) > 0 && len(w.Keys) > 0 {
		c.add("c.idem_key <> '' AND c.idem_key IN (SELECT value FROM json_each(?))", asJSON(w.Keys))
	}
	if len(w.Connectors) > 0 {
		c.add("c.connector IN (SELECT value FROM json_each(?))", asJSON(w.Connectors))
	}
	if w.AccountIdentity != "" {
		c.add("c.account_identity = ?", w.AccountIdentity)
	}
	if len(w.Labels) > 0 {
		c.add(`NOT EXISTS (SELECT 1 FROM json_each(?) AS f WHERE NOT EXISTS (
			SELECT 1 FROM json_each(c.labels) AS l WHERE l.key = f.key AND l.value = f.value))`, asJSON(w.Labels))
	}
	if w.Text != "" {
		// lower() changes the letters A to Z alone. No text has a control character.
		c.add("instr(lower(c.display_name || char(10) || c.account_identity || char(10) || c.idem_key), lower(?)) > 0", w.Text)
	}
	if !w.ExpiresBefore.IsZero() {
		c.add("coalesce(c.credential_expires_at < ?, 0)", w.ExpiresBefore.UnixMicro())
	}
	return c
}

// ids runs a query that reads ids.
func (v view) ids(ctx context.Context, q query) ([][]byte, error) {
	rows, err := v.conn.QueryContext(ctx, q.text, q.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids [][]byte
	for rows.Next() {
		var id []byte
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}
