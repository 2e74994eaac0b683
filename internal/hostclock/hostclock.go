// Package hostclock reads this machine's clocks: the wall clock, which can be set;
// the boot clock, which cannot, and which runs on while the machine sleeps; and what
// the kernel knows about them. Crash tests shift the readings (internal/failpoint).
package hostclock

import (
	"time"

	"github.com/fireonce/fireonce/internal/failpoint"
)

// Wall returns the wall clock's time.
func Wall() time.Time { return time.Now().Add(failpoint.WallShift()) }

// Boot returns the time since the machine started, sleep included. Where the system
// has no such clock it is the time since the process started, sleep left out.
func Boot() time.Duration { return boot() }

// BootID names the machine's present run; empty where the system has no such name. A
// reading of Boot can be compared with one of another process under the same name only.
func BootID() string {
	if id := failpoint.BootID(); id != "" {
		return id
	}
	return bootID()
}

// Synchronized reports whether the kernel says that something keeps its wall clock
// synchronized. Setting the time by hand ends that.
func Synchronized() bool {
	if known, synced := failpoint.ClockSynchronized(); known {
		return synced
	}
	return synchronized()
}

var processStart = time.Now()
