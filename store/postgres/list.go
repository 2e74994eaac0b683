package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// This file has the queries that are not generated. The filters of lists and counts, and
// their order, are chosen at run time: with one text that covers them all the planner would
// walk the whole table for every one. Values are always parameters. store/search.go explains how
// the work is bounded.

// List implements store.Store.
func (s *Store) List(ctx context.Context, q store.JobQuery) (store.JobPage, error) {
	return read(ctx, s, "list", func(ctx context.Context, v view) (store.JobPage, error) {
		end, err := v.end(ctx)
		if err != nil {
			return store.JobPage{}, err
		}
		p := store.JobPage{Position: end.End, Incarnation: end.Incarnation}
		var found []store.Place
		if found, p.Next, p.More, err = v.search(ctx, q, rules.Page(q.Limit)); err != nil {
			return p, err
		}
		ids := make([]job.ID, len(found))
		for i, f := range found {
			ids[i] = f.ID
		}
		p.Jobs, err = v.inOrder(ctx, ids, false)
		return p, err
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
		if named != "" {
			text, args = l.named(named, after, limit+1)
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

// places reads what one step of a walk found, and where its parts ended.
func (v view) places(ctx context.Context, w *store.Walk, text string, args []any) error {
	rows, err := v.conn.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id pgtype.UUID
		var at time.Time
		var hit bool
		if err := rows.Scan(&id, &at, &hit); err != nil {
			return err
		}
		p := store.Place{At: at.UTC(), ID: toID(id)}
		if hit {
			w.Hit(p)
		} else {
			w.End(p)
		}
	}
	return rows.Err()
}

// boundedPlans makes the planner use indexes in their order, so that a LIMIT bounds the work:
// a bitmap would be built of all matching rows. The best of a list's indexes depends on the
// query and on the number of rows.
const boundedPlans = "SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_bitmapscan = off"

// candidates chooses an index that names few jobs for the filter; empty: none does.
func (v view) candidates(ctx context.Context, l *listing) (string, error) {
	if _, err := v.conn.Exec(ctx, boundedPlans); err != nil {
		return "", err
	}
	for _, d := range l.drivers {
		n, err := v.named(ctx, l, d)
		if err != nil {
			return "", err
		}
		if n <= store.SearchCandidates {
			if d.bitmap { // it is read once more
				_, err = v.conn.Exec(ctx, "SET LOCAL enable_bitmapscan = on")
			}
			return d.text, err
		}
	}
	return "", nil
}

// labelsPatience bounds the time in the index of labels, which supports only a bitmap of all
// matching rows. A longer search names too many jobs.
const labelsPatience = "250ms"

const queryCanceled = "57014"

// named counts the jobs that an index names, up to the bound.
func (v view) named(ctx context.Context, l *listing, d driver) (n int, err error) {
	// Every argument is passed, whichever the driver uses.
	count := fmt.Sprintf("SELECT (SELECT count(*) FROM (%s LIMIT %d) AS d) WHERE %s", d.text, store.SearchCandidates+1, l.typed())
	if !d.bitmap {
		return n, v.conn.QueryRow(ctx, count, l.args...).Scan(&n)
	}
	if _, err := v.conn.Exec(ctx, "SAVEPOINT labels; SET LOCAL enable_bitmapscan = on; SET LOCAL statement_timeout = '"+labelsPatience+"'"); err != nil {
		return 0, err
	}
	err = v.conn.QueryRow(ctx, count, l.args...).Scan(&n)
	if known, ok := errors.AsType[*pgconn.PgError](err); ok && known.Code == queryCanceled && ctx.Err() == nil {
		n, err = store.SearchCandidates+1, nil
	}
	if err != nil {
		return 0, err
	}
	_, err = v.conn.Exec(ctx, "ROLLBACK TO SAVEPOINT labels")
	return n, err
}

// driver names jobs by an index.
type driver struct {
	text string
	// bitmap: the index supports only bitmap scans.
	bitmap bool
}

// listing is a query of jobs as SQL. Ties in time go by id, in the same direction.
type listing struct {
	q                 store.JobQuery
	key, id, dir, cmp string
	args              []any
	types             []string
	project           string
	// indexed are the conditions on columns of the list's own index, rest all others.
	indexed, rest []string
	// drivers name the jobs of a filter by another index, the most selective one first.
	drivers []driver
}

func newListing(q store.JobQuery, now time.Time) (*listing, error) {
	l := &listing{q: q, key: "s.schedule_time", id: "s.job_id", dir: "DESC", cmp: "<"}
	switch q.Order {
	case store.ByScheduledDesc:
	case store.ByScheduledAsc:
		l.dir, l.cmp = "ASC", ">"
	case store.ByCreatedDesc:
		l.key, l.id = "j.created_at", "j.id"
	case store.ByCreatedAsc:
		l.key, l.id, l.dir, l.cmp = "j.created_at", "j.id", "ASC", ">"
	default:
		return nil, fmt.Errorf("%w: order %d", store.ErrIllegal, q.Order)
	}
	l.project = l.arg("text", q.Project)
	l.indexed = append(l.indexed, "s.project = "+l.project)
	if q.Order.ByCreated() {
		// Elsewhere it would offer the planner a walk of all the project's jobs.
		l.indexed = append(l.indexed, "j.project = "+l.project)
	}
	l.names()
	l.times(now)
	l.kinds()
	return l, nil
}

// arg adds an argument and returns its name in the text.
func (l *listing) arg(kind string, v any) string {
	l.args, l.types = append(l.args, v), append(l.types, kind)
	return fmt.Sprintf("$%d::%s", len(l.args), kind)
}

// typed returns a condition that is always true and names every argument.
func (l *listing) typed() string {
	parts := []string{"true"}
	for i, kind := range l.types {
		parts = append(parts, fmt.Sprintf("($%[1]d::%[2]s IS NULL OR true)", i+1, kind))
	}
	return strings.Join(parts, " AND ")
}

func (l *listing) must(format string, args ...any) {
	l.rest = append(l.rest, fmt.Sprintf(format, args...))
}

func (l *listing) driver(format string, args ...any) {
	l.drivers = append(l.drivers, driver{text: fmt.Sprintf(format, args...)})
}

// names adds the conditions that name few jobs.
func (l *listing) names() {
	q := &l.q
	if len(q.Jobs) > 0 {
		ids := l.arg("uuid[]", fromIDs(q.Jobs))
		l.must("s.job_id = ANY (%s)", ids)
		l.driver("SELECT DISTINCT unnest(%s) AS id", ids)
	}
	if q.ExternalID != "" {
		id := l.arg("text", q.ExternalID)
		l.must("s.state = 8 AND EXISTS (SELECT 1 FROM effects AS e WHERE e.job_id = s.job_id AND e.external_id = %s)", id)
		l.driver("SELECT e.job_id AS id FROM effects AS e WHERE e.external_id <> '' AND e.external_id = %s", id)
	}
	if q.Recipient != "" {
		who := l.arg("text", q.Recipient)
		l.must("EXISTS (SELECT 1 FROM job_recipients AS r WHERE r.job_id = s.job_id AND r.recipient = %s)", who)
		l.driver("SELECT r.job_id AS id FROM job_recipients AS r WHERE r.project = %s AND r.recipient = %s", l.project, who)
	}
	if q.KeyPrefix != "" {
		from, to := l.arg("text", q.KeyPrefix), l.arg("text", q.KeyPrefix+"\x7f")
		l.must(`j.idem_key COLLATE "C" >= %s AND j.idem_key COLLATE "C" < %s`, from, to)
		l.driver(`SELECT j.id FROM jobs AS j WHERE j.project = %s AND j.idem_key COLLATE "C" >= %s AND j.idem_key COLLATE "C" < %s`, l.project, from, to)
	}
	if q.KeyText != "" {
		l.must("strpos(j.idem_key, %s) > 0", l.arg("text", q.KeyText))
	}
	if !q.Schedule.IsZero() {
		id := l.arg("uuid", fromID(q.Schedule))
		l.must("j.schedule_id = %s", id)
		l.driver("SELECT j.id FROM jobs AS j WHERE j.schedule_id = %s", id)
	}
	if len(q.Labels) > 0 {
		labels := l.arg("jsonb", q.Labels)
		l.must("j.labels @> %s AND j.labels <> '{}'", labels)
		l.driver("SELECT j.id FROM jobs AS j WHERE j.project = %s AND j.labels @> %s AND j.labels <> '{}'", l.project, labels)
		l.drivers[len(l.drivers)-1].bitmap = true
	}
}

// times adds the conditions on times. now is the present.
func (l *listing) times(now time.Time) {
	q := &l.q
	// State by state: the index cannot look up several states in one condition.
	var parts []string
	for _, s := range q.CountedStates() {
		if !s.InFlight() {
			parts = append(parts, fmt.Sprintf("SELECT s.job_id AS id FROM job_state AS s WHERE s.project = %%[1]s AND s.state = %d AND %%[2]s", s))
		}
	}
	parts = append(parts, "SELECT s.job_id AS id FROM job_state AS s WHERE s.project = %[1]s AND s.state IN (2, 3) AND %[2]s")
	l.span("s.schedule_time", q.ScheduleTimeFrom, q.ScheduleTimeBefore, strings.Join(parts, " UNION ALL "))
	l.span("j.created_at", q.CreatedFrom, q.CreatedBefore, "SELECT j.id FROM jobs AS j WHERE j.project = %s AND %s")
	l.span("s.ended_at", q.EndedFrom, q.EndedBefore,
		"SELECT s.job_id AS id FROM job_state AS s WHERE s.project = %s AND s.ended_at IS NOT NULL AND %s")
	if q.InState > 0 {
		since := l.arg("timestamptz", job.Micros(now.Add(-q.InState)))
		l.must("s.state_since <= %[1]s", since)
	}
}

// span adds the conditions on one time: to the walk, if that goes by the same time.
func (l *listing) span(column string, from, before time.Time, driver string) {
	var conds []string
	if !from.IsZero() {
		conds = append(conds, column+" >= "+l.arg("timestamptz", job.Micros(from)))
	}
	if !before.IsZero() {
		conds = append(conds, column+" < "+l.arg("timestamptz", job.Micros(before)))
	}
	if len(conds) == 0 {
		return
	}
	if column == l.key {
		l.indexed = append(l.indexed, conds...)
		return
	}
	l.rest = append(l.rest, conds...)
	l.driver(driver, l.project, strings.Join(conds, " AND "))
}

// kinds adds the conditions that many jobs meet.
func (l *listing) kinds() {
	q := &l.q
	if len(q.ErrorKinds) > 0 {
		kinds := l.arg("smallint[]", numbers(q.ErrorKinds))
		l.must("s.error_kind = ANY (%s)", kinds)
		l.driver("SELECT s.job_id AS id FROM job_state AS s WHERE s.project = %s AND s.error_kind > 0 AND s.error_kind = ANY (%s)", l.project, kinds)
	}
	if len(q.Connections) > 0 {
		l.must("s.connection_id = ANY (%s)", l.arg("uuid[]", fromIDs(q.Connections)))
	}
	if len(q.Classes) > 0 {
		l.must("s.class = ANY (%s)", l.arg("smallint[]", numbers(q.Classes)))
	}
	if len(q.States) > 0 && q.Order.ByCreated() {
		// The order of creation has no index of each state.
		l.must("s.state = ANY (%s)", l.arg("smallint[]", numbers(q.States)))
		if !q.OnlyLeftBehind {
			l.driver(ofStates, l.project, l.arg("smallint[]", numbers(q.States)))
		}
	}
	if q.OnlyLeftBehind {
		behind := fmt.Sprintf("s.error_kind = %d AND s.cancel_asked_at IS NULL", job.FailPredecessorEnded)
		l.must("(s.state <> %d OR %s)", job.Canceled, behind)
		l.driver(ofStates+" UNION ALL SELECT s.job_id AS id FROM job_state AS s WHERE s.project = %[1]s AND s.error_kind > 0 AND s.state = %[3]d AND %[4]s",
			l.project, l.arg("smallint[]", numbers(q.NotCanceled())), job.Canceled, behind)
	}
}

// ofStates names the jobs of a project in some states.
const ofStates = "SELECT s.job_id AS id FROM job_state AS s WHERE s.project = %[1]s AND s.state IN (1, 4, 5, 6, 7, 8, 9, 10, 11) AND s.state = ANY (%[2]s) UNION ALL " +
	"SELECT s.job_id AS id FROM job_state AS s WHERE s.project = %[1]s AND s.state IN (2, 3) AND s.state = ANY (%[2]s)"

// where joins conditions and the place after which the jobs begin.
func (l *listing) where(after store.Place, conds ...[]string) (string, []any) {
	list, args := slices.Concat(conds...), l.args
	if !after.At.IsZero() {
		n := len(args)
		list = append(list, fmt.Sprintf("(%s, %s) %s ($%d::timestamptz, $%d::uuid)", l.key, l.id, l.cmp, n+1, n+2))
		args = append(slices.Clone(args), job.Micros(after.At), fromID(after.ID))
	}
	return strings.Join(append(list, l.typed()), " AND "), args
}

// walk reads the first jobs after a place: of each state, whose part of the index is in the
// list's order, it reads step jobs. Rows that are no hit are where a part ended.
func (l *listing) walk(after store.Place, step, limit int) (string, []any) {
	where, args := l.where(after, l.indexed)
	rest := "true"
	if len(l.rest) > 0 {
		rest = "(" + strings.Join(l.rest, " AND ") + ") IS TRUE"
	} else {
		step = limit // every row that it reads is a hit
	}
	states := l.q.CountedStates()
	if l.q.Order.ByCreated() {
		states = []job.State{0}
	}
	var with, parts []string
	for i, state := range states {
		of := where
		if state != 0 {
			of += fmt.Sprintf(" AND s.state = %d", state)
		}
		with = append(with, fmt.Sprintf(`c%[1]d AS MATERIALIZED (SELECT w.id, w.place, %[2]s AS hit FROM (
			SELECT %[3]s AS id, %[4]s AS place FROM job_state AS s%[5]s WHERE %[6]s ORDER BY %[4]s %[7]s, %[3]s %[7]s LIMIT %[8]d
			) AS w%[9]s ORDER BY w.place %[7]s, w.id %[7]s)`,
			i, rest, l.id, l.key, l.joined(l.key), of, l.dir, step, l.rejoined()))
		parts = append(parts, fmt.Sprintf("(SELECT id, place, true AS hit FROM c%d WHERE hit LIMIT %d)", i, limit))
		if len(l.rest) > 0 {
			parts = append(parts, fmt.Sprintf("(SELECT id, place, false AS hit FROM c%d LIMIT 1 OFFSET %d)", i, step-1))
		}
	}
	return "WITH " + strings.Join(with, ", ") + " " + strings.Join(parts, " UNION ALL "), args
}

// joined joins the table jobs as j, where a text needs it.
func (l *listing) joined(texts ...string) string {
	for _, text := range texts {
		if strings.Contains(text, "j.") {
			return " JOIN jobs AS j ON j.id = s.job_id"
		}
	}
	return ""
}

// rejoined joins the rows of a walk, where a condition needs them.
func (l *listing) rejoined() string {
	if len(l.rest) == 0 {
		return ""
	}
	return " JOIN job_state AS s ON s.job_id = w.id" + l.joined(l.rest...)
}

// named reads the first jobs after a place among those that an index names.
func (l *listing) named(driver string, after store.Place, limit int) (string, []any) {
	where, args := l.where(after, l.indexed, l.rest, l.inStates())
	return fmt.Sprintf(`WITH d AS MATERIALIZED (%[1]s)
		SELECT %[2]s AS id, %[3]s AS place, true AS hit FROM d JOIN job_state AS s ON s.job_id = d.id%[4]s
		WHERE %[5]s ORDER BY place %[6]s, id %[6]s LIMIT %[7]d`,
		driver, l.id, l.key, l.joined(where), where, l.dir, limit), args
}

func (l *listing) inStates() []string {
	if len(l.q.States) == 0 {
		return nil
	}
	list := make([]string, len(l.q.States))
	for i, s := range l.q.States {
		list[i] = fmt.Sprintf("%d", s)
	}
	return []string{"s.state IN (" + strings.Join(list, ", ") + ")"}
}

// Count implements store.Store.
func (s *Store) Count(ctx context.Context, q store.JobQuery, by store.GroupBy) (store.JobCounts, error) {
	return read(ctx, s, "count", func(ctx context.Context, v view) (store.JobCounts, error) {
		q.Order, q.AfterTime = store.ByScheduledDesc, time.Time{}
		out := store.JobCounts{Now: v.now, States: make(map[job.State]store.StateCount)}
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
		c := &jobCounter{view: v, listing: l, by: by, group: group, out: &out, groups: make(map[store.JobGroup]int64)}
		for _, state := range q.CountedStates() {
			out.States[state] = store.StateCount{}
		}
		if named != "" {
			err = c.named(ctx, named)
		} else {
			for _, state := range q.CountedStates() {
				if err == nil {
					err = c.state(ctx, state)
				}
			}
		}
		for g, n := range c.groups {
			g.Count = n
			out.Groups = append(out.Groups, g)
		}
		out.Groups = store.LargestGroups(out.Groups)
		return out, err
	})
}

// groupColumns are the connection, the class and the kind of error by which jobs are grouped.
var groupColumns = map[store.GroupBy]string{
	store.ByNothing:    "NULL::uuid AS g1, 0::smallint AS g2, 0::smallint AS g3",
	store.ByConnection: "s.connection_id AS g1, 0::smallint AS g2, 0::smallint AS g3",
	store.ByClass:      "NULL::uuid AS g1, s.class AS g2, 0::smallint AS g3",
	store.ByErrorKind:  "NULL::uuid AS g1, 0::smallint AS g2, s.error_kind AS g3",
}

// jobCounter is a count under way.
type jobCounter struct {
	view
	listing *listing
	by      store.GroupBy
	group   string
	out     *store.JobCounts
	groups  map[store.JobGroup]int64
}

// named counts among the jobs that an index names.
func (c *jobCounter) named(ctx context.Context, driver string) error {
	l := c.listing
	where, args := l.where(store.Place{}, l.indexed, l.rest, l.inStates())
	_, err := c.add(ctx, fmt.Sprintf(`WITH d AS MATERIALIZED (%s)
		SELECT s.state, %s, count(*), count(*) FROM d JOIN job_state AS s ON s.job_id = d.id%s WHERE %s GROUP BY 1, 2, 3, 4`,
		driver, c.group, l.joined(where), where), args)
	return err
}

// state counts the jobs of a state that its part of the index has.
func (c *jobCounter) state(ctx context.Context, state job.State) error {
	l, most, rest := c.listing, store.CountLooked, "true"
	if len(l.rest) > 0 {
		rest = strings.Join(l.rest, " AND ")
	} else if c.by == store.ByNothing {
		most = store.CountIndexed
	}
	where, args := l.where(store.Place{}, l.indexed)
	looked, err := c.add(ctx, fmt.Sprintf(`SELECT %d::smallint, g1, g2, g3, count(*) FILTER (WHERE hit), count(*) FROM (
		SELECT %s, (%s) IS TRUE AS hit FROM job_state AS s%s WHERE %s AND s.state = %[1]d LIMIT %[6]d) AS w GROUP BY g1, g2, g3`,
		state, c.group, rest, l.joined(rest, where), where, most), args)
	if err == nil && looked >= int64(most) {
		c.out.States[state] = store.StateCount{Count: c.out.States[state].Count, Capped: true}
	}
	return err
}

// add reads counts by state and group, and returns how many jobs were read.
func (c *jobCounter) add(ctx context.Context, text string, args []any) (looked int64, err error) {
	rows, err := c.conn.Query(ctx, text, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var state, class, kind int16
		var conn pgtype.UUID
		var hits, of int64
		if err := rows.Scan(&state, &conn, &class, &kind, &hits, &of); err != nil {
			return 0, err
		}
		n := c.out.States[job.State(state)]
		n.Count += hits
		c.out.States[job.State(state)] = n
		if c.by != store.ByNothing && hits > 0 {
			c.groups[store.JobGroup{Connection: toID(conn), Class: job.Class(class), ErrorKind: job.FailureKind(kind)}] += hits
		}
		looked += of
	}
	return looked, rows.Err()
}

// numbers returns the list as numbers of the database's type.
func numbers[T ~uint8](list []T) []int16 {
	out := make([]int16, len(list))
	for i, v := range list {
		out[i] = int16(v)
	}
	return out
}
