package main

import (
	"embed"
	"encoding/json"
	"errors"
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = `package p

func f() int {
	return 1
}

func g() int {
	return 1
}

func h() int { return 2 }
`

func TestApplyNeedsItsLinesExactlyOnce(t *testing.T) {
	for _, c := range []struct {
		name, old, new string
		want           string // of the text after it; empty: stale
	}{
		{"once", "func h() int { return 2 }\n", "func h() int { return 3 }\n", "{ return 3 }"},
		{"made one by its context", "func g() int {\n\treturn 1\n", "func g() int {\n\treturn 4\n", "g() int {\n\treturn 4"},
		{"missing", "func i() {}\n", "", ""},
		{"twice", "\treturn 1\n", "\treturn 2\n", ""},
		{"in mid-line only", "int { return 2 }\n", "int { return 3 }\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := edit{file: "p.go", old: c.old, new: c.new}.apply(source)
			switch {
			case c.want == "":
				if !errors.Is(err, errStale) {
					t.Errorf("got %v, want a mutant that does not fit", err)
				}
			case err != nil:
				t.Error(err)
			case !strings.Contains(got, c.want) || len(got) != len(source)+len(c.new)-len(c.old):
				t.Errorf("got:\n%s", got)
			}
		})
	}
}

func TestOverlayPutsMutatedFilesInPlace(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	path := filepath.Join(root, "p", "p.go")
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := parse("m", `rule: r
expect: I1
--- p/p.go
@@
-func h() int { return 2 }
+func h() int { return 3 }
@@
 func f() int {
-	return 1
+	return 5
`)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := m.writeOverlay(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(overlay)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Replace map[string]string }
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	mutated, err := os.ReadFile(got.Replace[path])
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(strings.Replace(source, "return 1", "return 5", 1), "return 2", "return 3", 1)
	if string(mutated) != want {
		t.Errorf("got:\n%s", mutated)
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := m.writeOverlay(root, dir); !errors.Is(err, errStale) {
		t.Errorf("a file is gone, and the mutant gives %v", err)
	}
}

// Mutants follow the code: a change of lines that one replaces fails here, and
// not only when the simulator is run on them.
func TestEveryMutantFitsTheSource(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	mutants := all(t)
	for folder, files := range map[string]embed.FS{"stored": storedFiles, "fired": firedFiles, "tested": testedFiles} {
		more, err := catalogue(files, folder)
		if err != nil {
			t.Fatal(err)
		}
		mutants = append(mutants, more...)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			overlay, err := m.writeOverlay(root, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(overlay)
			if err != nil {
				t.Fatal(err)
			}
			var o struct{ Replace map[string]string }
			if err := json.Unmarshal(data, &o); err != nil {
				t.Fatal(err)
			}
			for file, mutated := range o.Replace {
				if mutated != "" {
					isFormatted(t, file, mutated)
				}
			}
		})
	}
}

func isFormatted(t *testing.T, file, mutated string) {
	t.Helper()
	text, err := os.ReadFile(mutated)
	if err != nil {
		t.Fatal(err)
	}
	formatted, err := format.Source(text)
	if err != nil {
		t.Errorf("%s: %v", file, err)
	} else if string(formatted) != string(text) {
		t.Errorf("%s is not formatted as gofmt does", file)
	}
}
