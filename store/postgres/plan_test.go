//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var (
	generated = regexp.MustCompile("(?s)const \\w+ = `-- name: (\\w+) :\\w+\n(.*?)`")
	walk      = regexp.MustCompile(`Seq Scan on (\w+)`)
	lookup    = regexp.MustCompile(`_pkey on .*\n\s+Index Cond: `)
	byState   = regexp.MustCompile(`using job_state_by_state on .*\n\s+(.*)`)
)

// TestPlans checks that every query has an index for its conditions: with expensive
// sequential scans, no plan has one.
func TestPlans(t *testing.T) {
	f := newFleetApart(t, 1)
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for name, value := range sessionSettings {
		if _, err := conn.Exec(t.Context(), fmt.Sprintf("SET %s = '%s'", name, value)); err != nil {
			t.Fatal(err)
		}
	}
	queries := generatedQueries(t)
	maps.Copy(queries, listStatements(t))
	for name, q := range connectionLists() {
		log := &statementLog{}
		if _, err := log.roles().ListConnections(t.Context(), q); !errors.Is(err, errRecorded) {
			t.Fatal(err)
		}
		queries["list of connections "+name] = log.text
		plan := planOf(t, conn, name, queries["list of connections "+name])
		if strings.Contains(plan, "Sort") {
			t.Errorf("%s sorts:\n%s", name, plan)
		}
	}
	for name, text := range queries {
		if strings.HasPrefix(text, "LOCK ") {
			continue // has no plan
		}
		settings := "RESET enable_bitmapscan"
		if strings.HasPrefix(name, "list ") && !strings.HasPrefix(name, "list of ") && !strings.HasPrefix(name, "list labels, index") {
			settings = "SET enable_bitmapscan = off"
		}
		if _, err := conn.Exec(t.Context(), settings); err != nil {
			t.Fatal(err)
		}
		plan := planOf(t, conn, name, text)
		for _, m := range walk.FindAllStringSubmatch(plan, -1) {
			// Meta has one row, servers one for each server, and clock_doubts one for each that
			// doubts. Stops are bounded, and only a change of one counts them. A step of the clock happens when a machine's time was wrong.
			if m[1] != "meta" && m[1] != "servers" && m[1] != "clock_doubts" && m[1] != "stops" && !strings.HasPrefix(name, "Step") && !strings.HasSuffix(name, "KeyAges") {
				t.Errorf("%s walks %s:\n%s", name, m[1], plan)
			}
		}
		// The index begins with the state: without it all of a project's entries are read.
		for _, m := range byState.FindAllStringSubmatch(plan, -1) {
			if !strings.HasPrefix(name, "list ") {
				break
			}
			if !strings.Contains(m[1], "Index Cond: ") || !strings.Contains(m[1], "state = ") {
				t.Errorf("%s reads all states for %s:\n%s", name, m[1], plan)
			}
		}
		if strings.HasPrefix(name, "list ") && name != "list jobs, index 0" && !strings.Contains(plan, "Index Cond") {
			t.Errorf("%s has no index for its filter:\n%s", name, plan)
		}
	}
}

// generatedQueries are the texts of sqlc's queries by their names.
func generatedQueries(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../gen/pgdb/queries*.sql.go")
	if err != nil || len(files) < 4 {
		t.Fatalf("generated queries: %v, %v", files, err)
	}
	shared, err := filepath.Glob("../../gen/shareddb/*.go")
	if err != nil || len(shared) < 2 {
		t.Fatalf("shared queries: %v, %v", shared, err)
	}
	files = append(files, shared...)
	queries := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range generated.FindAllStringSubmatch(string(text), -1) {
			queries[m[1]] = m[2]
		}
	}
	if len(queries) < 60 {
		t.Fatalf("only %d queries found", len(queries))
	}
	return queries
}

// lists are lists by each filter and in each order.
func lists() map[string]store.JobQuery {
	id := []job.ID{{1}}
	at := time.Unix(1, 0)
	return map[string]store.JobQuery{
		"all":         {Project: "p"},
		"earliest":    {Project: "p", Order: store.ByScheduledAsc, AfterTime: at},
		"newest":      {Project: "p", Order: store.ByCreatedDesc, AfterTime: at},
		"oldest":      {Project: "p", Order: store.ByCreatedAsc, AfterTime: at},
		"states":      {Project: "p", States: []job.State{job.Failed, job.Ambiguous}},
		"jobs":        {Project: "p", Jobs: id},
		"connections": {Project: "p", Connections: id},
		"schedule":    {Project: "p", Schedule: id[0]},
		"times":       {Project: "p", ScheduleTimeFrom: at, ScheduleTimeBefore: at},
		"scheduled":   {Project: "p", ScheduleTimeFrom: at, ScheduleTimeBefore: at, Order: store.ByCreatedDesc},
		"labels":      {Project: "p", Labels: map[string]string{"a": "b"}},
		"key":         {Project: "p", KeyPrefix: "a", KeyText: "b"},
		"recipient":   {Project: "p", Recipient: "a"},
		"external id": {Project: "p", ExternalID: "a"},
		"errors":      {Project: "p", ErrorKinds: []job.FailureKind{job.FailAuth}, Classes: []job.Class{job.Keyed}},
		"created":     {Project: "p", CreatedFrom: at, CreatedBefore: at},
		"ended":       {Project: "p", EndedFrom: at, EndedBefore: at, InState: time.Hour},
	}
}

func connectionLists() map[string]store.ConnectionQuery {
	labels, after := map[string]string{"a": "b"}, job.ID{1}
	return map[string]store.ConnectionQuery{
		"states":    {States: []store.ConnectionState{store.ConnectionAuthHold, store.ConnectionRateLimited}, Text: "x", After: after},
		"connector": {Connectors: []string{"x"}, Deleted: true},
		"account":   {AccountIdentity: "a", Labels: labels, ExpiresBefore: time.Unix(1, 0), After: after},
		"labels":    {Labels: labels, Connectors: []string{"x"}, After: after},
	}
}

func planOf(t *testing.T, conn *pgx.Conn, name, text string) string {
	t.Helper()
	if _, err := conn.Exec(t.Context(), "PREPARE planned AS "+text); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var params int
	err := conn.QueryRow(t.Context(), "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'planned'").Scan(&params)
	if err != nil {
		t.Fatal(err)
	}
	execute := "EXPLAIN EXECUTE planned"
	if params > 0 {
		execute += fmt.Sprintf("(%s)", strings.TrimSuffix(strings.Repeat("NULL, ", params), ", "))
	}
	rows, err := conn.Query(t.Context(), execute, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if _, err := conn.Exec(t.Context(), "DEALLOCATE planned"); err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// TestPlansOfEmptyTables: a plan that was made when the tables were known as empty, or nearly
// so, stays until they are analyzed again. It must not read all rows that were added since.
func TestPlansOfEmptyTables(t *testing.T) {
	f := newFleetApart(t, 1)
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	queries := generatedQueries(t)
	plans := func(when string, statements ...string) {
		for _, text := range statements {
			if _, err := conn.Exec(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		for name, index := range map[string]string{
			"LockDue": "job_state_runnable", "Served": "job_state_runnable",
			"DueLooks": "job_state_look", "LockEnded": "job_state_ended", "WindowOverIDs": "job_state_deadline", "OverdueIDs": "job_state_fence",
			"PreviewUnderWay": "job_state_(fence|in_flight)", "PreviewWindows": "job_state_deadline", "PreviewRepeats": "job_state_(look|unknown)",
		} {
			if plan := planOf(t, conn, name, queries[name]); !regexp.MustCompile(index).MatchString(plan) {
				t.Errorf("%s: %s does not use %s:\n%s", when, name, index, plan)
			}
		}
		for name, text := range queries {
			if !strings.HasPrefix(name, "Preview") {
				continue
			}
			plan := planOf(t, conn, name, text)
			if strings.Count(plan, "_pkey on ") != len(lookup.FindAllString(plan, -1)) {
				t.Errorf("%s: %s walks a table by its key:\n%s", when, name, plan)
			}
		}
	}
	for name, value := range sessionSettings {
		if _, err := conn.Exec(t.Context(), fmt.Sprintf("SET %s = '%s'", name, value)); err != nil {
			t.Fatal(err)
		}
	}
	plans("new")
	plans("known as empty", "VACUUM ANALYZE")
	f.submit(3, f.connect())
	claimed, err := f.stores[0].Claim(t.Context(), store.ClaimParams{Worker: "w", Lease: time.Hour, Limit: 3})
	if err != nil || len(claimed) != 3 {
		t.Fatal(claimed, err)
	}
	plans("nothing runnable")
	plans("known as nothing runnable", "VACUUM ANALYZE")
}
