package commitproxy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestKinds: the statements that tell the kinds are the store's, and none that
// writes attempts is without one.
func TestKinds(t *testing.T) {
	var files []string
	for _, folder := range []string{"postgres", "sqlstore"} {
		found, err := filepath.Glob("../../../../store/" + folder + "/queries*.sql")
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(found), err)
		}
		files = append(files, found...)
	}
	statements := map[string]string{}
	name := regexp.MustCompile(`^-- name: (\w+) `)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var at string
		for line := range strings.Lines(string(text)) {
			if m := name.FindStringSubmatch(line); m != nil {
				at = m[1]
			}
			statements[at] += line
		}
	}
	var known []string
	for _, k := range kinds {
		for _, s := range k.statements {
			if statements[s] == "" {
				t.Errorf("%s: the store has no statement %s", k.kind, s)
			}
			known = append(known, s)
		}
	}
	for s, text := range statements {
		for _, writes := range []string{
			"INSERT INTO attempts", "INSERT INTO job_state", "UPDATE job_state AS s SET\n        state = ", "UPDATE connections SET",
		} {
			if strings.Contains(text, writes) && !slices.Contains(known, s) {
				t.Errorf("%s writes (%q), and no kind has it", s, writes)
			}
		}
	}
}
