package nemesis

import "time"

// Faults that have several strengths are counted by what they were in the end.
const (
	FreezeWithin = "freeze within the lease"
	FreezeBeyond = "freeze beyond the lease"
	FreezeFence  = "freeze beyond lease and fence"

	ClockStep   = "clock set by more than 1 s"
	ClockNearly = "clock set by less"

	// LossWindows are times in which answers to COMMIT were lost, not the answers.
	LossWindows = "windows of lost commits"
)

// clockStep is a difference of clocks that cannot be passed over as inaccuracy.
const clockStep = time.Second

// frozenFor names a freeze by how long a server stood.
func (w World) frozenFor(d time.Duration) string {
	switch {
	case d > w.Lease+w.Fence:
		return FreezeFence
	case d > w.Lease:
		return FreezeBeyond
	default:
		return FreezeWithin
	}
}

// stepBy names a step of a clock by its size.
func stepBy(d time.Duration) string {
	if d.Abs() > clockStep {
		return ClockStep
	}
	return ClockNearly
}
