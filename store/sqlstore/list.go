package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file: the filters of lists and counts, and their order, are put together at
// run time. With one text that covers them all, planners would walk the whole table for every
// one. Values are always parameters. store/search.go explains how the work is bounded.

// List implements store.Store.
func (r *Roles) List(ctx context.Context, q store.JobQuery) (store.JobPage, error) {
	return read(ctx, r, "list", func(ctx context.Context, v View) (store.JobPage, error) {
		log, err := v.LogEnd(ctx)
		if err != nil {
			return store.JobPage{}, err
		}
		p := store.JobPage{Position: log.End, Incarnation: log.Incarnation}
		var found []store.Place
		if found, p.Next, p.More, err = v.search(ctx, q, rules.Page(q.Limit)); err != nil {
			return p, err
		}
		ids := make([]job.ID, len(found))
		for i, f := range found {
			ids[i] = f.ID
		}
		p.Jobs, err = v.Snapshots(ctx, ids, false)
		return p, err
	})
}

// search finds the jobs of a page, and where the next one begins.
func (v View) search(ctx context.Context, q store.JobQuery, limit int) (found []store.Place, next store.Place, more bool, err error) {
	l, err := newListing(q, v)
	if err != nil {
		return nil, next, false, err
	}
	source, err := v.candidates(ctx, l)
	if err != nil {
		return nil, next, false, err
	}
	w := store.NewWalk(q, limit)
	for after := (store.Place{At: q.AfterTime, ID: q.AfterID}); ; {
		l := l.from(after)
		text := l.walk(w.Step(), limit+1)
		if source != "" {
			text = l.named(source, limit+1)
		}
		if err := v.places(ctx, w, text, l.args); err != nil {
			return nil, next, false, err
		}
		var done bool
		if after, found, more, done = w.Next(); done {
			return found, after, more, nil
		}
	}
}

// places reads what one step of a walk found, and where its parts ended.
func (v View) places(ctx context.Context, w *store.Walk, text string, args []any) error {
	rows, err := v.DB.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var p store.Place
		var hit bool
		if err := rows.Scan(&p.ID, &p.At, &hit); err != nil {
			return err
		}
		if hit {
			w.Hit(p)
		} else {
			w.End(p)
		}
	}
	return rows.Err()
}

// candidates chooses an index that names few jobs for the filter; empty: none does.
func (v View) candidates(ctx context.Context, l *listing) (string, error) {
	if err := v.BoundPlans(ctx); err != nil {
		return "", err
	}
	for _, s := range l.sources {
		count := fmt.Sprintf("%s SELECT count(*) FROM (%s LIMIT %d) AS d", l.with(), s.text, store.SearchCandidates+1)
		var n int
		var err error
		if s.labels {
			n, err = v.CountByLabels(ctx, count, l.args)
		} else {
			err = v.DB.QueryRow(ctx, count, l.args...).Scan(&n)
		}
		if err != nil || n <= store.SearchCandidates {
			return s.text, err
		}
	}
	return "", nil
}

// source names the jobs of a filter by an index.
type source struct {
	text string
	// labels: by the index of labels.
	labels bool
}

// listing is a query of jobs as SQL. Ties in time go by id, in the same direction.
type listing struct {
	q                 store.JobQuery
	key, id, dir, cmp string
	args              []any
	// params are the arguments' names with their types.
	params  []string
	project string
	// indexed are the conditions on columns of the list's own index, rest all others.
	indexed, rest []string
	// states is the condition on the state, which parts meet.
	states []string
	// parts are the parts of the index that have the jobs in the list's order.
	parts          []part
	createdByState bool // see Reading
	// sources name the jobs of a filter by another index, the most selective one first.
	sources []source
}

// part is a part of an index: the rows s of table that meet cond.
type part struct{ table, cond string }

// notUnderWay leaves out jobs under way, which SQLite lists under their earlier state. There
// are few.
const notUnderWay = "s.job_id NOT IN (SELECT f.job_id FROM job_state AS f INDEXED BY job_state_fence WHERE f.state IN (2, 3))"

// partOf returns the part with the jobs in a state. SQLite reads a comment in place of the word
// before it.
func partOf(state job.State) part {
	if state.InFlight() {
		return part{"job_state AS s /* SQLite: s INDEXED BY job_state_fence */", fmt.Sprintf("s.state IN (2, 3) AND s.state = %d", state)}
	}
	cond := fmt.Sprintf("s.state /* SQLite: s.listed */ = %d", state)
	if state.Runnable() || state == job.Ambiguous { // jobs under way came from there
		cond += " AND true /* SQLite: " + notUnderWay + " */"
	}
	return part{"job_state AS s", cond}
}

func newListing(q store.JobQuery, v View) (*listing, error) {
	l := &listing{q: q, key: "s.schedule_time", id: "s.job_id", dir: "DESC", cmp: "<", createdByState: v.CreatedByState()}
	switch q.Order {
	case store.ByScheduledDesc, store.ByCreatedDesc:
	case store.ByScheduledAsc, store.ByCreatedAsc:
		l.dir, l.cmp = "ASC", ">"
	default:
		return nil, fmt.Errorf("%w: order %d", store.ErrIllegal, q.Order)
	}
	l.project = l.arg("text", q.Project)
	l.indexed = append(l.indexed, "s.project = "+l.project)
	for _, state := range q.CountedStates() {
		l.parts = append(l.parts, partOf(state))
	}
	if len(q.States) > 0 {
		l.q.States = q.CountedStates() // each once
		l.states = append(l.states, fmt.Sprintf("s.state = ANY (%s)", l.arg("smallint[]", numbers(q.States))))
	}
	created := "s.created_at"
	if !l.createdByState {
		created = "j.created_at"
		if q.Order.ByCreated() {
			// Elsewhere it would offer the planner a walk of all the project's jobs.
			l.id, l.indexed, l.parts = "j.id", append(l.indexed, "j.project = "+l.project), []part{{"job_state AS s", "true"}}
		}
	}
	if q.Order.ByCreated() {
		l.key = created
	}
	l.names()
	l.times(v.Now, created)
	l.kinds()
	return l, nil
}

// arg adds an argument and returns its name in the text.
func (l *listing) arg(kind string, v any) string {
	l.args, l.params = append(l.args, v), append(l.params, fmt.Sprintf("$%d::%s", len(l.args)+1, kind))
	return l.params[len(l.params)-1]
}

// with begins a statement with the types of all arguments, whichever it uses.
func (l *listing) with() string {
	return "WITH params AS (SELECT " + strings.Join(l.params, ", ") + ")"
}

func (l *listing) must(format string, args ...any) {
	l.rest = append(l.rest, fmt.Sprintf(format, args...))
}

func (l *listing) source(format string, args ...any) {
	l.sources = append(l.sources, source{text: fmt.Sprintf(format, args...)})
}

// names adds the conditions that name few jobs.
func (l *listing) names() {
	q := &l.q
	if len(q.Jobs) > 0 {
		ids := l.arg("uuid[]", q.Jobs)
		l.must("s.job_id = ANY (%s)", ids)
		l.source("SELECT s.job_id AS id FROM job_state AS s WHERE s.job_id = ANY (%s)", ids)
	}
	if q.ExternalID != "" {
		id := l.arg("text", q.ExternalID)
		l.must("s.state = 8 AND EXISTS (SELECT 1 FROM effects AS e WHERE e.job_id = s.job_id AND e.external_id = %s)", id)
		l.source("SELECT e.job_id AS id FROM effects AS e WHERE e.external_id <> '' AND e.external_id = %s", id)
	}
	if q.Recipient != "" {
		who := l.arg("text", q.Recipient)
		l.must("EXISTS (SELECT 1 FROM job_recipients AS r WHERE r.job_id = s.job_id AND r.recipient = %s)", who)
		l.source("SELECT r.job_id AS id FROM job_recipients AS r WHERE r.project = %s AND r.recipient = %s", l.project, who)
	}
	if q.KeyPrefix != "" {
		between := fmt.Sprintf(`j.idem_key COLLATE "C" >= %s AND j.idem_key COLLATE "C" < %s`, l.arg("text", q.KeyPrefix), l.arg("text", q.KeyPrefix+"\x7f"))
		l.must("%s", between)
		l.source("SELECT j.id FROM jobs AS j WHERE j.project = %s AND %s", l.project, between)
	}
	if q.KeyText != "" {
		l.must("strpos(j.idem_key, %s) > 0", l.arg("text", q.KeyText))
	}
	if !q.Schedule.IsZero() {
		id := l.arg("uuid", q.Schedule)
		l.must("j.schedule_id = %s", id)
		l.source("SELECT j.id FROM jobs AS j WHERE j.schedule_id = %s", id)
	}
	if len(q.Labels) > 0 {
		have := fmt.Sprintf("j.labels @> %s AND j.labels <> '{}'", l.arg("jsonb", store.EncodeLabels(q.Labels)))
		l.must("%s", have)
		l.source("SELECT j.id FROM jobs AS j WHERE j.project = %s AND %s", l.project, have)
		l.sources[len(l.sources)-1].labels = true
	}
}

// times adds the conditions on times. now is the present.
func (l *listing) times(now time.Time, created string) {
	q := &l.q
	if conds := l.span("s.schedule_time", q.ScheduleTimeFrom, q.ScheduleTimeBefore); conds != "" {
		l.source("%s", l.inStates(q.States, conds))
	}
	switch conds := l.span(created, q.CreatedFrom, q.CreatedBefore); {
	case conds == "":
	case created == "j.created_at":
		l.source("SELECT j.id FROM jobs AS j WHERE j.project = %s%s", l.project, conds)
	default:
		l.source("%s", l.inStates(q.States, conds))
	}
	if conds := l.span("s.ended_at", q.EndedFrom, q.EndedBefore); conds != "" {
		l.source("SELECT s.job_id AS id FROM job_state AS s WHERE s.project = %s AND s.state IN (8, 9, 10, 11) AND s.ended_at IS NOT NULL%s",
			l.project, conds)
	}
	if q.InState > 0 {
		l.must("s.state_since <= %s", l.arg("timestamptz", job.Micros(now.Add(-q.InState))))
	}
}

// span adds the conditions on one time: to the walk, if that goes by the same time. Otherwise
// it returns them, for an index of that time.
func (l *listing) span(column string, from, before time.Time) (and string) {
	to := &l.rest
	if column == l.key {
		to = &l.indexed
	}
	n := len(*to)
	if !from.IsZero() {
		*to = append(*to, column+" >= "+l.arg("timestamptz", job.Micros(from)))
	}
	if !before.IsZero() {
		*to = append(*to, column+" < "+l.arg("timestamptz", job.Micros(before)))
	}
	if column != l.key && len(*to) > n {
		and = " AND " + strings.Join((*to)[n:], " AND ")
	}
	return and
}

// inStates names the jobs of the project in some states, or in all of them, that meet more
// conditions. PostgreSQL cannot look up several states in one condition. SQLite can, and takes
// longer to prepare many.
func (l *listing) inStates(states []job.State, and string) string {
	if len(states) == 0 && l.createdByState {
		return fmt.Sprintf("SELECT s.job_id AS id FROM job_state AS s WHERE s.project = %s AND s.listed IN (1, 4, 5, 6, 7, 8, 9, 10, 11)%s", l.project, and)
	}
	if len(states) == 0 {
		states = job.States
	}
	texts := make([]string, len(states))
	for i, s := range states {
		p := partOf(s)
		texts[i] = fmt.Sprintf("SELECT s.job_id AS id FROM %s WHERE s.project = %s AND %s%s", p.table, l.project, p.cond, and)
	}
	return strings.Join(texts, " UNION ALL ")
}

// kinds adds the conditions that many jobs meet.
func (l *listing) kinds() {
	q := &l.q
	if len(q.ErrorKinds) > 0 {
		kinds := l.arg("smallint[]", numbers(q.ErrorKinds))
		l.must("s.error_kind = ANY (%s)", kinds)
		l.source("SELECT s.job_id AS id FROM job_state AS s WHERE s.project = %s AND s.error_kind > 0 AND s.error_kind = ANY (%s)", l.project, kinds)
	}
	if len(q.Connections) > 0 {
		l.must("s.connection_id = ANY (%s)", l.arg("uuid[]", q.Connections))
	}
	if len(q.Classes) > 0 {
		l.must("s.class = ANY (%s)", l.arg("smallint[]", numbers(q.Classes)))
	}
	if len(q.Destinations) > 0 {
		l.must("s.hold_key = ANY (%s)", l.arg("text[]", q.Destinations))
	}
	if len(q.States) > 0 && q.Order.ByCreated() && !l.createdByState {
		l.rest = append(l.rest, l.states...)
		if !q.OnlyLeftBehind {
			l.source("%s", l.inStates(q.States, ""))
		}
	}
	if q.OnlyLeftBehind {
		behind := fmt.Sprintf("s.error_kind = %d AND s.cancel_asked_at IS NULL", job.FailPredecessorEnded)
		l.must("(s.state <> %d OR %s)", job.Canceled, behind)
		text := fmt.Sprintf("SELECT s.job_id AS id FROM job_state AS s WHERE s.project = %s AND s.error_kind > 0 AND s.state = %d AND %s",
			l.project, job.Canceled, behind)
		if others := q.NotCanceled(); len(others) > 0 {
			text += " UNION ALL " + l.inStates(others, "")
		}
		l.source("%s", text)
	}
}

// from returns the listing of the jobs after a place.
func (l listing) from(p store.Place) listing {
	if !p.At.IsZero() {
		l.args, l.params = slices.Clip(l.args), slices.Clip(l.params)
		l.indexed = append(slices.Clip(l.indexed),
			fmt.Sprintf("(%s, %s) %s (%s, %s)", l.key, l.id, l.cmp, l.arg("timestamptz", job.Micros(p.At)), l.arg("uuid", p.ID)))
	}
	return l
}

// walk reads the first jobs: of each part of the index, which is in the list's order, it reads
// step jobs. Rows that are no hit are where a part ended.
func (l *listing) walk(step, limit int) string {
	rest := "true"
	if len(l.rest) > 0 {
		rest = "(" + strings.Join(l.rest, " AND ") + ") IS TRUE"
	} else {
		step = limit // every row that it reads is a hit
	}
	where := strings.Join(l.indexed, " AND ")
	with := []string{l.with()}
	var parts []string
	for i, p := range l.parts {
		with = append(with, fmt.Sprintf(`c%d AS MATERIALIZED (SELECT %[2]s AS id, %[3]s AS place, %[4]s AS hit
			FROM %[5]s%[6]s WHERE %[7]s AND %[8]s ORDER BY %[3]s %[9]s, %[2]s %[9]s LIMIT %[10]d)`,
			i, l.id, l.key, rest, p.table, joined(l.key, rest), where, p.cond, l.dir, step))
		parts = append(parts, fmt.Sprintf("SELECT * FROM (SELECT id, place, true FROM c%d WHERE hit LIMIT %d) AS h%[1]d", i, limit))
		if len(l.rest) > 0 {
			parts = append(parts, fmt.Sprintf("SELECT * FROM (SELECT id, place, false FROM c%d LIMIT 1 OFFSET %d) AS e%[1]d", i, step-1))
		}
	}
	return strings.Join(with, ", ") + " " + strings.Join(parts, " UNION ALL ")
}

// joined joins the table jobs as j, where a text needs it.
func joined(texts ...string) string {
	if strings.Contains(strings.Join(texts, " "), "j.") {
		return " JOIN jobs AS j ON j.id = s.job_id"
	}
	return ""
}

// named reads the first jobs among those that an index names.
func (l *listing) named(source string, limit int) string {
	return l.among(source, fmt.Sprintf("%s AS id, %s AS place, true AS hit", l.id, l.key),
		fmt.Sprintf("ORDER BY place %s, id %[1]s LIMIT %d", l.dir, limit))
}

// among selects from the jobs that an index names.
func (l *listing) among(source, columns, end string) string {
	where := strings.Join(slices.Concat([]string{"s.job_id = d.id"}, l.indexed, l.rest, l.states), " AND ")
	return fmt.Sprintf("%s, d AS MATERIALIZED (%s) SELECT %s FROM d CROSS JOIN job_state AS s%s WHERE %s %s",
		l.with(), source, columns, joined(l.key, where), where, end)
}

// numbers returns the list as numbers of the database's type.
func numbers[T ~uint8 | ~int](list []T) []int16 {
	out := make([]int16, len(list))
	for i, v := range list {
		out[i] = int16(v)
	}
	return out
}
