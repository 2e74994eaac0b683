package main

import (
	"embed"
	"errors"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Rules of this file: the conformance suite, which each store passes, must notice when a
// rule is dropped.
//   - A rule that each store keeps for itself is dropped from the reference store.
//   - A rule of store/rules is dropped for all of them, and the suite runs over SQLite, which
//     users run. The simulator, which drops most of them too, runs over the reference store
//     alone.
//   - A mutant names the cases that notice it, and only those run: each takes milliseconds.

//go:embed stored/*.diff
var storedFiles embed.FS

const (
	referenceStore = "store/memory"
	usersStore     = "store/sqlite"
)

// noticed is a mutant with the cases of the conformance suite that must notice it, each as
// its test, its group and its name.
type noticed struct {
	mutant
	store string
	cases []string
}

// storedMutants are all mutants that the conformance suite must notice.
func storedMutants(t *testing.T) []noticed {
	t.Helper()
	stored, err := catalogue(storedFiles, "stored")
	if err != nil {
		t.Fatal(err)
	}
	var out []noticed
	for _, m := range stored {
		out = append(out, newNoticed(m, m.expect))
	}
	for _, m := range all(t) {
		if len(m.conformance) > 0 {
			out = append(out, newNoticed(m, m.conformance))
		}
	}
	return out
}

// newNoticed completes the names of cases: one without a group is of the clock's suite.
func newNoticed(m mutant, cases []string) noticed {
	n := noticed{mutant: m, store: referenceStore}
	if m.breaksRules() {
		n.store = usersStore
	}
	for _, name := range cases {
		suite := "TestClockConformance/"
		if strings.Contains(name, "/") {
			suite = "TestConformance/"
		}
		n.cases = append(n.cases, suite+name)
	}
	return n
}

// A rule that every engine asks for is proven to matter to one that users run.
func TestEveryMutantOfARuleNamesItsCases(t *testing.T) {
	for _, m := range all(t) {
		if m.breaksRules() != (len(m.conformance) > 0) {
			t.Errorf("%s: it edits store/rules: %v; cases: %v", m.name, m.breaksRules(), m.conformance)
		}
	}
}

func TestStoredMutantsAreNoticed(t *testing.T) {
	compiles(t)
	noticed := storedMutants(t)
	mutants := make([]mutant, 0, len(noticed))
	cases := make(map[string][]string) // by store
	for _, m := range noticed {
		mutants = append(mutants, m.mutant)
		cases[m.store] = append(cases[m.store], m.cases...)
	}
	source := switchedSource(t, mutants)
	stores := make(map[string]*compiled)
	for store, names := range cases {
		stores[store] = compiledTests(t, source, store)
		output, err := conformance(t, stores[store].true, names)
		if err != nil {
			t.Fatalf("the true code fails in %s: %v\n%s", store, err, output)
		}
		for _, name := range names {
			if !strings.Contains(output, "--- PASS: "+name+" ") {
				t.Errorf("%s has no case %s", store, name)
			}
		}
	}
	for _, m := range noticed {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			output, err := conformance(t, chosen(t, stores[m.store], m.mutant), m.cases)
			if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) {
				t.Fatalf("%s: it survives, or did not run: %v\n%s", m.rule, err, output)
			}
			for _, name := range m.cases {
				if !strings.Contains(output, "--- FAIL: "+name+" ") {
					t.Errorf("%s: %s does not fail:\n%s", m.rule, name, output)
				}
			}
		})
	}
}

// conformance runs the cases over a store.
func conformance(t *testing.T, p program, cases []string) (output string, err error) {
	t.Helper()
	text, err := p.command(t.Context(), "-test.v", "-test.run", onlyThese(cases)).CombinedOutput()
	return string(text), err
}

// onlyThese is a pattern for these cases: level by level, any name that one of them has
// there. Others that it lets through do no harm.
func onlyThese(cases []string) string {
	var levels [3][]string
	for _, name := range cases {
		for i, part := range strings.SplitN(name, "/", len(levels)) {
			levels[i] = append(levels[i], regexp.QuoteMeta(part))
		}
	}
	var out []string
	for _, names := range levels {
		if len(names) > 0 {
			slices.Sort(names)
			out = append(out, "^("+strings.Join(slices.Compact(names), "|")+")$")
		}
	}
	return strings.Join(out, "/")
}
