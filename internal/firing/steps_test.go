package firing

import (
	"slices"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/store"
)

// TestDecisionsShareASearch: a decision that has taken its steps leaves the rest to the next one, comes on, and neither
// loses a time nor takes one twice.
func TestDecisionsShareASearch(t *testing.T) {
	t.Parallel()
	times, err := recur.Compile(recur.Spec{
		ID: "x", Generation: 1, Zone: "UTC", Cron: []string{"*/5 * * * *"}, Exclude: recur.Exclusions{Cron: []string{"* * 2-20 * *"}},
	}, recur.NewZones(""))
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	collect := func(steps int64) (names []string, decisions int) {
		c := times.After(begin)
		for more := true; more; decisions++ {
			d := newDecider(store.DueSchedule{Now: begin.AddDate(0, 0, 40)}, Plan{Times: times})
			d.steps = steps
			came := d.collect(c, 0)
			for _, b := range came.beats {
				names = append(names, b.Name)
			}
			c, more = came.passed, came.more
			if decisions > 1000 {
				t.Fatal("decisions do not come on")
			}
		}
		return names, decisions
	}
	want, one := collect(maxSteps)
	got, many := collect(1000)
	if !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("%d times in %d decisions, want %d", len(got), many, len(want))
	}
	if one != 1 || many < 3 {
		t.Errorf("%d and %d decisions", one, many)
	}
}

// TestOneTimeAndManyExcluded: a decision ends although only one time is due and all later ones
// are excluded, and that time makes its job.
func TestOneTimeAndManyExcluded(t *testing.T) {
	t.Parallel()
	times, err := recur.Compile(recur.Spec{
		ID: "x", Generation: 1, Zone: "UTC", Cron: []string{"* * * * *"}, Exclude: recur.Exclusions{Cron: []string{"1-59 * * * *", "0 1-23 * * *"}},
	}, recur.NewZones(""))
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := begin.Add(23 * time.Hour)
	d := newDecider(store.DueSchedule{Now: now}, Plan{Times: times})
	d.policies.CatchUp, d.policies.CatchUpWindow, d.steps = CatchUpLatest, 24*time.Hour, 0
	came := d.collect(times.After(begin.Add(-time.Minute)), 0)
	if !came.cut || !came.more || len(came.beats) != 1 {
		t.Fatalf("cut %v, more %v, %d times", came.cut, came.more, len(came.beats))
	}
	if got := d.sort(came); got[0].outcome != store.FiringFired {
		t.Errorf("%v: %s", got[0].outcome, got[0].reason)
	}
}
