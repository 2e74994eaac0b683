//go:build !linux

package engine

import (
	"time"

	"github.com/fireonce/fireonce/internal/failpoint"
)

type systemClock struct{}

// SystemClock reads this machine's clocks. Without a boot clock the monotonic
// one stands in: a machine that sleeps in mid-attempt is then seen by the wall
// clock alone.
func SystemClock() Clock { return systemClock{} }

// Read takes the readings that this system has.
func (systemClock) Read() Reading {
	now := time.Now()
	return Reading{Time: now, Boot: now.Sub(processStart), shift: failpoint.WallShift()}
}

var processStart = time.Now()
