package costly_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/costly"
	"github.com/fireonce/fireonce/internal/recur"
)

// kinds are the kinds of requests, by the searches that they cause for a schedule.
var kinds = []struct {
	name     string
	from     int // a year
	n        int
	compiles int
}{
	{"validate", 2026, 10, 2},
	{"preview", 2026, 1000, 1},
	{"preview from 1970", 1970, 1000, 1},
	{"preview in 2150", 2150, 1000, 1},
	{"skip", 2026, 1000, 0},
	{"backfill", 2025, 100, 0},
}

// request makes the searches of one kind of request.
func request(t testing.TB, spec recur.Spec, kind int, m *recur.Meter) error {
	k := kinds[kind]
	s, err := recur.Compile(spec, zones)
	if err != nil {
		return err
	}
	for range k.compiles {
		if s, err = recur.CompileCounted(spec, zones, m); err != nil {
			return err
		}
	}
	found, c := 0, s.After(time.Date(k.from, 6, 1, 0, 0, 0, 0, time.UTC))
	for range 2000 {
		before := m.Spent()
		_, next, ok := s.NextCounted(c, m)
		if m.Spent()-before > mostInOne {
			t.Errorf("one search took %d steps", m.Spent()-before)
		}
		if m.Err() != nil || !ok && next.Done() {
			break
		}
		if c = next; ok {
			if found++; found == k.n {
				break
			}
		}
	}
	return m.Err()
}

var zones = recur.NewZones("")

// mostInOne bounds the steps of one search: a scheduler's decision stops between two.
const mostInOne = recur.MaxSteps

// costliest are the requests that took the most steps of the first 300 specs.
var costliest = map[uint64]int{262: 3, 99: 0, 94: 2}

// TestRequestsAreBounded: whatever the spec is, a request takes no more steps than it may, and
// one more look of a rule. COSTLY_SPECS=300 tries so many specs and prints the costliest.
func TestRequestsAreBounded(t *testing.T) {
	specs := uint64(4)
	if n, err := strconv.ParseUint(os.Getenv("COSTLY_SPECS"), 10, 64); err == nil {
		specs = n
	}
	type result struct {
		seed  uint64
		kind  string
		steps int64
		took  time.Duration
		err   error
	}
	var all []result
	compiled := 0
	try := func(seed uint64, only ...int) {
		for _, kind := range only {
			m := recur.NewMeter(t.Context(), recur.MaxSteps)
			begun := processor()
			err := request(t, costly.Spec(seed), kind, m)
			if bad := (recur.Errors)(nil); errors.As(err, &bad) {
				return
			}
			if kind == 0 {
				compiled++
			}
			all = append(all, result{seed, kinds[kind].name, m.Spent(), processor() - begun, err})
			if m.Spent() > recur.MaxSteps+recur.MaxSteps/4 {
				t.Errorf("seed %d, %s: %d steps", seed, kinds[kind].name, m.Spent())
			}
		}
	}
	for seed := range specs {
		try(seed, 0, 1, 2, 3, 4, 5)
	}
	if compiled < int(specs/3) {
		t.Errorf("%d of %d specs are valid", compiled, specs)
	}
	for seed, kind := range costliest {
		try(seed, kind)
	}
	for _, by := range []func(i, j int) bool{
		func(i, j int) bool { return all[i].steps > all[j].steps }, func(i, j int) bool { return all[i].took > all[j].took },
	} {
		sort.Slice(all, by)
		for _, r := range all[:min(5, len(all))] {
			t.Logf("seed %d, %s: %d steps, %v of processor, %v", r.seed, r.kind, r.steps, r.took, r.err)
		}
	}
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var use syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &use)
	return time.Duration(use.Utime.Nano())
}

// FuzzSteps looks for requests that take more steps than they may.
func FuzzSteps(f *testing.F) {
	if files, err := filepath.Glob("testdata/fuzz/FuzzSteps/*"); err != nil || len(files) == 0 {
		f.Fatal("the corpus is empty")
	}
	f.Fuzz(func(t *testing.T, seed uint64, kind uint8) {
		m := recur.NewMeter(context.Background(), math.MaxInt64)
		spec := costly.Spec(seed)
		if err := request(t, spec, int(kind)%len(kinds), m); err != nil {
			return
		}
		bounded := recur.NewMeter(context.Background(), recur.MaxSteps)
		err := request(t, spec, int(kind)%len(kinds), bounded)
		if bounded.Spent() > recur.MaxSteps+recur.MaxSteps/4 || (m.Spent() > recur.MaxSteps) != errors.Is(err, recur.ErrTooCostly) {
			t.Errorf("%d steps without a bound; with it %d, %v", m.Spent(), bounded.Spent(), err)
		}
	})
}
