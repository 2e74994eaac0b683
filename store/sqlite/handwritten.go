package sqlite

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

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
// with its place. Ties in time go by id, in the same direction. With states, each
// has an index of its own in both orders: their first rows are merged, so that a
// page of a rare state walks no other.
func listQuery(q store.JobQuery, limit int) (string, []any, error) {
	key, id, dir, cmp := "s.scheduled_for", "s.job_id", "DESC", "<"
	where, args := listFilter(q)
	switch q.Order {
	case store.ByScheduledDesc:
	case store.ByScheduledAsc:
		dir, cmp = "ASC", ">"
	case store.ByCreatedDesc:
		key = "s.created_at"
		if len(q.States) == 0 {
			key, id = "j.created_at", "j.id"
			where, args = append(where, "j.project = ?"), append(args, q.Project)
		}
	default:
		return "", nil, fmt.Errorf("%w: order %d", store.ErrIllegal, q.Order)
	}
	if !q.AfterTime.IsZero() {
		where = append(where, fmt.Sprintf("(%s, %s) %s (?, ?)", key, id, cmp))
		args = append(args, q.AfterTime.UnixMicro(), fromID(q.AfterID))
	}
	one := fmt.Sprintf("SELECT %[2]s AS id, %[1]s AS at FROM job_state AS s JOIN jobs AS j ON j.id = s.job_id WHERE %[3]s ORDER BY %[1]s %[4]s, %[2]s %[4]s LIMIT %[5]d",
		key, id, strings.Join(where, " AND "), dir, limit)
	if len(q.States) == 0 {
		return "SELECT id FROM (" + one + ")", args, nil
	}
	var parts []string
	var all []any
	for _, state := range slices.Compact(slices.Sorted(slices.Values(q.States))) {
		parts = append(parts, "SELECT * FROM ("+strings.Replace(one, " WHERE ", fmt.Sprintf(" WHERE s.state = %d AND ", state), 1)+")")
		all = append(all, args...)
	}
	return fmt.Sprintf("SELECT id FROM (%s) ORDER BY at %s, id %s LIMIT %d", strings.Join(parts, " UNION ALL "), dir, dir, limit), all, nil
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
