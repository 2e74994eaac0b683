package main

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"testing"
)

// Rules of this file: a rule by which schedules fire is dropped. The simulator of schedules
// must notice, under one of the names that the mutant expects.

const (
	// scheduler is the package of the simulator of schedules.
	scheduler = "internal/schedule"
	// firedWorlds is how many worlds a mutant may survive. The true code has to pass them.
	firedWorlds = 60
)

func TestFiredMutantsAreNoticed(t *testing.T) {
	compiles(t)
	mutants, err := catalogue(firedFiles, "fired")
	if err != nil {
		t.Fatal(err)
	}
	tests := compiledTests(t, switchedSource(t, mutants), scheduler)
	if output, err := fired(t, tests.true); err != nil {
		t.Fatalf("the true code fails: %v\n%s", err, output)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			output, err := fired(t, chosen(t, tests, m))
			if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) {
				t.Fatalf("%s: it survives, or did not run: %v\n%s", m.rule, err, output)
			}
			found := violation.FindStringSubmatch(output)
			if found == nil || !slices.Contains(m.expect, found[1]) {
				t.Errorf("%s: expected %v:\n%s", m.rule, m.expect, output)
				return
			}
			t.Logf("%s at seed %s", found[1], found[2])
		})
	}
}

// fired runs the simulator of schedules.
func fired(t *testing.T, p program) (output string, err error) {
	t.Helper()
	text, err := p.command(t.Context(), "-test.run", "^TestSim$", fmt.Sprint("-sim.seeds=", firedWorlds)).CombinedOutput()
	return string(text), err
}
