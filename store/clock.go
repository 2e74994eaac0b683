package store

import (
	"sync"
	"time"
)

// Clock makes a clock that never goes backwards of one that somebody can set: a
// lease that was over stays over. The zero Clock is ready for use.
//
// Nor does it stand still when the other clock was set back. Ages are measured
// on it, and a receiver forgets a key after its window whatever our clock says.
// Until the other clock has caught up, it runs at half the speed of time: so it
// does catch up, and no age is ever taken for less than half of what it is, which
// is the margin that a replay leaves in the key's window.
type Clock struct {
	mu   sync.Mutex
	last int64 // the last time that was given
	// slow tells that the other clock is behind, since the moment since, when this
	// clock said from.
	slow  bool
	from  int64
	since time.Duration
}

// At gives the time, in microseconds since 1970, where the other clock says wall
// and a clock of this process that nobody can set says mono.
func (c *Clock) At(wall int64, mono time.Duration) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wall < c.last && !c.slow {
		c.slow, c.from, c.since = true, c.last, mono
	}
	t := wall
	if c.slow {
		t = max(t, c.from+((mono-c.since)/2).Microseconds())
		c.slow = t > wall
	}
	c.last = max(c.last, t)
	return c.last
}
