package firing

import "time"

// Overlap is the policy for a firing while an earlier job of its schedule has not ended. The
// numbers are the contract's.
type Overlap int

// The overlap policies, the strictest last.
const (
	// BufferOne makes the first such firing wait, and skips the firings that come meanwhile.
	BufferOne Overlap = 2
	// Skip makes no job.
	Skip Overlap = 1
	// Allow makes the job in any case.
	Allow Overlap = 3
)

// CatchUp is the policy for firings that were missed. The numbers are the contract's.
type CatchUp int

// The catch-up policies.
const (
	// CatchUpNone makes no jobs for them.
	CatchUpNone CatchUp = iota + 1
	// CatchUpLatest makes a job for the latest one within the window.
	CatchUpLatest
	// CatchUpAll makes a job for each one within the window, in their order. With Skip, which
	// lets only one job start, that is the latest one.
	CatchUpAll
)

const (
	// Late is the delay above which a firing counts as missed in any case. It covers a restart
	// and a pause of the machine.
	Late = time.Minute
	// Pace is the time between two caught-up jobs.
	Pace = time.Second
	// DefaultCatchUpWindow is how old a missed firing may be if the schedule does not say.
	DefaultCatchUpWindow = time.Hour
)

// Policies are a schedule's rules beside its times, with the defaults filled in.
type Policies struct {
	// Overlap applies while an earlier job waits or is sent, WhileUnresolved while the
	// outcome of an earlier job is unknown. If both apply, the stricter one counts.
	Overlap, WhileUnresolved Overlap
	CatchUp                  CatchUp
	CatchUpWindow            time.Duration
	// PauseAfterFailures pauses the schedule when this many of its jobs in a row ended
	// without an effect; 0: never.
	PauseAfterFailures int
	// PauseOnAuthHold pauses the schedule, instead of firing, while the connection has no
	// usable credential.
	PauseOnAuthHold bool
	// MaxPerDay bounds the jobs of one date; 0: there is no bound.
	MaxPerDay int64
	// MaxFirings ends the schedule after this many jobs; 0: never.
	MaxFirings int64
}

// Filled returns the policies with their defaults.
func (p Policies) Filled() Policies {
	if p.Overlap == 0 {
		p.Overlap = BufferOne
	}
	if p.WhileUnresolved == 0 {
		p.WhileUnresolved = BufferOne
	}
	if p.CatchUp == 0 {
		p.CatchUp = CatchUpLatest
	}
	if p.CatchUpWindow == 0 {
		p.CatchUpWindow = DefaultCatchUpWindow
	}
	return p
}

// stricter returns the policy that makes fewer jobs.
func stricter(a, b Overlap) Overlap {
	switch {
	case a == Skip || b == Skip:
		return Skip
	case a == BufferOne || b == BufferOne:
		return BufferOne
	default:
		return Allow
	}
}
