package check

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestReleaseFiles: each file that a release packs is in the repository. A checkout that has
// more hides that one is missing.
func TestReleaseFiles(t *testing.T) {
	text, err := os.ReadFile("../../.goreleaser.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var release struct {
		Archives []struct{ Files []packed }
		NFPMs    []struct {
			Contents []struct{ Src string }
			Scripts  map[string]string
		}
		Dockers []struct {
			Dockerfile string
			ExtraFiles []string `json:"extra_files"`
		} `json:"dockers_v2"`
	}
	if err := yaml.Unmarshal(text, &release); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, a := range release.Archives {
		for _, f := range a.Files {
			files = append(files, string(f))
		}
	}
	for _, p := range release.NFPMs {
		for _, c := range p.Contents {
			files = append(files, c.Src)
		}
		for _, s := range p.Scripts {
			files = append(files, s)
		}
	}
	for _, d := range release.Dockers {
		files = append(append(files, d.Dockerfile), d.ExtraFiles...)
	}
	if len(files) < 10 {
		t.Fatalf("only %v", files)
	}
	for _, file := range files {
		if out, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "ls-files", "--error-unmatch", file).CombinedOutput(); err != nil {
			t.Errorf("%s is not in the repository: %v\n%s", file, err, out)
		}
	}
}

// packed is a file or folder of an archive: its name, or where it is and where it goes.
type packed string

func (p *packed) UnmarshalJSON(text []byte) error {
	var name string
	if json.Unmarshal(text, &name) == nil {
		*p = packed(name)
		return nil
	}
	var moved struct{ Src string }
	err := json.Unmarshal(text, &moved)
	*p = packed(moved.Src)
	return err
}

// TestVariables: what the chart, the image, compose and the unit set are variables of `serve`.
func TestVariables(t *testing.T) {
	sources, err := filepath.Glob("../../cmd/fireonce/internal/node/*.go")
	if err != nil || len(sources) == 0 {
		t.Fatalf("%d files, %v", len(sources), err)
	}
	var known strings.Builder
	for _, file := range sources {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		known.Write(text)
	}
	for _, file := range []string{"helm/fireonce/templates/workload.yaml", "helm/fireonce/values.yaml", "docker/Dockerfile", "docker/compose.yaml", "systemd/fireonce.env"} {
		text, err := os.ReadFile("../" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.FieldsFunc(string(text), func(r rune) bool { return (r < 'A' || r > 'Z') && r != '_' }) {
			flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(word, "FIREONCE_")), "_", "-")
			if strings.HasPrefix(word, "FIREONCE_") && !strings.Contains(known.String(), `"`+word+`"`) && !strings.Contains(known.String(), `"`+flag+`"`) {
				t.Errorf("%s: serve does not know %s", file, word)
			}
		}
	}
}

// TestNoCoreDumps checks that the service's unit allows no core dump: it would have secrets in it.
func TestNoCoreDumps(t *testing.T) {
	unit, err := os.ReadFile("../systemd/fireonce.service")
	if err != nil || !strings.Contains(string(unit), "\nLimitCORE=0\n") {
		t.Errorf("fireonce.service has no LimitCORE=0, %v", err)
	}
}
