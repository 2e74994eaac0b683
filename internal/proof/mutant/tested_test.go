package main

import (
	"embed"
	"errors"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// Rules of this file: a rule that no simulated platform asks for is dropped: of the engine,
// of looks at real platforms' lists, and of a platform's margins. The package's own tests,
// which the mutant names, must notice.

//go:embed tested/*.diff
var testedFiles embed.FS

func TestTestedMutantsAreNoticed(t *testing.T) {
	if testing.Short() || underRace {
		t.Skip("it compiles a package once for each mutant")
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
			t.Parallel()
			if m.tests == "" {
				t.Fatal("it names no package")
			}
			overlay, err := m.writeOverlay(root, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			binary := filepath.Join(t.TempDir(), path.Base(m.tests)+".test")
			build := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", binary, "./"+m.tests)
			build.Dir = root
			if text, err := build.CombinedOutput(); err != nil {
				t.Fatalf("build: %v\n%s", err, text)
			}
			run := exec.CommandContext(t.Context(), binary, "-test.run", "^("+strings.Join(m.expect, "|")+")$")
			run.Dir = filepath.Join(root, filepath.FromSlash(m.tests))
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
