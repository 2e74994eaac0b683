package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// switchable has a function of each kind. Its test prints what each one returns.
const switchable = `package p

import (
	"runtime"
	"strings"
)

type list[T any] struct{ items []T }

func (l *list[_]) length() int { return len(l.items) }

type pair struct{ a, b int }

func (pair) sum(_, _ int) int { return 1 }

func (p pair) Named() (n int, err error) {
	n = p.a
	return
}

func (_ *pair) nothing(out *strings.Builder, _ ...int) {
	out.WriteString("n1")
}

func first[T any, U any](of []T, _ U) T { return of[0] }

func unnamed(int, ...string) string { return "u1" }

func words(begin string, more ...string) string {
	return begin + strings.Join(more, "")
}

func countdown(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + countdown(n-1)
}

func recovered() {
	defer caught()
	panic("x")
}

func caught() { _ = recover() }

const limit = 1

func init() { _ = limit }

func where() int {
	_, _, line, _ := runtime.Caller(0)
	return line
}
`

const switchableTest = `package p

import (
	"fmt"
	"strings"
	"testing"
)

func Test(t *testing.T) {
	recovered()
	var out strings.Builder
	(*pair)(nil).nothing(&out, 1, 2)
	n, err := pair{3, 4}.Named()
	fmt.Println((&list[int]{items: []int{1, 2}}).length(), pair{3, 4}.sum(5, 6), n, err, out.String(),
		first([]string{"a", "b"}, 0), unnamed(1, "x"), words("a", "b", "c"), countdown(3), where(), limit)
}
`

// module writes the source with a go.mod, and returns its root.
func module(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "p"), 0o750); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": "module p\n\ngo 1.26\n", "p/p.go": switchable, "p/p_test.go": switchableTest} {
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(name)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// mutantOf changes lines of the source: old, new, and so on.
func mutantOf(name string, lines ...string) mutant {
	m := mutant{name: name}
	for i := 0; i < len(lines); i += 2 {
		m.edits = append(m.edits, edit{file: "p/p.go", old: lines[i] + "\n", new: lines[i+1] + "\n"})
	}
	return m
}

// Each mutant changes what its own functions return, and no more; without one, the code is
// the true one, with its lines.
func TestSwitchedMutantsChangeTheirFunctionsAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles a package")
	}
	const truth = "2 1 3 <nil> n1 a u1 abc 3 LINE 1"
	mutants := []mutant{
		mutantOf("generic-method", "func (l *list[_]) length() int { return len(l.items) }", "func (l *list[_]) length() int { return -len(l.items) }"),
		mutantOf("no-receiver", "func (pair) sum(_, _ int) int { return 1 }", "func (pair) sum(_, _ int) int { return 2 }"),
		mutantOf("named-results", "	n = p.a", "	n = p.b"),
		mutantOf("no-results", `	out.WriteString("n1")`, `	out.WriteString("n2")`),
		mutantOf("generic", "func first[T any, U any](of []T, _ U) T { return of[0] }", "func first[T any, U any](of []T, _ U) T { return of[1] }"),
		mutantOf("no-names", `func unnamed(int, ...string) string { return "u1" }`, `func unnamed(int, ...string) string { return "u2" }`),
		mutantOf("variadic", `	return begin + strings.Join(more, "")`, `	return begin + strings.Join(more, "-")`),
		mutantOf("another-variadic", `	return begin + strings.Join(more, "")`, `	return begin`),
		mutantOf("recursive", "	return 1 + countdown(n-1)", "	return 2 + countdown(n-1)"),
		mutantOf("two", "	n = p.a", "	n = 7", "	return 1 + countdown(n-1)", "	return countdown(n - 1)"),
		mutantOf("constant", "const limit = 1", "const limit = 2"),
		mutantOf("stale", "const limit = 3", "const limit = 2"),
	}
	want := map[string]string{
		"":                 truth,
		"another":          truth,
		"generic-method":   "-2 1 3 <nil> n1 a u1 abc 3 LINE 1",
		"no-receiver":      "2 2 3 <nil> n1 a u1 abc 3 LINE 1",
		"named-results":    "2 1 4 <nil> n1 a u1 abc 3 LINE 1",
		"no-results":       "2 1 3 <nil> n2 a u1 abc 3 LINE 1",
		"generic":          "2 1 3 <nil> n1 b u1 abc 3 LINE 1",
		"no-names":         "2 1 3 <nil> n1 a u2 abc 3 LINE 1",
		"variadic":         "2 1 3 <nil> n1 a u1 ab-c 3 LINE 1",
		"another-variadic": "2 1 3 <nil> n1 a u1 a 3 LINE 1",
		"recursive":        "2 1 3 <nil> n1 a u1 abc 6 LINE 1",
		"two":              "2 1 7 <nil> n1 a u1 abc 0 LINE 1",
		"constant":         "2 1 3 <nil> n1 a u1 abc 3 LINE 2",
	}
	before, _, _ := strings.Cut(switchable, "runtime.Caller(0)")
	line := fmt.Sprint(1 + strings.Count(before, "\n"))
	source, err := writeSwitched(module(t), t.TempDir(), mutants)
	if err != nil {
		t.Fatal(err)
	}
	if len(source.alone) != 2 || !errors.Is(source.alone["constant"], errNoSwitch) || !errors.Is(source.alone["stale"], errStale) {
		t.Errorf("alone: %v", source.alone)
	}
	tests := compiledTests(t, source, "p")
	for _, m := range append(mutants, mutant{}, mutant{name: "another"}) {
		p, err := tests.with(t.Context(), m)
		if m.name == "stale" {
			if !errors.Is(err, errStale) {
				t.Errorf("a stale mutant is built: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if alone := p.binary != tests.true.binary; alone != (m.name == "constant") {
			t.Errorf("%s: built alone: %v", m.name, alone)
		}
		output, err := p.command(t.Context(), "-test.run", "^Test$").CombinedOutput()
		if got, _, _ := strings.Cut(string(output), "\n"); err != nil || got != strings.Replace(want[m.name], "LINE", line, 1) {
			t.Errorf("%s: got %v\n%s\nwant %s", m.name, err, output, want[m.name])
		}
	}
}

func TestWhatCannotBeSwitchedIsAlone(t *testing.T) {
	for _, m := range []mutant{
		mutantOf("a constant", "const limit = 1", "const limit = 2"),
		mutantOf("a type", "type pair struct{ a, b int }", "type pair struct{ b, a int }"),
		mutantOf("an import", "import (", "import (\n\t_ \"embed\""),
		mutantOf("an added function", "const limit = 1", "const limit = 1\n\nfunc more() {}"),
		mutantOf("a signature", "func caught() { _ = recover() }", "func caught(...int) { _ = recover() }"),
		mutantOf("a deferred function that recovers", "func caught() { _ = recover() }", "func caught() { recover() }"),
		mutantOf("init", "func init() { _ = limit }", "func init() { _ = 2 }"),
		mutantOf("a remark", "	n = p.a", "	// n = p.a\n	n = p.a", "func init() { _ = limit }", "func init() { panic(0) }"),
		mutantOf("no Go", "	n = p.a", "	n = "),
		mutantOf("the package", "package p", "package q"),
	} {
		t.Run(m.name, func(t *testing.T) {
			source, err := writeSwitched(module(t), t.TempDir(), []mutant{m})
			if err != nil {
				t.Fatal(err)
			}
			if !errors.Is(source.alone[m.name], errNoSwitch) {
				t.Errorf("got %v", source.alone[m.name])
			}
		})
	}
}

// A mutant that is half in the source would be another one.
func TestAMutantIsSwitchedInWholeOrNotAtAll(t *testing.T) {
	root := module(t)
	if err := os.WriteFile(filepath.Join(root, "p", "q.go"), []byte("package p\n\nvar q = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := mutantOf("m", "	n = p.a", "	n = p.b")
	m.edits = append(m.edits, edit{file: "p/q.go", old: "var q = 1\n", new: "var q = 2\n"})
	dir := t.TempDir()
	source, err := writeSwitched(root, dir, []mutant{m})
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(source.alone["m"], errNoSwitch) {
		t.Errorf("got %v", source.alone)
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*.go")); len(files) > 0 || err != nil {
		t.Errorf("got %v, %v", files, err)
	}
}

func TestMutantsOfOneSourceHaveNamesOfTheirOwn(t *testing.T) {
	m := mutantOf("m", "	n = p.a", "	n = p.b")
	if _, err := writeSwitched(module(t), t.TempDir(), []mutant{m, m}); err == nil {
		t.Error("one name chooses two mutants")
	}
	if _, err := writeSwitched(module(t), t.TempDir(), []mutant{{}}); err == nil {
		t.Error("no name chooses a mutant")
	}
}

// Builds are most of what mutants cost.
func TestFewMutantsAreBuiltAlone(t *testing.T) {
	stored, err := catalogue(storedFiles, "stored")
	if err != nil {
		t.Fatal(err)
	}
	fired, err := catalogue(firedFiles, "fired")
	if err != nil {
		t.Fatal(err)
	}
	tested, err := catalogue(testedFiles, "tested")
	if err != nil {
		t.Fatal(err)
	}
	for name, mutants := range map[string][]mutant{"mutants": all(t), "stored": stored, "fired": fired, "tested": tested} {
		if alone := len(switchedSource(t, mutants).alone); alone > max(1, len(mutants)/5) {
			t.Errorf("%s: %d of %d", name, alone, len(mutants))
		}
	}
}
