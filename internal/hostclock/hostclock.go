// Package hostclock reads this machine's clocks: the wall clock, which can be set, and
// the boot clock, which cannot be set and continues while the machine sleeps. It also
// reads what the kernel knows about them. Crash tests shift the readings
// (internal/failpoint).
package hostclock

import (
	"time"

	"github.com/fireonce/fireonce/internal/failpoint"
)

// Wall returns the wall clock's time.
func Wall() time.Time { return time.Now().Add(failpoint.WallShift()) }

// Boot returns the time since the machine started, including sleep. On a system without
// such a clock it returns the time since the process started, without sleep.
func Boot() time.Duration { return boot() }

// BootID returns a name for the time since the machine last started, and an empty string
// if the system has none. Boot readings of two processes are comparable only under the
// same BootID.
func BootID() string {
	if id := failpoint.BootID(); id != "" {
		return id
	}
	return bootID()
}

// Synchronized reports whether the kernel considers its wall clock synchronized, by NTP
// for example. Setting the time by hand ends that.
func Synchronized() bool {
	if known, synced := failpoint.ClockSynchronized(); known {
		return synced
	}
	return synchronized()
}

var processStart = time.Now()
