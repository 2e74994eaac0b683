package meter

import (
	"testing"
	"time"
)

// clock is a time that a test sets.
type clock struct{ time.Time }

func (c *clock) now() time.Time         { return c.Time }
func (c *clock) passes(d time.Duration) { c.Time = c.Add(d) }

func TestACallCountsForTheWorsePhase(t *testing.T) {
	for _, tt := range []struct{ begun, ended, want Phase }{
		{Quiet, Quiet, Quiet}, {Quiet, Calm, Calm}, {Calm, Storm, Storm}, {Storm, Calm, Storm},
	} {
		at := new(clock)
		c := NewCalls(at.now)
		c.Enter(tt.begun)
		end := c.Begin("get")
		at.passes(7 * time.Millisecond)
		c.Enter(tt.ended)
		end()
		for p := range phases {
			want := Latency{}
			if p == tt.want {
				want = Latency{Calls: 1, P50: 7 * time.Millisecond, P99: 7 * time.Millisecond, Max: 7 * time.Millisecond}
			}
			if got := c.Latency("get", p); got != want {
				t.Errorf("from %v to %v: %v is %+v", tt.begun, tt.ended, p, got)
			}
		}
	}
}

func TestQuantiles(t *testing.T) {
	c := NewCalls(time.Now)
	c.Enter(Quiet)
	for ms := range 200 {
		c.Add("list", time.Duration(200-ms)*time.Millisecond)
	}
	want := Latency{Calls: 200, P50: 100 * time.Millisecond, P99: 198 * time.Millisecond, Max: 200 * time.Millisecond}
	if got := c.Latency("list", Quiet); got != want {
		t.Errorf("%+v", got)
	}
	if got := c.Latency("none", Quiet); got != (Latency{}) {
		t.Errorf("of calls that were not made: %+v", got)
	}
}

func TestFailuresAreCountedByPhase(t *testing.T) {
	c := NewCalls(time.Now)
	for _, p := range []Phase{Calm, Storm, Calm} {
		c.Enter(p)
		c.Failed("unavailable")
	}
	if calm, storm := c.Failures(Calm)["unavailable"], c.Failures(Storm)["unavailable"]; calm != 2 || storm != 1 || len(c.Failures(Quiet)) != 0 {
		t.Errorf("%d calm, %d in the storm, %v quiet", calm, storm, c.Failures(Quiet))
	}
	var none *Calls
	none.Failed("unavailable")
	none.Begin("get")()
}
