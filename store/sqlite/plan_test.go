package sqlite

import (
	"database/sql"
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	comment  = regexp.MustCompile(`(?m)^--.*$`)
	named    = regexp.MustCompile(`@\w+`)
	embedded = regexp.MustCompile(`sqlc\.embed\((\w+)\)`)
)

// TestPlans makes sure that no query that runs all the time walks a table.
func TestPlans(t *testing.T) {
	path := testPath(t)
	must(t, Migrate(t.Context(), path))
	db := raw(t, path)
	text, err := os.ReadFile("queries.sql")
	must(t, err)
	// These run once per process or are bounded by their table.
	walks := map[string]bool{"LastTurn": true, "EndClaimLeases": true, "EndLookLeases": true}
	seen := 0
	for _, part := range strings.Split(string(text), "-- name: ")[1:] {
		head, query, _ := strings.Cut(part, "\n")
		name, _, _ := strings.Cut(head, " ")
		query, _, _ = strings.Cut(comment.ReplaceAllString(query, ""), ";")
		seen++
		query = embedded.ReplaceAllString(named.ReplaceAllString(query, "?"), "$1.*")
		args := make([]any, strings.Count(query, "?"))
		for i := range args {
			args[i] = 1
		}
		plan := planOf(t, db, name, query, args)
		for _, step := range plan {
			bad := strings.HasPrefix(step, "SCAN") && !strings.Contains(step, "USING") && step != "SCAN CONSTANT ROW"
			if strings.Contains(step, "TEMP B-TREE") && name != "ConnectionHolds" {
				bad = true
			}
			if bad && !walks[name] {
				t.Errorf("%s: %s", name, strings.Join(plan, " | "))
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d queries found", seen)
	}
}

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
