package sqlite

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fireonce/fireonce/store"
)

// This file has the one query that is not generated: a list's filters and its
// order are chosen at run time, and a text that covers them all would have the
// planner walk the whole table for every one. Values are always parameters.

// List implements store.Store.
func (s *Store) List(ctx context.Context, q store.JobQuery) (store.JobPage, error) {
	return read(ctx, s, "list", func(ctx context.Context, v view) (store.JobPage, error) {
		var p store.JobPage
		var err error
		if p.Position, err = v.end(ctx); err != nil {
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
// with its place. Ties in time go by id, in the same direction.
func listQuery(q store.JobQuery, limit int) (string, []any, error) {
	var where []string
	var args []any
	add := func(cond string, values ...any) {
		where = append(where, cond)
		args = append(args, values...)
	}
	add("s.project = ?", q.Project)
	if len(q.States) > 0 {
		states := make([]int, len(q.States))
		for i, st := range q.States {
			states[i] = int(st)
		}
		add("s.state IN (SELECT value FROM json_each(?))", asJSON(states))
	}
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
	key, dir, cmp := "s.scheduled_for", "DESC", "<"
	switch q.Order {
	case store.ByScheduledDesc:
	case store.ByScheduledAsc:
		dir, cmp = "ASC", ">"
	case store.ByCreatedDesc:
		key = "j.created_at"
	default:
		return "", nil, fmt.Errorf("%w: order %d", store.ErrIllegal, q.Order)
	}
	id := "s.job_id"
	if key == "j.created_at" {
		id = "j.id"
		add("j.project = ?", q.Project)
	}
	if !q.AfterTime.IsZero() {
		at := q.AfterTime.UnixMicro()
		add(fmt.Sprintf("(%s, %s) %s (?, ?)", key, id, cmp), at, fromID(q.AfterID))
	}
	args = append(args, limit)
	return fmt.Sprintf("SELECT s.job_id FROM job_state AS s JOIN jobs AS j ON j.id = s.job_id WHERE %s ORDER BY %s %s, %s %s LIMIT ?",
		strings.Join(where, " AND "), key, dir, id, dir), args, nil
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
