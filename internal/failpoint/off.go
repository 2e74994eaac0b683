//go:build !failpoints

package failpoint

import "time"

// Hit does nothing in ordinary builds. The compiler removes it.
func Hit(string) {}

// WallShift returns zero in ordinary builds.
func WallShift() time.Duration { return 0 }

// BootID returns an empty string in ordinary builds.
func BootID() string { return "" }

// ClockSynchronized replaces no answer in ordinary builds.
func ClockSynchronized() (known, synced bool) { return false, false }

// Hasten returns d in ordinary builds.
func Hasten(d time.Duration) time.Duration { return d }
