package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func all(t *testing.T) []mutant {
	t.Helper()
	mutants, err := catalogue(mutantFiles, "mutants")
	if err != nil {
		t.Fatal(err)
	}
	return mutants
}

func TestParse(t *testing.T) {
	m, err := parse("m", `rule: the rule
expect: I1 STUCK
# a remark: not a field

--- a/b.go
@@
 	kept

-	gone
+	come
@@
+	first
 	second
--- c.go
@@
-	x
`)
	if err != nil {
		t.Fatal(err)
	}
	if m.rule != "the rule" || !slices.Equal(m.expect, []string{"I1", "STUCK"}) {
		t.Errorf("got %+v", m)
	}
	want := []edit{
		{"a/b.go", "\tkept\n\n\tgone\n", "\tkept\n\n\tcome\n"},
		{"a/b.go", "\tsecond\n", "\tfirst\n\tsecond\n"},
		{"c.go", "\tx\n", ""},
	}
	if !slices.Equal(m.edits, want) {
		t.Errorf("got %q\nwant %q", m.edits, want)
	}
}

// A mutant of a rule of schedules is tried in their worlds alone, and the others as ever.
func TestWorldsOfAMutant(t *testing.T) {
	const body = "rule: r\nexpect: I1\n%s--- a\n@@\n-x\n"
	c := campaign{options: options{seeds: 1000}}
	for head, want := range map[string][]string{"": {safety, liveness}, "worlds: schedules\n": {schedules}, "worlds: breakers\n": {breakers}} {
		m, err := parse("m", fmt.Sprintf(body, head))
		if err != nil {
			t.Fatal(err)
		}
		if tests, seeds := c.tests(m); !slices.Equal(tests, want) || len(want) == 2 && seeds != 1000 || len(want) == 1 && seeds != c.recurring() {
			t.Errorf("%q: %v, %d worlds", head, tests, seeds)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const head = "rule: r\nexpect: I1\n"
	for name, text := range map[string]string{
		"no file":             head,
		"no rule":             "expect: I1\n--- a\n@@\n-x\n",
		"no expectation":      "rule: r\n--- a\n@@\n-x\n",
		"an unknown field":    head + "seeds: 4\n--- a\n@@\n-x\n",
		"unknown worlds":      head + "worlds: all\n--- a\n@@\n-x\n",
		"no hunk":             head + "--- a\n",
		"no mark":             head + "--- a\n-x\n",
		"an unknown line":     head + "--- a\n@@\n-x\nx\n",
		"no lines to find":    head + "--- a\n@@\n+x\n",
		"a hunk of no change": head + "--- a\n@@\n x\n",
	} {
		t.Run(name, func(t *testing.T) {
			if m, err := parse("m", text); err == nil {
				t.Errorf("got %+v", m)
			}
		})
	}
}

func TestCatalogueIsNotEmpty(t *testing.T) {
	if _, err := catalogue(fstest.MapFS{}, "mutants"); err == nil {
		t.Error("an empty catalogue would catch everything")
	}
}

// A check that no mutant breaks may never have worked.
func TestEveryInvariantHasAMutant(t *testing.T) {
	var expected []string
	for _, m := range all(t) {
		expected = append(expected, m.expect...)
	}
	for n := 1; n <= 10; n++ {
		if name := fmt.Sprint("I", n); !slices.Contains(expected, name) {
			t.Errorf("no mutant of %s", name)
		}
	}
	for _, name := range []string{
		"ONE_JOB", "NO_TIME", "COUNTS", "STALLED", "STUCK", "PAUSED", "OVERLAP", "TRIGGER", "EARLY", "COOL_DOWN", "PRESENT", "EARLIER", "DOUBT", "WINDOW",
	} {
		if !slices.ContainsFunc(all(t), func(m mutant) bool { return m.schedules && slices.Contains(m.expect, name) }) {
			t.Errorf("no mutant of %s in worlds with schedules", name)
		}
	}
}

func TestRulesAreSentences(t *testing.T) {
	for _, m := range all(t) {
		if !strings.HasSuffix(m.rule, ".") {
			t.Errorf("%s: %q", m.name, m.rule)
		}
	}
}
