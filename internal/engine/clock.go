package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/hostclock"
)

// maxDisagreement is how far this machine's clocks may differ over one attempt
// before none is trusted.
const maxDisagreement = time.Second

// errTimeUntrusted means that the clocks disagree: the machine slept, or the time was
// set. Nothing may be sent on such a clock.
var errTimeUntrusted = errors.New("this machine's clocks disagree about the time that passed")

// Clock reads the time in three ways.
type Clock interface{ Read() Reading }

// Reading is one moment. Monotonic time stops while a machine sleeps, boot
// time does not, and wall time moves when it is set; elapsed time is the
// largest of the three.
type Reading struct {
	// Time carries the wall and the monotonic reading.
	Time time.Time
	// Boot is the time since the machine started, sleep included.
	Boot time.Duration
	// WallShift is how far a test has set the wall clock: the wall time is Time plus it. It is
	// zero outside of tests.
	WallShift time.Duration
}

type systemClock struct{}

// SystemClock reads this machine's clocks. Where the system has no boot clock, a machine
// that sleeps in the middle of an attempt is noticed by the wall clock alone.
func SystemClock() Clock { return systemClock{} }

// Read takes all three readings.
func (systemClock) Read() Reading {
	return Reading{Time: time.Now(), Boot: hostclock.Boot(), WallShift: failpoint.WallShift()}
}

// elapsed returns the time from r to now by the fastest clock.
func (r Reading) elapsed(now Reading) (time.Duration, error) {
	mono := now.Time.Sub(r.Time)
	wall := now.Time.Round(0).Sub(r.Time.Round(0)) + now.WallShift - r.WallShift
	boot := now.Boot - r.Boot
	most, least := max(mono, wall, boot), min(mono, wall, boot)
	if most-least > maxDisagreement {
		return most, fmt.Errorf("%w: monotonic %v, wall %v, boot %v", errTimeUntrusted, mono, wall, boot)
	}
	return most, nil
}
