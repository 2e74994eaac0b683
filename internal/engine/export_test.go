package engine

import "time"

// ReadingAt is a reading whose wall clock is off by shift, for tests that set it.
func ReadingAt(now time.Time, boot, shift time.Duration) Reading {
	return Reading{Time: now, Boot: boot, shift: shift}
}
