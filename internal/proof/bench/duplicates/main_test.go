package main

import (
	"slices"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"-jobs", "20", "-kills", "3", "-only", "river,fireonce k"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range o.chosen() {
		names = append(names, e.name)
	}
	if want := []string{"River", "River + key", "Fireonce KEYED"}; !slices.Equal(names, want) || o.jobs != 20 || o.kills != 3 {
		t.Errorf("got %v with %+v", names, o.settings)
	}
	for _, args := range [][]string{
		{"-jobs", "0"}, {"-kills", "-1"}, {"-kills", "20", "-jobs", "20"}, {"-concurrency", "0"}, {"-timeout", "0"},
		{"-limit", "0"}, {"-parallel", "0"}, {"-only", "nobody"}, {"river"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

// TestFaults: what is left out is out, in this run only, and the rest can be.
func TestFaults(t *testing.T) {
	f := faults()
	if err := f.Check(); err != nil {
		t.Error(err)
	}
	if f.Rates[platform.Refuse] != 0 || f.Rates[platform.Late] != 0 || f.Rates[platform.Drop] < 0.3 {
		t.Errorf("rates: %v", f.Rates)
	}
	if platform.DefaultFaults().Rates[platform.Refuse] == 0 {
		t.Error("the campaign's faults changed, too")
	}
}

// TestKillAt: kills come one after the other, while there is work left.
func TestKillAt(t *testing.T) {
	for _, tt := range []struct{ kills, jobs int }{{1, 2}, {10, 1000}, {7, 8}} {
		last := 0
		for i := range tt.kills {
			at := killAt(i, tt.kills, tt.jobs)
			if at <= last || at >= 2*tt.jobs {
				t.Errorf("kill %d of %d is at step %d of %d, after one at %d", i, tt.kills, at, 2*tt.jobs, last)
			}
			last = at
		}
	}
}

func TestResetWait(t *testing.T) {
	for tries, want := range map[int]int{1: 1, 2: 2, 5: 16, 6: 30, maxTries: 30} {
		if got := resetWait(tries); got != want {
			t.Errorf("after %d tries: %d s, want %d", tries, got, want)
		}
	}
}
