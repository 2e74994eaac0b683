package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

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
func (s *Store) ListConnections(ctx context.Context, q store.ConnectionQuery) (store.ConnectionPage, error) {
	return read(ctx, s, "list connections", func(ctx context.Context, v view) (store.ConnectionPage, error) {
		var p store.ConnectionPage
		var at time.Time
		if !q.After.IsZero() {
			var err error
			if at, err = v.q.ConnectionPlace(ctx, fromID(q.After)); err != nil {
				return p, err
			}
		}
		// The best index depends on the query and on the number of rows.
		if _, err := v.conn.Exec(ctx, "SET LOCAL plan_cache_mode = force_custom_plan"); err != nil {
			return p, err
		}
		most := rules.Page(q.Limit)
		w := walkOf(q, at)
		ids, err := v.ids(ctx, w.matches(v.now, most+1), w.args)
		if err != nil {
			return p, err
		}
		all, err := v.connections(ctx, ids[:min(len(ids), most)])
		if err != nil {
			return p, err
		}
		for _, id := range ids[:min(len(ids), most)] {
			p.Connections = append(p.Connections, all[id])
		}
		if len(ids) > most {
			p.Next = ids[most-1]
			return p, nil
		}
		w = walkOf(q, at)
		end, err := v.ids(ctx, w.end(), w.args)
		if err == nil && len(end) == 1 {
			p.Next = end[0]
		}
		return p, err
	})
}

func (v view) ids(ctx context.Context, text string, args []any) ([]job.ID, error) {
	rows, err := v.conn.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[job.ID])
	return toIDs(ids), err
}

// connectionWalk is one page's way through an index.
type connectionWalk struct {
	store.ConnectionQuery
	from, createdAt, id string
	conditions
}

// walkOf chooses the index. A walk that continues begins after a connection of a time.
func walkOf(q store.ConnectionQuery, after time.Time) *connectionWalk {
	w := &connectionWalk{ConnectionQuery: q, from: "connections AS c", createdAt: "c.created_at", id: "c.id"}
	switch names := slices.Sorted(maps.Keys(q.Labels)); {
	case len(q.Connections) > 0:
		w.add("c.project = %s", q.Project)
		w.add("c.id = ANY (%s::uuid[])", fromIDs(q.Connections))
	case len(q.Keys) > 0:
		w.add("c.project = %s AND c.idem_key <> ''", q.Project)
		w.add("c.idem_key = ANY (%s::text[])", q.Keys)
	case q.AccountIdentity != "":
		w.add("c.project = %s AND c.account_identity <> ''", q.Project)
		w.add("c.account_identity = %s", q.AccountIdentity)
	case len(names) > 0:
		w.from = "connection_labels AS w JOIN connections AS c ON c.id = w.connection_id"
		w.createdAt, w.id = "w.created_at", "w.connection_id"
		w.add("w.project = %s", q.Project)
		w.add("w.name = %s", names[0])
		w.add("w.value = %s", q.Labels[names[0]])
	case len(q.Connectors) == 1:
		w.add("c.project = %s", q.Project)
		w.add("c.connector = %s", q.Connectors[0])
	default:
		w.add("c.project = %s", q.Project)
	}
	if !q.After.IsZero() {
		w.where = append(w.where, fmt.Sprintf("(%s, %s) < (%s, %s)", w.createdAt, w.id, w.arg(after), w.arg(fromID(q.After))))
	}
	return w
}

// matches reads the connections that the query selects.
func (w *connectionWalk) matches(now time.Time, most int) string {
	ok := w.filter(now)
	return fmt.Sprintf("SELECT id FROM (SELECT %[2]s AS id, (%[1]s) AS ok FROM %[3]s WHERE %[4]s ORDER BY %[5]s DESC, %[2]s DESC LIMIT %[6]s) AS p WHERE ok LIMIT %[7]s",
		ok, w.id, w.from, strings.Join(w.where, " AND "), w.createdAt, w.arg(w.MaxScan()), w.arg(most))
}

// end reads the last connection of a walk that its bound has ended.
func (w *connectionWalk) end() string {
	return fmt.Sprintf("SELECT %[1]s AS id FROM %[2]s WHERE %[3]s ORDER BY %[4]s DESC, %[1]s DESC LIMIT 1 OFFSET %[5]s",
		w.id, w.from, strings.Join(w.where, " AND "), w.createdAt, w.arg(w.MaxScan()-1))
}

// stateOfConnection is store.ConnectionQuery.StateOf in SQL.
const stateOfConnection = `CASE
	WHEN c.deleted_at IS NOT NULL THEN 5
	WHEN c.credential_version = 0 AND c.connector = ANY (%s::text[]) THEN 3
	WHEN EXISTS (SELECT FROM connection_ready AS r WHERE r.connection_id = c.id AND r.auth_hold_at IS NOT NULL) THEN 3
	WHEN c.paused_at IS NOT NULL THEN 2
	WHEN EXISTS (SELECT FROM connection_ready AS r
		WHERE r.connection_id = c.id AND r.rate_limited_until > 'epoch' AND r.rate_limited_until > %s) THEN 4
	ELSE 1 END`

// filter judges a connection on the walk.
func (w *connectionWalk) filter(now time.Time) string {
	var ok []string
	add := func(cond string, v any) { ok = append(ok, fmt.Sprintf(cond, w.arg(v))) }
	switch {
	case len(w.States) > 0:
		states := make([]int64, len(w.States))
		for i, s := range w.States {
			states[i] = int64(s)
		}
		state := fmt.Sprintf(stateOfConnection, w.arg(w.CredentialRequired), w.arg(now))
		add(strings.ReplaceAll(state, "%", "%%")+" = ANY (%s::bigint[])", states)
	case !w.Deleted:
		ok = append(ok, "c.deleted_at IS NULL")
	default:
		ok = append(ok, "true")
	}
	if len(w.Connections) > 0 && len(w.Keys) > 0 {
		add("c.idem_key <> '' AND c.idem_key = ANY (%s::text[])", w.Keys)
	}
	if len(w.Connectors) > 0 {
		add("c.connector = ANY (%s::text[])", w.Connectors)
	}
	if w.AccountIdentity != "" {
		add("c.account_identity = %s", w.AccountIdentity)
	}
	if len(w.Labels) > 0 {
		add("c.labels @> %s::jsonb", w.Labels)
	}
	if w.Text != "" {
		// The collation changes the letters A to Z alone. No text has a control character.
		add(`strpos(lower((c.display_name || chr(10) || c.account_identity || chr(10) || c.idem_key) COLLATE "C"), lower(%s::text COLLATE "C")) > 0`, w.Text)
	}
	if !w.ExpiresBefore.IsZero() {
		add("coalesce(c.credential_expires_at < %s, false)", w.ExpiresBefore)
	}
	return strings.Join(ok, " AND ")
}

// conditions are a query's conditions and their arguments.
type conditions struct {
	where []string
	args  []any
}

// arg adds an argument and returns its name in the text.
func (c *conditions) arg(v any) string {
	c.args = append(c.args, v)
	return fmt.Sprintf("$%d", len(c.args))
}

// add adds a condition, in which %s stands for the argument.
func (c *conditions) add(cond string, v any) {
	c.where = append(c.where, fmt.Sprintf(cond, c.arg(v)))
}
