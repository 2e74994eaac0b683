package engine

import (
	"time"

	"golang.org/x/sys/unix"
)

type systemClock struct{}

// SystemClock reads this machine's clocks.
func SystemClock() Clock { return systemClock{} }

// Read takes all three readings at once.
func (systemClock) Read() Reading {
	var ts unix.Timespec
	now := time.Now()
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		// Kernels since 2.6.39 have it; without it, the monotonic clock stands in.
		return Reading{Time: now, Boot: time.Since(processStart)}
	}
	return Reading{Time: now, Boot: time.Duration(ts.Nano())}
}

var processStart = time.Now()
