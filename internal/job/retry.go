package job

import (
	"cmp"
	"slices"
	"time"
)

// RetryPolicy is how often, how soon and for how long a job is tried again. What a job leaves
// unset, it takes from its connection, what that leaves unset from its connector, and the rest
// from the defaults (see Over and InForce).
type RetryPolicy struct {
	// MaxAttempts counts the attempts that were proven to have no effect; default 5.
	MaxAttempts int
	// Delays are the waits after the first, second, … failure; the last one repeats. At most
	// MaxDelays. Empty: MinBackoff, Multiplier and MaxBackoff determine the waits.
	Delays []time.Duration
	// MinBackoff is the first wait, each later one is Multiplier times as long, and none is
	// longer than MaxBackoff; default 30 s, 4 and 1 h.
	MinBackoff, MaxBackoff time.Duration
	Multiplier             float64
	// KeepTrying is how long after its first attempt a job is tried again, at most
	// MaxKeepTrying; default 2 h.
	KeepTrying time.Duration
	// AttemptTimeout is the time for one request's answer; default 30 s, limit 10 min. It is
	// the job's alone.
	AttemptTimeout time.Duration
}

const (
	// DefaultMaxAttempts is RetryPolicy.MaxAttempts when unset.
	DefaultMaxAttempts = 5
	// DefaultMinBackoff is the first wait of a policy that states none.
	DefaultMinBackoff = 30 * time.Second
	// DefaultMultiplier is how much longer its next waits are.
	DefaultMultiplier = 4.0
	// DefaultMaxBackoff bounds them.
	DefaultMaxBackoff = time.Hour
	// MaxBackoff is the longest wait between two attempts that a policy may state.
	MaxBackoff = 24 * time.Hour
	// MaxDelays is the most waits in its list.
	MaxDelays = 20
	// MaxMultiplier is the largest factor between two waits.
	MaxMultiplier = 10.0
	// DefaultKeepTrying is RetryPolicy.KeepTrying when unset.
	DefaultKeepTrying = 2 * time.Hour
	// MaxKeepTrying is its limit.
	MaxKeepTrying = 30 * 24 * time.Hour
	// DefaultAttemptTimeout is RetryPolicy.AttemptTimeout when unset.
	DefaultAttemptTimeout = 30 * time.Second
	// SendTimeout bounds the writing of a request, first byte to last.
	SendTimeout = 10 * time.Second
	// MaxSendTimeout bounds it for uploads.
	MaxSendTimeout = 10 * time.Minute
	// MaxOpenTimeout bounds the preparation before the intent when files have to be fetched.
	MaxOpenTimeout = 5 * time.Minute
	// MaxClaims is how many leases in a row may run out before an intent.
	MaxClaims = 5
	// MaxAttempts is the most attempts a job can ever arm, replays included.
	MaxAttempts = 200
	// jitterShare is the largest part of a wait that jitter removes.
	jitterShare = 0.2
)

var (
	// replayWaits are the waits before an unknown KEYED attempt is repeated under its key, if
	// the policy states no waits. They start short: the receiver dedupes, so the only cost of
	// an early replay is a "still in progress" answer.
	replayWaits = []time.Duration{2 * time.Second, 10 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}
	// claimWaits are the waits after leases that ran out. The first is zero: one
	// killed server must not delay its jobs further.
	claimWaits = []time.Duration{0, 5 * time.Second, 30 * time.Second, 2 * time.Minute}
	// lookWaits are the waits after looks that could not be completed.
	lookWaits = []time.Duration{5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute}
	// pollWaits are the waits between two polls of a handle.
	pollWaits = func() []time.Duration {
		w := make([]time.Duration, 0, 19)
		for range 18 {
			w = append(w, 5*time.Second)
		}
		return append(w, 15*time.Second, time.Minute)
	}()
)

// Attempts returns the budget of proven failures.
func (p RetryPolicy) Attempts() int {
	if p.MaxAttempts <= 0 {
		return DefaultMaxAttempts
	}
	return p.MaxAttempts
}

// Keep returns how long after its first attempt a job is tried again.
func (p RetryPolicy) Keep() time.Duration { return cmp.Or(p.KeepTrying, DefaultKeepTrying) }

// Over returns the policy with base's values for what it leaves unset. The waits are one value:
// a policy that states any of Delays, MinBackoff and Multiplier has no waits of base, and
// MaxBackoff alone bounds those of base.
func (p RetryPolicy) Over(base RetryPolicy) RetryPolicy {
	if !p.statesWaits() {
		p.Delays, p.MinBackoff, p.Multiplier = base.Delays, base.MinBackoff, base.Multiplier
		p.MaxBackoff = cmp.Or(p.MaxBackoff, base.MaxBackoff)
	}
	p.MaxAttempts, p.KeepTrying = cmp.Or(p.MaxAttempts, base.MaxAttempts), cmp.Or(p.KeepTrying, base.KeepTrying)
	return p
}

func (p RetryPolicy) statesWaits() bool {
	return len(p.Delays) > 0 || p.MinBackoff > 0 || p.Multiplier > 0
}

// InForce returns the policy with its defaults filled in. Its waits are the same, except those
// before repeats under a key, which a policy without stated waits has of its own.
func (p RetryPolicy) InForce() RetryPolicy {
	out := RetryPolicy{MaxAttempts: p.Attempts(), Delays: p.Delays, KeepTrying: p.Keep(), AttemptTimeout: p.Timeout()}
	if len(p.Delays) == 0 {
		out.MaxBackoff, out.Multiplier = p.longest(), cmp.Or(p.Multiplier, DefaultMultiplier)
		out.MinBackoff = min(cmp.Or(p.MinBackoff, DefaultMinBackoff), out.MaxBackoff)
	} else if p.MaxBackoff > 0 {
		out.MaxBackoff = p.longest()
	}
	return out
}

// Equal reports whether two policies state the same.
func (p RetryPolicy) Equal(o RetryPolicy) bool {
	return p.MaxAttempts == o.MaxAttempts && slices.Equal(p.Delays, o.Delays) && p.MinBackoff == o.MinBackoff &&
		p.MaxBackoff == o.MaxBackoff && p.Multiplier == o.Multiplier && p.KeepTrying == o.KeepTrying && p.AttemptTimeout == o.AttemptTimeout
}

// Timeout returns the time for one request's answer.
func (p RetryPolicy) Timeout() time.Duration {
	if p.AttemptTimeout <= 0 {
		return DefaultAttemptTimeout
	}
	return p.AttemptTimeout
}

// Backoff returns the wait after the n-th proven failure (n from 1). jitter in [0,1) only
// shortens the wait, so that a stated maximum holds.
func (p RetryPolicy) Backoff(n int, jitter float64) time.Duration {
	if len(p.Delays) > 0 {
		return p.shorten(at(p.Delays, n-1), jitter)
	}
	wait, factor, longest := float64(cmp.Or(p.MinBackoff, DefaultMinBackoff)), cmp.Or(p.Multiplier, DefaultMultiplier), float64(p.longest())
	for i := 1; i < n && wait < longest; i++ {
		wait *= factor
		if factor <= 1 {
			break
		}
	}
	return p.shorten(time.Duration(min(wait, longest)), jitter)
}

// Replay returns the wait before the n-th repeat of an unknown KEYED attempt: the stated waits,
// or short ones.
func (p RetryPolicy) Replay(n int, jitter float64) time.Duration {
	if p.statesWaits() {
		return p.Backoff(n, jitter)
	}
	return p.shorten(at(replayWaits, n-1), jitter)
}

// longest returns the longest wait. A list of delays is bounded only by a stated MaxBackoff.
func (p RetryPolicy) longest() time.Duration {
	if p.MaxBackoff == 0 && len(p.Delays) > 0 {
		return MaxBackoff
	}
	return min(cmp.Or(p.MaxBackoff, DefaultMaxBackoff), MaxBackoff)
}

func (p RetryPolicy) shorten(wait time.Duration, jitter float64) time.Duration {
	wait = min(wait, p.longest())
	return wait - time.Duration(float64(wait)*jitterShare*jitter)
}

// at returns the i-th wait of a table, and the last one for an index past the end.
func at(waits []time.Duration, i int) time.Duration {
	return waits[max(0, min(i, len(waits)-1))]
}
