package main

import (
	"fmt"
	"math"
	"time"

	"github.com/fireonce/fireonce/internal/chaos/meter"
)

const (
	// warmUp is for servers that have just started; nothing is measured.
	warmUp = 5 * time.Second
	// The quiet phase is a fifth of the hostile time, within these bounds.
	quietShare    = 5
	leastQuiet    = 30 * time.Second
	mostQuiet     = 3 * time.Minute
	minutesACycle = 3
	// calmThirds of a cycle's three thirds have no faults, so that servers live long enough
	// for their memory to be judged.
	calmThirds = 2
	// settling is left to the servers after the last fault of a storm, before the time
	// counts as calm.
	settling = 5 * time.Second
	// leastFault is less than a fault takes: a plan of so many never ends before its storm.
	leastFault = 200 * time.Millisecond
)

// times are how long the phases of a soak last. After the quiet phase come cycles, each a
// calm and then a storm.
type times struct {
	quiet, calm, storm time.Duration
	cycles             int
}

// soakTimes divides so many minutes of hostile clients into cycles.
func soakTimes(minutes float64) times {
	hostile := time.Duration(minutes * float64(time.Minute))
	t := times{
		quiet:  min(max(hostile/quietShare, leastQuiet), mostQuiet),
		cycles: max(1, int(math.Round(minutes/minutesACycle))),
	}
	cycle := hostile / time.Duration(t.cycles)
	t.calm = cycle * calmThirds / 3
	t.storm = cycle - t.calm
	return t
}

// hostile is how long hostile clients are at work.
func (t times) hostile() time.Duration { return time.Duration(t.cycles) * (t.calm + t.storm) }

// whole is how long all phases last.
func (t times) whole() time.Duration {
	return warmUp + t.quiet + t.hostile()
}

// String describes the phases.
func (t times) String() string {
	return fmt.Sprintf("%v %v, then %d cycles of %v %v and %v %v", t.quiet, meter.Quiet, t.cycles, t.calm, meter.Calm, t.storm, meter.Storm)
}
