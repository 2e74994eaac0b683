package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// Rules of this file: a rule that no simulated platform asks for is dropped: of the engine,
// of looks at real platforms' lists, and of a platform's margins. The package's own tests,
// which the mutant names, must notice.

func TestTestedMutantsAreNoticed(t *testing.T) {
	compiles(t)
	mutants, err := catalogue(testedFiles, "tested")
	if err != nil {
		t.Fatal(err)
	}
	expected := make(map[string][]string) // by package
	for _, m := range mutants {
		if m.tests == "" {
			t.Fatalf("%s names no package", m.name)
		}
		expected[m.tests] = append(expected[m.tests], m.expect...)
	}
	source := switchedSource(t, mutants)
	packages := make(map[string]*compiled)
	for name, tests := range expected {
		packages[name] = compiledTests(t, source, name)
		output, err := runTests(t, packages[name].true, tests)
		if err != nil {
			t.Fatalf("the true code fails in %s: %v\n%s", name, err, output)
		}
		for _, test := range tests {
			if !strings.Contains(output, "--- PASS: "+test+" ") {
				t.Errorf("%s has no test %s", name, test)
			}
		}
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			output, err := runTests(t, chosen(t, packages[m.tests], m), m.expect)
			if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) {
				t.Fatalf("%s: it survives, or did not run: %v\n%s", m.rule, err, output)
			}
			for _, name := range m.expect {
				if !strings.Contains(output, "--- FAIL: "+name+" ") {
					t.Errorf("%s: %s does not fail:\n%s", m.rule, name, output)
				}
			}
		})
	}
}

// runTests runs some tests of a package, by their names.
func runTests(t *testing.T, p program, names []string) (output string, err error) {
	t.Helper()
	text, err := p.command(t.Context(), "-test.v", "-test.run", "^("+strings.Join(names, "|")+")$").CombinedOutput()
	return string(text), err
}
