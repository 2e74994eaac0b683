package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// simulated makes this test's own binary play the simulator's.
const simulated = "MUTANT_TEST_SIMULATOR"

var compile = flag.Bool("compile", false, "compile packages with their mutants, and run their tests")

// compiles skips a test that compiles whole packages unless it was asked for, as
// `make sim-short` does.
func compiles(t *testing.T) {
	t.Helper()
	if !*compile {
		t.Skip("it compiles packages: -compile runs it")
	}
}

func TestMain(m *testing.M) {
	if how := os.Getenv(simulated); how != "" {
		simulate(how)
	}
	os.Exit(m.Run())
}

// simulate plays a simulator whose worlds from a seed on fail in one way.
func simulate(how string) {
	fs := flag.NewFlagSet("", flag.ExitOnError)
	test := fs.String("test.run", "", "")
	fs.String("test.timeout", "", "")
	first := fs.Uint64("sim.first", 0, "")
	seeds := fs.Uint64("sim.seeds", 0, "")
	if err := fs.Parse(os.Args[1:]); err != nil {
		panic(err)
	}
	const bad = 40
	if *test == "^"+liveness+"$" && *first <= bad && bad < *first+*seeds {
		switch how {
		case "violation":
			fmt.Printf("    sim_test.go:1: SIM VIOLATION I6: seed %d: two effects\nFAIL\n", bad)
			os.Exit(1)
		case "elsewhere":
			fmt.Print("SIM VIOLATION I6: seed 4000: two effects\n")
			os.Exit(1)
		case "panic":
			panic("a mutant's own bug")
		case "nothing":
			fmt.Println("testing: warning: no tests to run\nPASS")
			os.Exit(0)
		case "hang":
			time.Sleep(time.Hour) // until it is killed
		}
	}
	fmt.Println("PASS")
	os.Exit(0)
}

func searched(t *testing.T, how string, known *world) (*finding, uint64, error) {
	t.Helper()
	t.Setenv(simulated, how)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := harness{dir: t.TempDir(), chunkTime: time.Minute}
	return h.search(t.Context(), program{binary: self}, []string{safety, liveness}, known, 1, 100)
}

func TestSearchFindsTheFirstViolation(t *testing.T) {
	f, _, err := searched(t, "violation", nil)
	if err != nil || f == nil {
		t.Fatal(f, err)
	}
	// Chunks of 8, 16 and 32: two of both tests, one of the first, then up to the seed.
	if f.invariant != "I6" || f.seed != 40 || f.test != liveness || f.worlds != 2*(8+16)+32+16 {
		t.Errorf("got %+v", f)
	}
}

func TestSearchBeginsWithTheKnownWorld(t *testing.T) {
	f, _, err := searched(t, "violation", &world{liveness, 40})
	if err != nil || f == nil || f.seed != 40 || f.worlds != 1 {
		t.Errorf("got %+v, %v", f, err)
	}
	f, _, err = searched(t, "violation", &world{liveness, 39}) // it notices nothing any more
	if err != nil || f == nil || f.seed != 40 || f.worlds != 2*(8+16)+32+16 {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestKnownWorlds(t *testing.T) {
	known, err := knownWorlds(worldsText)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all(t) {
		if _, ok := known[m.name]; !ok {
			t.Errorf("%s has no line in worlds.txt: go run ./internal/proof/mutant -worlds internal/proof/mutant/worlds.txt", m.name)
		}
		delete(known, m.name)
	}
	if len(known) > 0 {
		t.Errorf("worlds.txt has lines of no mutant: %v", known)
	}
	for _, text := range []string{"a", "a TestSimSafety", "a TestSimSafety -1", "a TestSimSafety 1 2"} {
		if _, err := knownWorlds(text + "\n"); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	// The true code has to pass the world, and a mutant is tried in its own worlds only.
	c := campaign{options: options{first: 1, seeds: 30}, known: map[string]world{"m": {safety, 31}, "n": {safety, 30}}}
	tests := []string{safety, liveness}
	if w := c.knownWorld(mutant{name: "m"}, tests, 30); w != nil {
		t.Errorf("%v is beyond the worlds of the run", w)
	}
	if w := c.knownWorld(mutant{name: "n"}, tests, 30); w == nil || c.knownWorld(mutant{name: "n"}, []string{schedules}, 30) != nil {
		t.Errorf("got %v", w)
	}
}

func TestWriteWorldsKeepsOtherLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "worlds.txt")
	if err := os.WriteFile(file, []byte("a TestSimSafety 1\ngone TestSimSafety 2\nsurvives TestSimSafety 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all := []mutant{{name: "a"}, {name: "b"}, {name: "survives"}}
	results := []result{{mutant: all[1], found: &finding{test: liveness, seed: 7}}, {mutant: all[2]}}
	if err := writeWorlds(file, all, results); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if want := "a TestSimSafety 1\nb TestSimLiveness 7\nsurvives TestSimSafety 3\n"; err != nil || string(got) != want {
		t.Errorf("%v: got %q, want %q", err, got, want)
	}
}

func TestSearchTellsASurvivor(t *testing.T) {
	f, worlds, err := searched(t, "well", nil)
	if f != nil || err != nil || worlds != 200 {
		t.Errorf("got %v, %d worlds, %v", f, worlds, err)
	}
}

func TestOnlyAViolationCatches(t *testing.T) {
	for _, how := range []string{"panic", "nothing", "elsewhere"} {
		t.Run(how, func(t *testing.T) {
			if f, _, err := searched(t, how, nil); f != nil || !errors.Is(err, errBroken) {
				t.Errorf("got %v, %v", f, err)
			}
		})
	}
}

func TestARunThatIsCutShortIsNoCatch(t *testing.T) {
	t.Setenv(simulated, "hang")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := harness{dir: t.TempDir(), chunkTime: time.Minute}
	if f, err := h.run(ctx, program{binary: self}, liveness, 40, 1); f != nil || !errors.Is(err, errBroken) {
		t.Errorf("got %v, %v", f, err)
	}
}

func TestReportFailsUnlessAllAreCaught(t *testing.T) {
	m := mutant{name: "m", rule: "A rule.", expect: []string{"I6"}}
	caught := result{mutant: m, found: &finding{invariant: "I6", test: safety, seed: 3, worlds: 3}}
	for _, c := range []struct {
		name string
		r    result
		want string
	}{
		{"survived", result{mutant: m, worlds: 9}, `"survived":1,"broken":0,"stale":0`},
		{"broken", result{mutant: m, err: errBroken}, `"survived":0,"broken":1,"stale":0`},
		{"stale", result{mutant: m, err: errStale}, `"survived":0,"broken":0,"stale":1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if err := report(&out, []result{caught, c.r}, 10, time.Second); err == nil {
				t.Error("the run passes")
			}
			if !strings.Contains(out.String(), `"mutants":2,"caught":1,`+c.want) {
				t.Errorf("got:\n%s", out.String())
			}
		})
	}
	if err := report(io.Discard, []result{caught}, 10, time.Second); err != nil {
		t.Error(err)
	}
	if got := caught.String(); !strings.HasPrefix(got, "m: caught by I6 at seed 3 of TestSimSafety after 3 worlds in ") {
		t.Errorf("got %q", got)
	}
}
