package sqlite

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// This file has the one query that is not generated: a list's filters and its
// order are chosen at run time, and a text that covers them all would have the
// planner walk the whole table for every one. Values are always parameters.

// List implements store.Store.
func (s *Store) List(ctx context.Context, q store.JobQuery) (store.JobPage, error) {
	return read(ctx, s, "list", func(ctx context.Context, v view) (store.JobPage, error) {
		m, err := v.q.GetMeta(ctx)
		if err != nil {
			return store.JobPage{}, err
		}
		p := store.JobPage{Incarnation: m.Incarnation}
		if p.Position, err = v.end(ctx, m); err != nil {
			return p, err
		}
		most := int(page(q.Limit))
		ids, err := v.listIDs(ctx, q, most+1)
		if err != nil {
			return p, err
		}
		p.More = len(ids) > most
		for _, id := range ids[:min(len(ids), most)] {
			row, err := v.q.GetListed(ctx, id)
			if err != nil {
				return p, err
			}
			snap, err := v.complete(ctx, fromListed(row), row.JobState)
			if err != nil {
				return p, err
			}
			p.Jobs = append(p.Jobs, snap)
		}
		return p, nil
	})
}

func (v view) listIDs(ctx context.Context, q store.JobQuery, limit int) ([][]byte, error) {
	text, args, err := listQuery(q, limit)
	if err != nil {
		return nil, err
	}
	rows, err := v.conn.QueryContext(ctx, text, args...)
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

// listQuery writes the query: the conditions that are asked for, and the order
// with its place. Ties in time go by id, in the same direction. Each state has a
// part of both indexes of its own: the first rows of each that is asked for are
// merged, so that a page of a rare state walks no other. Jobs under way lie where
// they came from, and are found by their fences when they are asked for by state.
func listQuery(q store.JobQuery, limit int) (string, []any, error) {
	key, dir, cmp := "s.scheduled_for", "DESC", "<"
	switch q.Order {
	case store.ByScheduledDesc:
	case store.ByScheduledAsc:
		dir, cmp = "ASC", ">"
	case store.ByCreatedDesc:
		key = "s.created_at"
	default:
		return "", nil, fmt.Errorf("%w: order %d", store.ErrIllegal, q.Order)
	}
	where, args := listFilter(q)
	if !q.AfterTime.IsZero() {
		where = append(where, fmt.Sprintf("(%s, s.job_id) %s (?, ?)", key, cmp))
		args = append(args, q.AfterTime.UnixMicro(), fromID(q.AfterID))
	}
	join := ""
	if len(q.Labels) > 0 || !q.Schedule.IsZero() {
		join = " JOIN jobs AS j ON j.id = s.job_id"
	}
	var parts []string
	var all []any
	for _, from := range listParts(q.States) {
		parts = append(parts, fmt.Sprintf("SELECT * FROM (SELECT s.job_id AS id, %[1]s AS at FROM job_state AS s%[2]s%[3]s WHERE %[4]s AND %[5]s ORDER BY %[1]s %[6]s, s.job_id %[6]s LIMIT %[7]d)",
			key, from.index, join, from.cond, strings.Join(where, " AND "), dir, limit))
		all = append(all, args...)
	}
	return fmt.Sprintf("SELECT id FROM (%s) ORDER BY at %s, id %s LIMIT %d", strings.Join(parts, " UNION ALL "), dir, dir, limit), all, nil
}

// listPart is a part of a list that an index has in its order.
type listPart struct{ index, cond string }

// listParts gives the parts that have the jobs in these states; no states are all.
func listParts(states []job.State) []listPart {
	all := len(states) == 0
	if all {
		states = job.States
	}
	var parts []listPart
	for _, state := range slices.Compact(slices.Sorted(slices.Values(states))) {
		switch {
		case all && state.InFlight(): // listed elsewhere
		case all:
			parts = append(parts, listPart{cond: fmt.Sprintf("s.listed = %d", state)})
		case state.InFlight():
			parts = append(parts, listPart{
				index: " INDEXED BY job_state_fence", cond: fmt.Sprintf("s.state IN (2, 3) AND s.state = %d", state),
			})
		default:
			parts = append(parts, listPart{cond: fmt.Sprintf("s.listed = %[1]d AND s.state = %[1]d", state)})
		}
	}
	return parts
}

// listFilter gives the conditions but those on state and place.
func listFilter(q store.JobQuery) (where []string, args []any) {
	add := func(cond string, values ...any) {
		where = append(where, cond)
		args = append(args, values...)
	}
	add("s.project = ?", q.Project)
	if len(q.Connections) > 0 {
		add("s.connection_id IN (SELECT unhex(value) FROM json_each(?))", hexList(q.Connections))
	}
	if len(q.Jobs) > 0 {
		add("s.job_id IN (SELECT unhex(value) FROM json_each(?))", hexList(q.Jobs))
	}
	if !q.Schedule.IsZero() {
		add("j.schedule_id = ?", fromID(q.Schedule))
	}
	if !q.ScheduledFrom.IsZero() {
		add("s.scheduled_for >= ?", q.ScheduledFrom.UnixMicro())
	}
	if !q.ScheduledBefore.IsZero() {
		add("s.scheduled_for < ?", q.ScheduledBefore.UnixMicro())
	}
	if len(q.Labels) > 0 {
		add(`NOT EXISTS (SELECT 1 FROM json_each(?) AS f WHERE NOT EXISTS (
			SELECT 1 FROM json_each(j.labels) AS l WHERE l.key = f.key AND l.value = f.value))`, asJSON(q.Labels))
	}
	return where, args
}

// asJSON encodes lists of numbers and maps of texts, which cannot fail.
func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func hexList[T ~[16]byte](ids []T) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = hex.EncodeToString(id[:])
	}
	return asJSON(out)
}
