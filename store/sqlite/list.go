package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// This file has the queries that are not generated. The filters of lists and counts, and
// their order, are chosen at run time: with one text that covers them all the planner would
// walk the whole table for every one. Values are always parameters. store/search.go explains how
// the work is bounded.

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
		var found []store.Place
		if found, p.Next, p.More, err = v.search(ctx, q, int(page(q.Limit))); err != nil {
			return p, err
		}
		for _, place := range found {
			row, err := v.q.ListedJob(ctx, fromID(place.ID))
			if err != nil {
				return p, err
			}
			st, err := v.q.GetState(ctx, row.ID)
			if err != nil {
				return p, err
			}
			snap, err := v.complete(ctx, sqlitedb.Job(row), st)
			if err != nil {
				return p, err
			}
			p.Jobs = append(p.Jobs, snap)
		}
		return p, nil
	})
}

// search finds the jobs of a page, and where the next one begins.
func (v view) search(ctx context.Context, q store.JobQuery, limit int) (found []store.Place, next store.Place, more bool, err error) {
	l, err := newListing(q, v.now)
	if err != nil {
		return nil, next, false, err
	}
	named, err := v.candidates(ctx, l)
	if err != nil {
		return nil, next, false, err
	}
	w := store.NewWalk(q, limit)
	for after := (store.Place{At: q.AfterTime, ID: q.AfterID}); ; {
		text, args := l.walk(after, w.Step(), limit+1)
		if named != nil {
			text, args = l.named(*named, after, limit+1)
		}
		if err := v.places(ctx, w, text, args); err != nil {
			return nil, next, false, err
		}
		var done bool
		if after, found, more, done = w.Next(); done {
			return found, after, more, nil
		}
	}
}

// places reads the hits of one step of a walk, and where its parts ended.
func (v view) places(ctx context.Context, w *store.Walk, text string, args []any) error {
	rows, err := v.conn.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id []byte
		var at, hit int64
		if err := rows.Scan(&id, &at, &hit); err != nil {
			return err
		}
		p := store.Place{At: fromMicros(at), ID: toID(id)}
		if hit == 1 {
			w.Hit(p)
		} else {
			w.End(p)
		}
	}
	return rows.Err()
}

// candidates chooses an index that names few jobs for the filter; nil: none does.
func (v view) candidates(ctx context.Context, l *listing) (*clause, error) {
	for _, c := range l.drivers {
		var n int
		row := v.conn.QueryRowContext(ctx, fmt.Sprintf("SELECT count(*) FROM (%s LIMIT %d)", c.text, store.SearchCandidates+1), c.args...)
		if err := row.Scan(&n); err != nil {
			return nil, err
		}
		if n <= store.SearchCandidates {
			return &c, nil
		}
	}
	return nil, nil
}

// clause is a piece of SQL with its arguments.
type clause struct {
	text string
	args []any
}

// all joins conditions; none is always true.
func all(list []clause) clause {
	out := clause{text: "1"}
	for _, c := range list {
		out.text += " AND " + c.text
		out.args = append(out.args, c.args...)
	}
	return out
}

// listing is a query of jobs as SQL. Ties in time go by id, in the same direction.
type listing struct {
	q             store.JobQuery
	key, dir, cmp string
	// join adds jobs as j, where a condition needs it.
	join string
	// indexed are the conditions on columns of the list's own index, rest all others.
	indexed, rest []clause
	// drivers name the jobs of a filter by another index, the most selective one first.
	drivers []clause
}

func newListing(q store.JobQuery, now int64) (*listing, error) {
	l := &listing{q: q, key: "s.schedule_time", dir: "DESC", cmp: "<"}
	switch q.Order {
	case store.ByScheduledDesc:
	case store.ByScheduledAsc:
		l.dir, l.cmp = "ASC", ">"
	case store.ByCreatedDesc:
		l.key = "s.created_at"
	case store.ByCreatedAsc:
		l.key, l.dir, l.cmp = "s.created_at", "ASC", ">"
	default:
		return nil, fmt.Errorf("%w: order %d", store.ErrIllegal, q.Order)
	}
	l.indexed = append(l.indexed, clause{"s.project = ?", []any{q.Project}})
	l.names()
	l.times(now)
	l.kinds()
	return l, nil
}

func (l *listing) must(text string, args ...any) { l.rest = append(l.rest, clause{text, args}) }

func (l *listing) driver(text string, args ...any) { l.drivers = append(l.drivers, clause{text, args}) }

// names adds the conditions that name few jobs.
func (l *listing) names() {
	q := &l.q
	jobs := func() { l.join = " JOIN jobs AS j ON j.id = s.job_id" }
	if len(q.Jobs) > 0 {
		l.must("s.job_id IN (SELECT unhex(value) FROM json_each(?))", hexList(q.Jobs))
		l.driver("SELECT DISTINCT unhex(value) AS id FROM json_each(?)", hexList(q.Jobs))
	}
	if q.ExternalID != "" {
		l.must("s.state = 8 AND EXISTS (SELECT 1 FROM effects AS e WHERE e.job_id = s.job_id AND e.external_id = ?)", q.ExternalID)
		l.driver("SELECT job_id AS id FROM effects WHERE external_id <> '' AND external_id = ?", q.ExternalID)
	}
	if q.Recipient != "" {
		l.must("EXISTS (SELECT 1 FROM job_recipients AS r WHERE r.job_id = s.job_id AND r.recipient = ?)", q.Recipient)
		l.driver("SELECT job_id AS id FROM job_recipients WHERE project = ? AND recipient = ?", q.Project, q.Recipient)
	}
	if q.KeyPrefix != "" {
		jobs()
		l.must("j.idem_key >= ? AND j.idem_key < ?", q.KeyPrefix, q.KeyPrefix+"\x7f")
		l.driver("SELECT id FROM jobs WHERE project = ? AND idem_key >= ? AND idem_key < ?", q.Project, q.KeyPrefix, q.KeyPrefix+"\x7f")
	}
	if q.KeyText != "" {
		jobs()
		l.must("instr(j.idem_key, ?) > 0", q.KeyText)
	}
	if !q.Schedule.IsZero() {
		jobs()
		l.must("j.schedule_id = ?", fromID(q.Schedule))
		l.driver("SELECT id FROM jobs WHERE schedule_id = ?", fromID(q.Schedule))
	}
	if len(q.Labels) > 0 {
		jobs()
		l.must(`NOT EXISTS (SELECT 1 FROM json_each(?) AS f WHERE NOT EXISTS (
			SELECT 1 FROM json_each(j.labels) AS l WHERE l.key = f.key AND l.value = f.value))`, asJSON(q.Labels))
	}
}

// times adds the conditions on times. now is the present.
func (l *listing) times(now int64) {
	q := &l.q
	listed := "SELECT job_id AS id FROM job_state WHERE project = ? AND listed IN (1, 4, 5, 6, 7, 8, 9, 10, 11)"
	l.span("s.schedule_time", q.ScheduleTimeFrom, q.ScheduleTimeBefore, listed)
	l.span("s.created_at", q.CreatedFrom, q.CreatedBefore, listed)
	l.span("s.ended_at", q.EndedFrom, q.EndedBefore,
		"SELECT job_id AS id FROM job_state WHERE project = ? AND state IN (8, 9, 10, 11)")
	if q.InState > 0 {
		l.must("s.state_since <= ?", now-micros(q.InState))
	}
}

// span adds the conditions on one time: to the walk, if that goes by the same time.
func (l *listing) span(column string, from, before time.Time, driver string) {
	var conds []clause
	if !from.IsZero() {
		conds = append(conds, clause{column + " >= ?", []any{from.UnixMicro()}})
	}
	if !before.IsZero() {
		conds = append(conds, clause{column + " < ?", []any{before.UnixMicro()}})
	}
	if len(conds) == 0 {
		return
	}
	if column == l.key {
		l.indexed = append(l.indexed, conds...)
		return
	}
	l.rest = append(l.rest, conds...)
	c := all(conds)
	l.driver(driver+" AND "+strings.ReplaceAll(c.text, "s.", ""), append([]any{l.q.Project}, c.args...)...)
}

// kinds adds the conditions that many jobs meet.
func (l *listing) kinds() {
	q := &l.q
	if len(q.ErrorKinds) > 0 {
		l.must("s.error_kind IN (SELECT value FROM json_each(?))", asJSON(numbers(q.ErrorKinds)))
		l.driver("SELECT job_id AS id FROM job_state WHERE project = ? AND error_kind > 0 AND error_kind IN (SELECT value FROM json_each(?))",
			q.Project, asJSON(numbers(q.ErrorKinds)))
	}
	if len(q.Connections) > 0 {
		l.must("s.connection_id IN (SELECT unhex(value) FROM json_each(?))", hexList(q.Connections))
	}
	if len(q.Classes) > 0 {
		l.must("s.class IN (SELECT value FROM json_each(?))", asJSON(numbers(q.Classes)))
	}
	if q.OnlyLeftBehind {
		behind := fmt.Sprintf("error_kind = %d AND cancel_asked_at IS NULL", job.FailPredecessorEnded)
		l.must(fmt.Sprintf("(s.state <> %d OR s.", job.Canceled) + behind + ")")
		others := asJSON(numbers(q.NotCanceled()))
		// Jobs under way are listed under their earlier state.
		l.driver(fmt.Sprintf(`SELECT job_id AS id FROM job_state WHERE project = ? AND listed IN (SELECT value FROM json_each(?))
			UNION ALL SELECT job_id AS id FROM job_state INDEXED BY job_state_fence WHERE state IN (2, 3) AND project = ? AND state IN (SELECT value FROM json_each(?))
				AND listed NOT IN (SELECT value FROM json_each(?))
			UNION ALL SELECT job_id AS id FROM job_state WHERE project = ? AND error_kind > 0 AND state = %[1]d AND %[2]s`, job.Canceled, behind),
			q.Project, others, q.Project, others, others, q.Project)
	}
}

// after is the condition that a job comes after a place.
func (l *listing) after(p store.Place) []clause {
	if p.At.IsZero() {
		return nil
	}
	return []clause{{fmt.Sprintf("(%s, s.job_id) %s (?, ?)", l.key, l.cmp), []any{p.At.UnixMicro(), fromID(p.ID)}}}
}

// walk reads the first jobs after a place: of each state, whose part of the index is in the
// list's order, it reads step jobs. Rows that are no hit are where a part ended.
func (l *listing) walk(after store.Place, step, limit int) (string, []any) {
	cond, rest := all(append(slices.Clone(l.indexed), l.after(after)...)), all(l.rest)
	var with, parts []string
	var args []any
	for i, part := range listParts(l.q.States) {
		if len(l.rest) == 0 {
			step = limit // every row that it reads is a hit
		}
		with = append(with, fmt.Sprintf(`c%[1]d AS MATERIALIZED (SELECT s.job_id AS id, %[2]s AS at, (%[3]s) IS TRUE AS hit
			FROM job_state AS s%[4]s%[5]s WHERE %[6]s AND %[7]s ORDER BY %[2]s %[8]s, s.job_id %[8]s LIMIT %[9]d)`,
			i, l.key, rest.text, part.index, l.join, part.cond, cond.text, l.dir, step))
		args = append(append(args, rest.args...), cond.args...)
		parts = append(parts, fmt.Sprintf("SELECT * FROM (SELECT id, at, 1 AS hit FROM c%d WHERE hit LIMIT %d)", i, limit))
		if len(l.rest) > 0 {
			parts = append(parts, fmt.Sprintf("SELECT * FROM (SELECT id, at, 0 AS hit FROM c%d LIMIT 1 OFFSET %d)", i, step-1))
		}
	}
	return "WITH " + strings.Join(with, ", ") + " " + strings.Join(parts, " UNION ALL "), args
}

// named reads the first jobs after a place among those that an index names.
func (l *listing) named(driver clause, after store.Place, limit int) (string, []any) {
	cond := all(slices.Concat(l.indexed, l.rest, l.after(after), inStates(l.q.States)))
	text := fmt.Sprintf(`SELECT s.job_id AS id, %[1]s AS at, 1 AS hit FROM (%[2]s) AS d CROSS JOIN job_state AS s ON s.job_id = d.id%[3]s
		WHERE %[4]s ORDER BY %[1]s %[5]s, s.job_id %[5]s LIMIT %[6]d`, l.key, driver.text, l.join, cond.text, l.dir, limit)
	return text, slices.Concat(driver.args, cond.args)
}

func inStates(states []job.State) []clause {
	if len(states) == 0 {
		return nil
	}
	return []clause{{"s.state IN (SELECT value FROM json_each(?))", []any{asJSON(numbers(states))}}}
}

// listPart is a part of a list that an index has in its order.
type listPart struct{ index, cond string }

// listParts returns the parts that have the jobs in these states; no states are all. Jobs
// under way are listed under their earlier state. A query for them by state finds them by
// their fences.
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
		default:
			parts = append(parts, statePart(state))
		}
	}
	return parts
}

// statePart returns the part of a list with the jobs in one state.
func statePart(state job.State) listPart {
	if state.InFlight() {
		return listPart{
			index: " INDEXED BY job_state_fence", cond: fmt.Sprintf("s.state IN (2, 3) AND s.state = %d", state),
		}
	}
	return listPart{cond: fmt.Sprintf("s.listed = %[1]d AND s.state = %[1]d", state)}
}

// Count implements store.Store.
func (s *Store) Count(ctx context.Context, q store.JobQuery, by store.GroupBy) (store.JobCounts, error) {
	return read(ctx, s, "count", func(ctx context.Context, v view) (store.JobCounts, error) {
		q.Order, q.AfterTime = store.ByScheduledDesc, time.Time{}
		out := store.JobCounts{Now: fromMicros(v.now), States: make(map[job.State]store.StateCount)}
		l, err := newListing(q, v.now)
		if err != nil {
			return out, err
		}
		group, ok := groupColumns[by]
		if !ok {
			return out, fmt.Errorf("%w: group by %d", store.ErrIllegal, by)
		}
		named, err := v.candidates(ctx, l)
		if err != nil {
			return out, err
		}
		c := &jobCounter{view: v, listing: l, by: by, group: group, out: &out, groups: make(map[string]int64)}
		for _, state := range q.CountedStates() {
			out.States[state] = store.StateCount{}
		}
		if named != nil {
			err = c.named(ctx, *named)
		} else {
			for _, state := range q.CountedStates() {
				if err == nil {
					err = c.state(ctx, state)
				}
			}
		}
		out.Groups = c.list()
		return out, err
	})
}

var groupColumns = map[store.GroupBy]string{
	store.ByNothing: "NULL", store.ByConnection: "s.connection_id", store.ByClass: "s.class", store.ByErrorKind: "s.error_kind",
}

// jobCounter is a count under way.
type jobCounter struct {
	view
	listing *listing
	by      store.GroupBy
	group   string
	out     *store.JobCounts
	groups  map[string]int64 // by connection or number
}

// named counts among the jobs that an index names.
func (c *jobCounter) named(ctx context.Context, driver clause) error {
	l := c.listing
	cond := all(slices.Concat(l.indexed, l.rest, inStates(l.q.States)))
	_, err := c.add(ctx, fmt.Sprintf(`SELECT s.state, %s, count(*), count(*)
		FROM (%s) AS d CROSS JOIN job_state AS s ON s.job_id = d.id%s WHERE %s GROUP BY 1, 2`,
		c.group, driver.text, l.join, cond.text), slices.Concat(driver.args, cond.args))
	return err
}

// state counts the jobs of a state that its part of the index has.
func (c *jobCounter) state(ctx context.Context, state job.State) error {
	l, part, most := c.listing, statePart(state), store.CountLooked
	rest, cond := all(l.rest), all(l.indexed)
	var text string
	args := slices.Concat(rest.args, cond.args)
	if len(l.rest) == 0 && c.by == store.ByNothing {
		most = store.CountIndexed
	}
	if len(l.rest) == 0 && c.by == store.ByNothing && !state.InFlight() {
		// The index has the count but for one case: jobs under way, which are few, are listed
		// under their earlier state.
		text = fmt.Sprintf(`SELECT %[1]d, NULL, n - (SELECT count(*) FROM job_state AS s INDEXED BY job_state_fence
			WHERE s.state IN (2, 3) AND s.listed = %[1]d AND %[2]s), n
			FROM (SELECT count(*) AS n FROM (SELECT 1 FROM job_state AS s WHERE s.listed = %[1]d AND %[2]s LIMIT %[3]d))`,
			state, cond.text, most)
		args = slices.Concat(cond.args, cond.args)
	} else {
		text = fmt.Sprintf(`SELECT %d, g, sum(hit), count(*) FROM (SELECT %s AS g, (%s) IS TRUE AS hit
		FROM job_state AS s%s%s WHERE %s AND %s LIMIT %d) GROUP BY g`,
			state, c.group, rest.text, part.index, l.join, part.cond, cond.text, most)
	}
	looked, err := c.add(ctx, text, args)
	if err == nil && looked >= int64(most) {
		n := c.out.States[state]
		c.out.States[state] = store.StateCount{Count: n.Count, Capped: true}
	}
	return err
}

// add reads counts by state and group, and returns how many jobs were read.
func (c *jobCounter) add(ctx context.Context, text string, args []any) (looked int64, err error) {
	rows, err := c.conn.QueryContext(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var state job.State
		var group sql.RawBytes
		var hits, of int64
		if err := rows.Scan(&state, &group, &hits, &of); err != nil {
			return 0, err
		}
		n := c.out.States[state]
		n.Count += hits
		c.out.States[state] = n
		if c.by != store.ByNothing && hits > 0 {
			c.groups[string(group)] += hits
		}
		looked += of
	}
	return looked, rows.Err()
}

// list returns the groups that were counted.
func (c *jobCounter) list() []store.JobGroup {
	var out []store.JobGroup
	for text, n := range c.groups {
		g := store.JobGroup{Count: n}
		var number int
		if c.by != store.ByConnection {
			_, _ = fmt.Sscan(text, &number) // the database gave it
		}
		switch c.by {
		case store.ByConnection:
			g.Connection = toID([]byte(text))
		case store.ByClass:
			g.Class = job.Class(number)
		case store.ByErrorKind:
			g.ErrorKind = job.FailureKind(number)
		case store.ByNothing:
		}
		out = append(out, g)
	}
	return store.LargestGroups(out)
}

// numbers returns a list that JSON writes as numbers, and not as text.
func numbers[T ~uint8](list []T) []int {
	out := make([]int, len(list))
	for i, v := range list {
		out[i] = int(v)
	}
	return out
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
