package nemesis

import (
	"maps"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
)

func TestFaultsAreCountedByTheirStrength(t *testing.T) {
	w := World{Lease: 3 * time.Second, Fence: 5 * time.Second}
	for d, want := range map[time.Duration]string{
		0: FreezeWithin, 3 * time.Second: FreezeWithin, 4 * time.Second: FreezeBeyond, 8 * time.Second: FreezeBeyond,
		9 * time.Second: FreezeFence,
	} {
		if got := w.frozenFor(d); got != want {
			t.Errorf("a freeze of %v: %s", d, got)
		}
	}
	for d, want := range map[time.Duration]string{
		0: ClockNearly, time.Second: ClockNearly, -time.Second: ClockNearly, 2 * time.Second: ClockStep, -2 * time.Second: ClockStep,
	} {
		if got := stepBy(d); got != want {
			t.Errorf("a step by %v: %s", d, got)
		}
	}
}

// TestWhatWasKilled: who did not run was not killed.
func TestWhatWasKilled(t *testing.T) {
	for _, tt := range []struct {
		ran  []bool
		want map[string]int
	}{
		{[]bool{true, true, true}, map[string]int{string(KillAll): 1}},
		{[]bool{true, false, true}, map[string]int{string(Kill): 2}},
		{[]bool{false, false, false}, map[string]int{}},
	} {
		n := New(Options{Fleet: fleet.New(fleet.Options{Servers: 3})})
		n.countKills(Fault{Kind: KillAll}, tt.ran)
		if got := n.Delivered(); !maps.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.ran, got, tt.want)
		}
	}
}
