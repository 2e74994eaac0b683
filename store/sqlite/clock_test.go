package sqlite

import (
	"testing"
	"time"
)

// A wall clock that was set back must not stop ages from growing: a key that
// the receiver has long forgotten would look young.
func TestAClockThatWasSetBackRunsAtHalfSpeedUntilItCatchesUp(t *testing.T) {
	r := reading{wall: testStart.UnixMicro()}
	c := &clock{source: func() reading { return r }}
	pass := func(d time.Duration) {
		for range 1000 { // asked often, as it is
			r.wall += d.Microseconds() / 1000
			r.mono += d / 1000
			c.now()
		}
	}
	start := c.now()
	gone := func() time.Duration { return fromDuration(c.now() - start) }
	near := func(want time.Duration) {
		t.Helper()
		if got := gone(); got < want-time.Millisecond || got > want+time.Millisecond {
			t.Errorf("%v went by, want %v", got, want)
		}
	}

	pass(time.Second)
	near(time.Second)
	r.wall -= time.Hour.Microseconds()
	near(time.Second) // never backwards
	pass(time.Hour)
	near(time.Second + 30*time.Minute)
	r.wall -= time.Hour.Microseconds() // and once more
	near(time.Second + 30*time.Minute)
	pass(3 * time.Hour)
	near(time.Second + 2*time.Hour) // the wall clock has caught up: 4 h of it less 2
	pass(time.Minute)
	near(time.Second + 2*time.Hour + time.Minute)
	r.wall += time.Hour.Microseconds()
	near(time.Second + 3*time.Hour + time.Minute) // forward it follows at once
}
