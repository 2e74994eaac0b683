package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// simulated makes this test's own binary play the simulator's.
const simulated = "MUTANT_TEST_SIMULATOR"

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

func searched(t *testing.T, how string) (*finding, uint64, error) {
	t.Helper()
	t.Setenv(simulated, how)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := harness{dir: t.TempDir(), chunkTime: time.Minute}
	return h.search(t.Context(), program{binary: self}, []string{safety, liveness}, 1, 100)
}

func TestSearchFindsTheFirstViolation(t *testing.T) {
	f, _, err := searched(t, "violation")
	if err != nil || f == nil {
		t.Fatal(f, err)
	}
	// Chunks of 8, 16 and 32: two of both tests, one of the first, then up to the seed.
	if f.invariant != "I6" || f.seed != 40 || f.test != liveness || f.worlds != 2*(8+16)+32+16 {
		t.Errorf("got %+v", f)
	}
}

func TestSearchTellsASurvivor(t *testing.T) {
	f, worlds, err := searched(t, "well")
	if f != nil || err != nil || worlds != 200 {
		t.Errorf("got %v, %d worlds, %v", f, worlds, err)
	}
}

func TestOnlyAViolationCatches(t *testing.T) {
	for _, how := range []string{"panic", "nothing", "elsewhere"} {
		t.Run(how, func(t *testing.T) {
			if f, _, err := searched(t, how); f != nil || !errors.Is(err, errBroken) {
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
