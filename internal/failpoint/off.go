//go:build !failpoints

package failpoint

import "time"

// Hit does nothing in ordinary builds; the compiler removes it.
func Hit(string) {}

// WallShift is zero in ordinary builds.
func WallShift() time.Duration { return 0 }

// BootID is empty in ordinary builds.
func BootID() string { return "" }

// ClockSynchronized decides nothing in ordinary builds.
func ClockSynchronized() (known, synced bool) { return false, false }

// Hasten gives d in ordinary builds.
func Hasten(d time.Duration) time.Duration { return d }
