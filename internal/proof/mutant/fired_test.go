package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Rules of this file: a rule by which schedules fire is dropped. The simulator of schedules
// must notice, under one of the names that the mutant expects.

// firedWorlds is how many worlds a mutant may survive. The true code has to pass the first
// of them in the package's own tests.
const firedWorlds = 60

func TestFiredMutantsAreNoticed(t *testing.T) {
	if testing.Short() || underRace {
		t.Skip("it compiles the stores once for each mutant")
	}
	mutants, err := catalogue(firedFiles, "fired")
	if err != nil {
		t.Fatal(err)
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			output, err := fired(t, root, m)
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

// fired runs the simulator of schedules with a rule dropped.
func fired(t *testing.T, root string, m mutant) (output string, err error) {
	t.Helper()
	dir := t.TempDir()
	overlay, err := m.writeOverlay(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "schedule.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", binary, "./internal/schedule")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	run := exec.CommandContext(t.Context(), binary, "-test.run", "^TestSim$", fmt.Sprint("-sim.seeds=", firedWorlds))
	var text strings.Builder
	run.Stdout, run.Stderr = &text, &text
	err = run.Run()
	return text.String(), err
}
