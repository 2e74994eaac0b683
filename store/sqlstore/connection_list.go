package sqlstore

import (
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

// Rules of this file:
//   - the query is written at run time, like a list of jobs; values are always parameters;
//   - a page walks one index in the list's order, the narrowest that the query allows, and
//     judges each row. The length of the walk is bounded, so a query's cost does not depend
//     on how much it selects.

// ListConnections implements store.Store.
func (r *Roles) ListConnections(ctx context.Context, q store.ConnectionQuery) (store.ConnectionPage, error) {
	return read(ctx, r, "list connections", func(ctx context.Context, v View) (store.ConnectionPage, error) {
		var p store.ConnectionPage
		var after time.Time
		if !q.After.IsZero() {
			var err error
			if after, err = v.Q.ConnectionPlace(ctx, q.After); err != nil {
				return p, orNotFound(err)
			}
		}
		if err := v.BoundPlans(ctx); err != nil {
			return p, err
		}
		most := rules.Page(q.Limit)
		w := walkOf(q, after)
		text, args := w.matches(v.Now, most+1)
		ids, err := v.ids(ctx, text, args)
		if err != nil {
			return p, err
		}
		more := len(ids) > most
		ids = ids[:min(len(ids), most)]
		all, err := v.Connections(ctx, ids)
		if err != nil {
			return p, err
		}
		for _, id := range ids {
			p.Connections = append(p.Connections, all[id])
		}
		if more {
			p.Next = ids[most-1]
			return p, nil
		}
		text, args = w.end()
		end, err := v.ids(ctx, text, args)
		if err == nil && len(end) == 1 {
			p.Next = end[0]
		}
		return p, err
	})
}

// ids runs a query that reads ids.
func (v View) ids(ctx context.Context, text string, args []any) ([]job.ID, error) {
	rows, err := v.DB.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []job.ID
	for rows.Next() {
		var id job.ID
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// connectionWalk is one page's way through an index.
type connectionWalk struct {
	store.ConnectionQuery
	from, createdAt, id string
	*conditions
}

// walkOf chooses the index, for SQLite by name. A walk that continues begins after a
// connection of a time.
func walkOf(q store.ConnectionQuery, after time.Time) *connectionWalk {
	w := &connectionWalk{ConnectionQuery: q, from: "connections AS c", createdAt: "c.created_at", id: "c.id", conditions: &conditions{}}
	switch names := slices.Sorted(maps.Keys(q.Labels)); {
	case len(q.Connections) > 0:
		w.add("c.project = %s", q.Project)
		w.add("c.id = ANY (%s::uuid[])", q.Connections)
	case len(q.Keys) > 0:
		w.from += " /* SQLite: c INDEXED BY connections_key */"
		w.add("c.project = %s AND c.idem_key <> ''", q.Project)
		w.add("c.idem_key = ANY (%s::text[])", q.Keys)
	case q.AccountIdentity != "":
		w.from += " /* SQLite: c INDEXED BY connections_account */"
		w.add("c.project = %s AND c.account_identity <> ''", q.Project)
		w.add("c.account_identity = %s", q.AccountIdentity)
	case len(names) > 0:
		w.from = "connection_labels AS w /* SQLite: w CROSS */ JOIN connections AS c ON c.id = w.connection_id"
		w.createdAt, w.id = "w.created_at", "w.connection_id"
		w.add("w.project = %s", q.Project)
		w.add("w.name = %s", names[0])
		w.add("w.value = %s", q.Labels[names[0]])
	case len(q.Connectors) == 1:
		w.from += " /* SQLite: c INDEXED BY connections_connector */"
		w.add("c.project = %s", q.Project)
		w.add("c.connector = %s", q.Connectors[0])
	default:
		w.from += " /* SQLite: c INDEXED BY connections_list */"
		w.add("c.project = %s", q.Project)
	}
	if !q.After.IsZero() {
		w.add(fmt.Sprintf("(%s, %s) < (%s, %%s)", w.createdAt, w.id, w.arg(after)), q.After)
	}
	return w
}

// matches reads the connections that the query selects.
func (w *connectionWalk) matches(now time.Time, most int) (string, []any) {
	ok := w.filter(now)
	text := fmt.Sprintf("SELECT id FROM (SELECT %[2]s AS id, (%[1]s) AS ok FROM %[3]s WHERE %[4]s ORDER BY %[5]s DESC, %[2]s DESC LIMIT %[6]s) AS p WHERE ok LIMIT %[7]s",
		ok, w.id, w.from, w.conditions, w.createdAt, ok.arg(w.MaxScan()), ok.arg(most))
	return text, ok.args
}

// end reads the last connection of a walk that its bound has ended.
func (w *connectionWalk) end() (string, []any) {
	text := fmt.Sprintf("SELECT %[1]s AS id FROM %[2]s WHERE %[3]s ORDER BY %[4]s DESC, %[1]s DESC LIMIT 1 OFFSET %[5]s",
		w.id, w.from, w.conditions, w.createdAt, w.arg(w.MaxScan()-1))
	return text, w.args
}

// stateOfConnection is store.ConnectionQuery.StateOf in SQL.
const stateOfConnection = `CASE
	WHEN c.deleted_at IS NOT NULL THEN 5
	WHEN c.credential_version = 0 AND c.connector = ANY (%s::text[]) THEN 3
	WHEN EXISTS (SELECT 1 FROM connection_ready AS r WHERE r.connection_id = c.id AND r.auth_hold_at IS NOT NULL) THEN 3
	WHEN c.paused_at IS NOT NULL THEN 2
	WHEN EXISTS (SELECT 1 FROM connection_ready AS r
		WHERE r.connection_id = c.id AND r.rate_limited_until > 'epoch' AND r.rate_limited_until > %s) THEN 4
	ELSE 1 END`

// filter judges a connection on the walk.
func (w *connectionWalk) filter(now time.Time) *conditions {
	c := &conditions{args: slices.Clip(w.args)}
	switch {
	case len(w.States) > 0:
		c.add(fmt.Sprintf(stateOfConnection, c.arg(w.CredentialRequired), c.arg(now))+" = ANY (%s::smallint[])", numbers(w.States))
	case !w.Deleted:
		c.texts = append(c.texts, "c.deleted_at IS NULL")
	default:
		c.texts = append(c.texts, "true")
	}
	if len(w.Connections) > 0 && len(w.Keys) > 0 {
		c.add("c.idem_key <> '' AND c.idem_key = ANY (%s::text[])", w.Keys)
	}
	if len(w.Connectors) > 0 {
		c.add("c.connector = ANY (%s::text[])", w.Connectors)
	}
	if w.AccountIdentity != "" {
		c.add("c.account_identity = %s", w.AccountIdentity)
	}
	if len(w.Labels) > 0 {
		c.add("c.labels @> %s::jsonb", store.EncodeLabels(w.Labels))
	}
	if w.Text != "" {
		// This changes the letters A to Z alone. No text has a control character.
		c.add(`strpos(lower((c.display_name || chr(10) || c.account_identity || chr(10) || c.idem_key) COLLATE "C"), lower(%s::text COLLATE "C")) > 0`, w.Text)
	}
	if !w.ExpiresBefore.IsZero() {
		c.add("coalesce(c.credential_expires_at < %s, false)", w.ExpiresBefore)
	}
	return c
}

// conditions are parts of a query's text, and their values.
type conditions struct {
	texts []string
	args  []any
}

// arg adds a value and returns its name in the text.
func (c *conditions) arg(v any) string {
	c.args = append(c.args, v)
	return fmt.Sprintf("$%d", len(c.args))
}

// add adds a condition, in which %s stands for the value.
func (c *conditions) add(text string, v any) {
	c.texts = append(c.texts, fmt.Sprintf(text, c.arg(v)))
}

// String returns the text.
func (c *conditions) String() string { return strings.Join(c.texts, " AND ") }
