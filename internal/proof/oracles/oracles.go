// Package oracles asks platforms' own code what it says of texts: their published packages run in
// Node (package.json). The connectors' text rules are compared with it over texts of people in many
// scripts, and their tables are written from it.
package oracles

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Skip is the environment variable that leaves out what needs Node.
const Skip = "FIREONCE_SKIP_CLIENTS"

// Conformance is the environment variable that names a folder of texts of others, *.json: an array
// of texts each. They are compared too.
const Conformance = "FIREONCE_CONFORMANCE"

// Need skips a test without the packages in a short run, and fails it in another.
func Need(t *testing.T) {
	t.Helper()
	if testing.Short() || os.Getenv(Skip) == "1" {
		t.Skip("needs Node and the packages of internal/proof/oracles")
	}
	if _, err := os.Stat(filepath.Join(source(), "node_modules", ".package-lock.json")); err != nil {
		t.Fatalf("the packages of internal/proof/oracles are missing: run .ci/need-oracles, or set %s=1", Skip)
	}
}

// source is this package's folder.
func source() string {
	_, self, _, _ := runtime.Caller(0)
	return filepath.Dir(self)
}

// Ask returns what a platform's code answers to each text, in their order. of is one of those in
// answer.mjs.
func Ask[A any](t *testing.T, of string, texts []string) []A {
	t.Helper()
	var in bytes.Buffer
	encoder := json.NewEncoder(&in)
	for _, text := range texts {
		if err := encoder.Encode(map[string]string{"of": of, "text": text}); err != nil {
			t.Fatal(err)
		}
	}
	var out []A
	lines := bufio.NewScanner(bytes.NewReader(run(t, &in, "answer.mjs")))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var failed struct{ Error string }
		if err := json.Unmarshal(lines.Bytes(), &failed); err != nil || failed.Error != "" {
			t.Fatalf("%q: %s, %v", texts[len(out)], failed.Error, err)
		}
		var answer A
		if err := json.Unmarshal(lines.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		out = append(out, answer)
	}
	if len(out) != len(texts) {
		t.Fatalf("%d answers to %d texts", len(out), len(texts))
	}
	return out
}

// run runs a script of this folder.
func run(t *testing.T, in *bytes.Buffer, script string, args ...string) []byte {
	t.Helper()
	var out, failed bytes.Buffer
	c := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join(source(), script)}, args...)...) //nolint:gosec // our own script
	c.Stdout, c.Stderr = &out, &failed
	if in != nil {
		c.Stdin = in
	}
	if err := c.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, failed.Bytes())
	}
	return out.Bytes()
}

// Tables reports whether a generated file is what tables.mjs writes: nil, or what to do.
func Tables(t *testing.T, of, file string) error {
	t.Helper()
	want, err := format.Source(run(t, nil, "tables.mjs", of))
	if err != nil {
		return err
	}
	got, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if bytes.Equal(got, want) {
		return nil
	}
	if a, b := caseData(got), caseData(want); a != b {
		t.Logf("%s was written with %q, and this Node has %q: not compared", file, a, b)
		return nil
	}
	return errors.New(file + " is not what the packages say: run make gen-texts")
}

// caseData is the line that names the Unicode version by which letters were folded.
func caseData(text []byte) string {
	for line := range strings.Lines(string(text)) {
		if _, version, ok := strings.Cut(line, "Case pairs: "); ok {
			return strings.TrimSpace(version)
		}
	}
	return ""
}

// Report writes what was compared.
func Report(t *testing.T, what string, texts []Text, differences int) {
	t.Helper()
	t.Logf("%s: %d texts in %d scripts, %d differences", what, len(texts), Scripts(texts), differences)
}
