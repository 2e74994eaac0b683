package sqlite

import (
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/store"
)

// clock is the process's clock in whole microseconds, as store.Clock has it.
type clock struct {
	source func() reading

	mu    sync.Mutex // readings are taken in the order in which they are used
	clock store.Clock
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
		return reading{wall: t.Add(failpoint.WallShift()).UnixMicro(), mono: t.Sub(start)}
	}}
}

func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.source()
	return c.clock.At(r.wall, r.mono)
}
