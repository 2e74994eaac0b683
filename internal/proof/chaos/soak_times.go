package main

import (
	"fmt"
	"math"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/meter"
)

const (
	// warmUp is for servers that have just started; nothing is measured.
	warmUp = 5 * time.Second
	// quietStart is for the memory of servers that are not attacked.
	quietStart = 30 * time.Second
	// A calm is cut into turns. Each has its own quiet time before it, so that whatever
	// else slows the machine slows both alike. The lull before that is for attacks to end.
	calmTurn      = 30 * time.Second
	quietTurn     = 12 * time.Second
	lull          = 3 * time.Second
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

// times are how long the phases of a soak last. After the start come cycles, each a calm,
// in turns with quiet times, and then a storm.
type times struct {
	quiet, calm, storm time.Duration // quiet and calm: of one turn
	turns, cycles      int
}

// soakTimes divides so many minutes of hostile clients into cycles.
func soakTimes(minutes float64) times {
	hostile := time.Duration(minutes * float64(time.Minute))
	t := times{quiet: quietTurn, cycles: max(1, int(math.Round(minutes/minutesACycle)))}
	cycle := hostile / time.Duration(t.cycles)
	calm := cycle * calmThirds / 3
	t.turns = max(1, int(calm/calmTurn))
	t.calm, t.storm = calm/time.Duration(t.turns), cycle-calm
	return t
}

// hostile is how long hostile clients are at work.
func (t times) hostile() time.Duration {
	return time.Duration(t.cycles) * (time.Duration(t.turns)*t.calm + t.storm)
}

// whole is how long all phases last.
func (t times) whole() time.Duration {
	return warmUp + quietStart + time.Duration(t.cycles*t.turns)*(lull+t.quiet) + t.hostile()
}

// String describes the phases.
func (t times) String() string {
	return fmt.Sprintf("%d cycles of %d turns of %v %v and %v %v, then %v %v",
		t.cycles, t.turns, t.quiet, meter.Quiet, t.calm, meter.Calm, t.storm, meter.Storm)
}
