package main

import (
	"embed"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Rules of this file: a rule that each store keeps for itself is dropped from the reference
// store. The conformance suite, which each store passes, must notice: the simulator, which
// drops some of them too, runs over the reference store alone.

//go:embed stored/*.diff
var storedFiles embed.FS

func TestStoredMutantsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the store once for each mutant")
	}
	mutants, err := catalogue(storedFiles, "stored")
	if err != nil {
		t.Fatal(err)
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if output, err := conformance(t, root, dir, mutant{name: "none"}); err != nil {
		t.Fatalf("the true code fails: %v\n%s", err, output)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			output, err := conformance(t, root, t.TempDir(), m)
			if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) {
				t.Fatalf("%s: it survives, or did not run: %v\n%s", m.rule, err, output)
			}
			for _, name := range m.expect {
				if !strings.Contains(output, "--- FAIL: "+suiteOf(m)+"/"+name+" ") {
					t.Errorf("%s: %s does not fail:\n%s", m.rule, name, output)
				}
			}
		})
	}
}

// suiteOf is the test that must notice a mutant: that of the clock, unless expect names a
// group of the other one.
func suiteOf(m mutant) string {
	if len(m.expect) > 0 && strings.Contains(m.expect[0], "/") {
		return "TestConformance"
	}
	return "TestClockConformance"
}

// conformance runs a part of the suite over the reference store with a rule dropped.
func conformance(t *testing.T, root, dir string, m mutant) (output string, err error) {
	t.Helper()
	overlay, err := m.writeOverlay(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "store.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", binary, "./store/memory")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	pattern := "^TestClockConformance$"
	if suite := suiteOf(m); suite == "TestConformance" {
		group, _, _ := strings.Cut(m.expect[0], "/")
		pattern = "^TestConformance$/^" + group + "$"
	}
	run := exec.CommandContext(t.Context(), binary, "-test.run", pattern)
	var text strings.Builder
	run.Stdout, run.Stderr = &text, &text
	err = run.Run()
	return text.String(), err
}
