//go:build !failpoints

package failpoint

import "time"

// Hit does nothing in ordinary builds; the compiler removes it.
func Hit(string) {}

// WallShift is zero in ordinary builds.
func WallShift() time.Duration { return 0 }

// Hasten gives d in ordinary builds.
func Hasten(d time.Duration) time.Duration { return d }
