package sqlite

import (
	"sync"
	"time"
)

// clock is the process's clock in whole microseconds. It never goes backwards:
// a lease that was over stays over, whatever somebody does to the wall clock.
//
// Nor does it stand still when the wall clock was set back. Ages are measured
// on it, and a receiver forgets a key after its window whatever our wall clock
// says. Until the wall clock has caught up, it runs at half the speed of time:
// so it does catch up, and no age is ever taken for less than half of what it
// is, which is the margin that a replay leaves in the key's window.
type clock struct {
	source func() reading

	mu   sync.Mutex
	last int64 // the last time that was given
	// slow tells that the wall clock is behind, since the moment since, when this
	// clock said from.
	slow  bool
	from  int64
	since time.Duration
}

// reading is one moment on the wall clock, in microseconds, and on a clock that
// nobody can set.
type reading struct {
	wall int64
	mono time.Duration
}

// newClock makes a clock from the wall clock. Times without a monotonic reading
// give a clock that stands still while it was set back.
func newClock(now func() time.Time) *clock {
	start := now()
	return &clock{source: func() reading {
		t := now()
		return reading{wall: t.UnixMicro(), mono: t.Sub(start)}
	}}
}

func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.source()
	if r.wall < c.last && !c.slow {
		c.slow, c.from, c.since = true, c.last, r.mono
	}
	t := r.wall
	if c.slow {
		t = max(t, c.from+((r.mono-c.since)/2).Microseconds())
		c.slow = t > r.wall
	}
	c.last = max(c.last, t)
	return c.last
}
