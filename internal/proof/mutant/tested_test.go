package main

import (
	"embed"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Rules of this file: a rule about what no simulated platform has is dropped from the
// engine. The engine's own tests, which expect names, must notice.

//go:embed tested/*.diff
var testedFiles embed.FS

// enginePackage has those tests.
const enginePackage = "internal/engine"

func TestTestedMutantsAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles the engine once for each mutant")
	}
	mutants, err := catalogue(testedFiles, "tested")
	if err != nil {
		t.Fatal(err)
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			overlay, err := m.writeOverlay(root, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			binary := filepath.Join(t.TempDir(), "engine.test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", binary, "./"+enginePackage)
			build.Dir = root
			if text, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, text)
			}
			run := exec.CommandContext(t.Context(), binary, "-test.run", "^("+strings.Join(m.expect, "|")+")$")
			run.Dir = filepath.Join(root, filepath.FromSlash(enginePackage))
			output, err := run.CombinedOutput()
			if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) {
				t.Fatalf("%s: it survives, or did not run: %v\n%s", m.rule, err, output)
			}
			for _, name := range m.expect {
				if !strings.Contains(string(output), "--- FAIL: "+name+" ") {
					t.Errorf("%s: %s does not fail:\n%s", m.rule, name, output)
				}
			}
		})
	}
}
