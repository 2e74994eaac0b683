package sqlite

import (
	"sync/atomic"
	"time"
)

// clock is the process's clock in whole microseconds. It never goes backwards:
// a lease that was over stays over, whatever somebody does to the wall clock.
type clock struct {
	source func() time.Time
	seen   atomic.Int64
}

func newClock(source func() time.Time) *clock { return &clock{source: source} }

func (c *clock) now() int64 {
	t := c.source().UnixMicro()
	for {
		seen := c.seen.Load()
		if t <= seen {
			return seen
		}
		if c.seen.CompareAndSwap(seen, t) {
			return t
		}
	}
}
