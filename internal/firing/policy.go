package firing

import "time"

// Overlap is what a firing does while an earlier job of its schedule has not ended. The
// numbers are the contract's.
type Overlap int

// The overlap policies, the strictest last.
const (
	// BufferOne has the first such firing wait, and skips those that come meanwhile.
	BufferOne Overlap = 2
	// Skip makes no job.
	Skip Overlap = 1
	// Allow makes the job in any case.
	Allow Overlap = 3
)

// CatchUp is what becomes of firings that were missed. The numbers are the contract's.
type CatchUp int

// The catch-up policies.
const (
	// CatchUpNone makes no job of any of them.
	CatchUpNone CatchUp = iota + 1
	// CatchUpLatest makes a job of the latest one inside the window.
	CatchUpLatest
	// CatchUpAll makes a job of each one inside the window, the latest MaxCaughtUp at most.
	CatchUpAll
)

const (
	// Late is from when on a firing counts as missed. It covers a restart and a pause of the
	// machine; a firing that is less late is an ordinary one.
	Late = time.Minute
	// MaxCaughtUp bounds the jobs that one outage makes.
	MaxCaughtUp = 100
	// Pace is the distance of caught-up jobs.
	Pace = time.Second
	// DefaultCatchUpWindow is how old a missed firing may be unless the schedule says it.
	DefaultCatchUpWindow = time.Hour
)

// Policies are a schedule's rules beside its times, with the defaults filled in.
type Policies struct {
	// Overlap applies while an earlier job waits or is sent, WhileUnresolved while the
	// outcome of one is unknown. Where both apply, the stricter one counts.
	Overlap, WhileUnresolved Overlap
	CatchUp                  CatchUp
	CatchUpWindow            time.Duration
	// PauseAfterFailures pauses the schedule when so many of its jobs in a row ended
	// without an effect; 0: never.
	PauseAfterFailures int
	// PauseOnAuthHold pauses it instead of firing while the connection has no usable
	// credential.
	PauseOnAuthHold bool
	// MaxPerDay bounds the jobs of one date; 0: there is no bound.
	MaxPerDay int64
	// MaxFirings ends the schedule after so many jobs; 0: never.
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
