package nemesis

import (
	"reflect"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/failpoint"
)

var worlds = map[string]World{
	"sqlite":    {Servers: 1, Lease: 3 * time.Second, Fence: 3 * time.Second},
	"postgres":  {Servers: 3, Postgres: true, Lease: 3 * time.Second, Fence: 3 * time.Second},
	"schedules": {Servers: 1, Recurring: true, Lease: 3 * time.Second, Fence: 3 * time.Second},
	"told":      {Servers: 3, Told: true, Lease: 3 * time.Second, Fence: 3 * time.Second},
}

func TestAPlanIsItsSeeds(t *testing.T) {
	for name, w := range worlds {
		plan := Plan(7, 60, w)
		if len(plan) != 60 || !reflect.DeepEqual(plan, Plan(7, 60, w)) {
			t.Errorf("%s: one seed, two plans", name)
		}
		if reflect.DeepEqual(plan, Plan(8, 60, w)) {
			t.Errorf("%s: two seeds, one plan", name)
		}
		if !reflect.DeepEqual(plan[:20], Plan(7, 20, w)) {
			t.Errorf("%s: a shorter plan is another one", name)
		}
	}
}

func TestAPlanHasEverything(t *testing.T) {
	for name, w := range worlds {
		seen := make(map[string]bool)
		for _, f := range Plan(1, len(w.round()), w) {
			seen[f.Name()] = true
			if f.Server < 0 || f.Server >= w.Servers || f.Then <= 0 {
				t.Errorf("%s: %+v", name, f)
			}
		}
		for _, place := range failpoint.All {
			if !seen[Fault{Kind: Die, Place: place}.Name()] {
				t.Errorf("%s: no server dies at %s", name, place)
			}
		}
		for _, place := range failpoint.Schedules {
			if seen[Fault{Kind: Die, Place: place}.Name()] != w.Recurring {
				t.Errorf("%s: a server dies at %s: %v", name, place, !w.Recurring)
			}
		}
		for _, place := range failpoint.Notices {
			if seen[Fault{Kind: Die, Place: place}.Name()] != w.Told {
				t.Errorf("%s: a server dies at %s: %v", name, place, !w.Told)
			}
		}
		for _, k := range Kinds {
			needs := map[Kind]bool{CrashDB: w.Postgres, Cut: w.Postgres, BadStart: w.Postgres, LoseCommits: w.Postgres, KillAll: w.Servers > 1}
			want, some := needs[k]
			if want = want || !some; k != Die && seen[string(k)] != want {
				t.Errorf("%s: %s: planned %v, want %v", name, k, seen[string(k)], want)
			}
		}
	}
}

func TestFreezesOutlastLeaseAndFence(t *testing.T) {
	w := worlds["postgres"]
	shorter, longer := 0, 0
	for _, f := range Plan(3, 500, w) {
		switch {
		case f.Kind != Freeze:
		case f.For > w.Lease+w.Fence:
			longer++
		case f.For < w.Lease:
			shorter++
		}
	}
	if shorter == 0 || longer == 0 {
		t.Errorf("%d freezes shorter than the lease, %d longer than lease and fence", shorter, longer)
	}
}
