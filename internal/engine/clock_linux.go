package engine

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/fireonce/fireonce/internal/failpoint"
)

type systemClock struct{}

// SystemClock reads this machine's clocks.
func SystemClock() Clock { return systemClock{} }

// Read takes all three readings at once.
func (systemClock) Read() Reading {
	var ts unix.Timespec
	now, shift := time.Now(), failpoint.WallShift()
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		// Kernels since 2.6.39 have it; without it, the monotonic clock stands in.
		return Reading{Time: now, Boot: time.Since(processStart), shift: shift}
	}
	return Reading{Time: now, Boot: time.Duration(ts.Nano()), shift: shift}
}

var processStart = time.Now()
