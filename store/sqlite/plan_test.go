package sqlite

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

var (
	comment   = regexp.MustCompile(`(?m)^--.*$`)
	queryName = regexp.MustCompile(`@\w+|sqlc\.n?arg\([\w']+\)`)
	embedded  = regexp.MustCompile(`sqlc\.embed\((\w+)\)`)
)

// TestPlans checks that no query that runs all the time walks a table.
func TestPlans(t *testing.T) {
	path := testPath(t)
	must(t, Migrate(t.Context(), path))
	db := raw(t, path)
	queries := make(map[string]string)
	for _, pattern := range []string{"queries*.sql", "../sqlstore/queries*.sql"} {
		files, err := filepath.Glob(pattern)
		must(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			must(t, err)
			for _, part := range strings.Split(string(text), "-- name: ")[1:] {
				head, query, _ := strings.Cut(part, "\n")
				name, _, _ := strings.Cut(head, " ")
				query, _, _ = strings.Cut(comment.ReplaceAllString(query, ""), ";")
				queries[name] = spelled(embedded.ReplaceAllString(queryName.ReplaceAllString(query, "$$1"), "$1.*"))
			}
		}
	}
	// These run once per process or by an operator, or are bounded by their table.
	walks := map[string]bool{
		"LastTurn": true, "EndClaimLeases": true, "EndLookLeases": true, "RaiseFences": true, "Servers": true,
		"PruneStops": true, "CountStops": true, "SetOpenStops": true, "RemoveStops": true,
		"ConnectionCounts": true, // its own list of connectors
	}
	// A connection has few holds and a job few looks, and few jobs and logins are under way; of
	// the others DoubtfulIDs sorts one page. A connection has few notices under way.
	// Schedules are locked when claims begin again. Vitals sort a bounded number of rows.
	sorts := map[string]bool{"DoubtfulIDs": true, "OpenNotices": true, "Connections": true, "Observations": true, "LoginKeyUse": true, "Workers": true, "WorkByWorker": true, "LockSchedules": true, "PausedSchedules": true, "ExpiringCredentials": true}
	for name, query := range queries {
		args := slices.Repeat([]any{1}, strings.Count(query, "?")+1)
		plan := planOf(t, db, name, query, args)
		for _, step := range plan {
			// A step of the clock happens when a machine's time was wrong.
			rare := walks[name] || strings.HasPrefix(name, "Step") || name == "ForgetKeyAges" || name == "ForgetEarlierKeyAges"
			if walksTable(step, sorts[name]) && !rare && !readsSubquery(step, plan) {
				t.Errorf("%s: %s", name, strings.Join(plan, " | "))
			}
		}
	}
	// The other order of its joins reads the whole ledger of each schedule.
	names := planOf(t, db, "KnownFirings", queries["KnownFirings"], []any{"[]", "[]"})
	if !slices.ContainsFunc(names, func(step string) bool { return strings.Contains(step, "(schedule_id=? AND name=?)") }) {
		t.Errorf("KnownFirings: %s", strings.Join(names, " | "))
	}
	if len(queries) < 50 {
		t.Errorf("only %d queries found", len(queries))
	}
}

// walksTable reports whether a step of a plan reads a whole table, or sorts where
// an index should give the order.
func walksTable(step string, maySort bool) bool {
	scan := strings.HasPrefix(step, "SCAN") && !strings.Contains(step, "USING") && step != "SCAN CONSTANT ROW" &&
		!strings.Contains(step, "VIRTUAL TABLE") // a parameter's or a column's JSON
	return scan || strings.Contains(step, "TEMP B-TREE") && !maySort
}

// readsSubquery reports whether a step goes over the rows of a subquery, whose own steps
// are in the plan.
func readsSubquery(step string, plan []string) bool {
	name, scan := strings.CutPrefix(step, "SCAN ")
	return scan && (slices.Contains(plan, "CO-ROUTINE "+name) || slices.Contains(plan, "MATERIALIZE "+name))
}

// TestListPlans makes sure that a page of a list reads an index in its order,
// and with states the index of each state.
func TestListPlans(t *testing.T) {
	path := testPath(t)
	must(t, Migrate(t.Context(), path))
	db := raw(t, path)
	for order, index := range map[store.Order]string{
		store.ByScheduledDesc: "job_state_by_time",
		store.ByScheduledAsc:  "job_state_by_time",
		store.ByCreatedDesc:   "job_state_by_creation",
		store.ByCreatedAsc:    "job_state_by_creation",
	} {
		for _, states := range [][]job.State{nil, {job.NeedsResolution}, {job.Succeeded, job.Sending}, job.States} {
			for _, after := range []time.Time{{}, testStart} {
				for _, from := range []time.Time{{}, testStart} {
					if order.ByCreated() && !from.IsZero() {
						continue // a range of the other time: the planner may take either index
					}
					q := store.JobQuery{
						Project: testProject, Order: order, States: states, AfterTime: after, ScheduleTimeFrom: from,
						Labels: map[string]string{"a": "b"}, Connections: []job.ID{randomID()},
					}
					text, args := listStatement(t, q)
					plan := strings.Join(planOf(t, db, "list", text, args), " | ")
					listed := len(states)
					if listed == 0 {
						listed = len(job.States)
					}
					moving := 0 // states whose few jobs are found by their fences
					for _, s := range states {
						if s.InFlight() {
							moving++
						}
					}
					if len(states) == 0 {
						moving = 2
					}
					parts := listed - moving
					if got := strings.Count(plan, "INDEX "+index+" "); got != parts {
						t.Errorf("order %d, %d states: %d reads of %s: %s", order, len(states), got, index, plan)
					}
					// The few are sorted.
					if got := strings.Count(plan, "TEMP B-TREE"); got > moving {
						t.Errorf("order %d, %d states sorts: %s", order, len(states), plan)
					}
				}
			}
		}
	}
}

// TestConnectionListPlans makes sure that a page walks one index in the list's order.
func TestConnectionListPlans(t *testing.T) {
	path := testPath(t)
	must(t, Migrate(t.Context(), path))
	db := raw(t, path)
	labels := map[string]string{"a": "b"}
	for index, q := range map[string]store.ConnectionQuery{
		"connections_list":      {States: []store.ConnectionState{store.ConnectionAuthHold, store.ConnectionRateLimited}, Text: "x"},
		"connections_connector": {Connectors: []string{"x"}, Deleted: true},
		"connections_account":   {AccountIdentity: "a", Labels: labels, ExpiresBefore: testStart},
		"SEARCH w USING":        {Labels: labels, Connectors: []string{"x"}},
	} {
		for _, after := range []job.ID{{}, randomID()} {
			q.After = after
			for _, query := range listQueries(t, q) {
				plan := strings.Join(planOf(t, db, index, spelled(query.text), arguments(query.args)), " | ")
				if !strings.Contains(plan, index) || strings.Contains(plan, "TEMP B-TREE") {
					t.Errorf("%s, after %v: %s", index, after, plan)
				}
			}
		}
	}
}

// listQueries returns the queries of a page of connections, with their arguments.
func listQueries(t *testing.T, q store.ConnectionQuery) []recorded {
	t.Helper()
	var r queryRecorder
	roles := sqlstore.New(sqlstore.Engine{Read: func(ctx context.Context, _ string, fn func(context.Context, sqlstore.View) error) error {
		return fn(ctx, sqlstore.View{Q: shareddb.New(&r), DB: &r, Now: time.Unix(1, 0), Reading: sharedView{}})
	}})
	if _, err := roles.ListConnections(t.Context(), q); err != nil || len(r.queries) != 2 {
		t.Fatalf("%d queries (%v), want 2", len(r.queries), err)
	}
	return r.queries
}

type recorded struct {
	text string
	args []any
}

// queryRecorder records queries, which find nothing.
type queryRecorder struct {
	shareddb.DBTX
	queries []recorded
}

func (r *queryRecorder) Query(_ context.Context, text string, args ...any) (pgx.Rows, error) {
	r.queries = append(r.queries, recorded{text, args})
	return nothing{}, nil
}

func (r *queryRecorder) QueryRow(context.Context, string, ...any) pgx.Row { return nothing{} }

type nothing struct{ pgx.Rows }

func (nothing) Scan(...any) error { return nil }
func (nothing) Next() bool        { return false }
func (nothing) Err() error        { return nil }
func (nothing) Close()            {}

func planOf(t *testing.T, db *sql.DB, name, query string, args []any) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		must(t, rows.Scan(&id, &parent, &unused, &detail))
		plan = append(plan, detail)
	}
	must(t, rows.Err())
	return plan
}
