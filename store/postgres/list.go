package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// This file has the one query that is not generated: a list's filters and its
// order are chosen at run time, and a text that covers them all would have the
// planner walk the whole table for every one. Values are always parameters.

// List implements store.Store.
func (s *Store) List(ctx context.Context, q store.JobQuery) (store.JobPage, error) {
	return read(ctx, s, "list", func(ctx context.Context, v view) (store.JobPage, error) {
		end, err := v.end(ctx)
		if err != nil {
			return store.JobPage{}, err
		}
		p := store.JobPage{Position: end.End, Incarnation: end.Incarnation}
		most := page(q.Limit)
		ids, err := v.listIDs(ctx, q, most+1)
		if err != nil {
			return p, err
		}
		p.More = len(ids) > most
		p.Jobs, err = v.inOrder(ctx, ids[:min(len(ids), most)], false)
		return p, err
	})
}

func (v view) listIDs(ctx context.Context, q store.JobQuery, limit int) ([]job.ID, error) {
	text, args, err := listQuery(q, limit)
	if err != nil {
		return nil, err
	}
	// Of a list's indexes the best one depends on what is asked for, and on how much
	// there is of it.
	if _, err := v.conn.Exec(ctx, "SET LOCAL plan_cache_mode = force_custom_plan"); err != nil {
		return nil, err
	}
	rows, err := v.conn.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[pgtype.UUID])
	return toIDs(ids), err
}

// conditions collects what a query asks for, with its arguments.
type conditions struct {
	where []string
	args  []any
}

// arg adds an argument and gives its name in the text.
func (c *conditions) arg(v any) string {
	c.args = append(c.args, v)
	return fmt.Sprintf("$%d", len(c.args))
}

// add adds a condition, in which %s stands for the argument.
func (c *conditions) add(cond string, v any) {
	c.where = append(c.where, fmt.Sprintf(cond, c.arg(v)))
}

// listQuery writes the query: the conditions that are asked for, and the order
// with its place. Ties in time go by id, in the same direction. States are read
// one by one and merged, all of them where none is asked for: each is a walk of an
// index in the list's order, where several at once would be a walk of all states.
func listQuery(q store.JobQuery, limit int) (string, []any, error) {
	key, id, dir, cmp := "s.scheduled_for", "s.job_id", "DESC", "<"
	switch q.Order {
	case store.ByScheduledDesc:
	case store.ByScheduledAsc:
		dir, cmp = "ASC", ">"
	case store.ByCreatedDesc:
		key, id = "j.created_at", "j.id"
	default:
		return "", nil, fmt.Errorf("%w: order %d", store.ErrIllegal, q.Order)
	}
	var c conditions
	project := c.arg(q.Project)
	c.where = append(c.where, "s.project = "+project)
	if q.Order == store.ByCreatedDesc {
		// Elsewhere it would offer the planner a walk of all the project's jobs.
		c.where = append(c.where, "j.project = "+project)
	}
	c.filter(q)
	if !q.AfterTime.IsZero() {
		at := c.arg(job.Micros(q.AfterTime))
		c.where = append(c.where, fmt.Sprintf("(%s, %s) %s (%s, %s)", key, id, cmp, at, c.arg(fromID(q.AfterID))))
	}
	most := c.arg(limit)
	page := func(state string) string {
		return fmt.Sprintf(`SELECT %s AS id, %s AS place FROM job_state AS s JOIN jobs AS j ON j.id = s.job_id
			WHERE %s%s ORDER BY place %s, id %s LIMIT %s`, id, key, strings.Join(c.where, " AND "), state, dir, dir, most)
	}
	states := q.States
	if len(states) == 0 && q.Order != store.ByCreatedDesc && len(q.Jobs) == 0 {
		states = job.States
	}
	if len(states) == 0 {
		return "SELECT p.id FROM (" + page("") + ") AS p", c.args, nil
	}
	var parts []string
	seen := make(map[job.State]bool)
	for _, state := range states {
		if !seen[state] {
			seen[state] = true
			parts = append(parts, "("+page(fmt.Sprintf(" AND s.state = %d", state))+")")
		}
	}
	return fmt.Sprintf("SELECT p.id FROM (%s) AS p ORDER BY p.place %s, p.id %s LIMIT %s",
		strings.Join(parts, " UNION ALL "), dir, dir, most), c.args, nil
}

func (c *conditions) filter(q store.JobQuery) {
	if len(q.Connections) > 0 {
		c.add("s.connection_id = ANY (%s::uuid[])", fromIDs(q.Connections))
	}
	if len(q.Jobs) > 0 {
		c.add("s.job_id = ANY (%s::uuid[])", fromIDs(q.Jobs))
	}
	if !q.Schedule.IsZero() {
		c.add("j.schedule_id = %s", fromID(q.Schedule))
	}
	if !q.ScheduledFrom.IsZero() {
		c.add("s.scheduled_for >= %s", q.ScheduledFrom)
	}
	if !q.ScheduledBefore.IsZero() {
		c.add("s.scheduled_for < %s", q.ScheduledBefore)
	}
	if len(q.Labels) > 0 {
		c.add("j.labels @> %s::jsonb AND j.labels <> '{}'", q.Labels)
	}
}
