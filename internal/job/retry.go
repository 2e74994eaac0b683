package job

import "time"

// RetryPolicy bounds the attempts that were proven to have no effect. Zero
// fields take the defaults.
type RetryPolicy struct {
	MaxAttempts    int           // default 5
	MinBackoff     time.Duration // the first wait; default 30 s
	MaxBackoff     time.Duration // no wait is longer; default and limit 1 h
	AttemptTimeout time.Duration // for one request's answer; default 30 s, limit 10 min
}

const (
	// DefaultMaxAttempts is RetryPolicy.MaxAttempts when unset.
	DefaultMaxAttempts = 5
	// MaxBackoff is the longest wait between two attempts.
	MaxBackoff = time.Hour
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
	// retryWaits are the waits after the first, second, … failure that is proven.
	retryWaits = []time.Duration{30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}
	// replayWaits are the waits before an unknown KEYED attempt is repeated under
	// its key. They start short: the receiver dedupes, so the only cost of an
	// early replay is a "still in progress" answer.
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

// InForce returns the policy with its defaults filled in. Its waits are the same.
func (p RetryPolicy) InForce() RetryPolicy {
	out := RetryPolicy{MaxAttempts: p.Attempts(), MinBackoff: p.MinBackoff, MaxBackoff: MaxBackoff, AttemptTimeout: p.Timeout()}
	if p.MaxBackoff > 0 {
		out.MaxBackoff = min(p.MaxBackoff, MaxBackoff)
	}
	if out.MinBackoff <= 0 {
		out.MinBackoff = retryWaits[0]
	}
	out.MinBackoff = min(out.MinBackoff, out.MaxBackoff)
	return out
}

// Timeout returns the time for one request's answer.
func (p RetryPolicy) Timeout() time.Duration {
	if p.AttemptTimeout <= 0 {
		return DefaultAttemptTimeout
	}
	return p.AttemptTimeout
}

// Backoff returns the wait after the n-th proven failure (n from 1). With a
// MinBackoff, the table starts there and keeps its ratios. jitter in [0,1) only
// shortens the wait, so that a stated maximum holds.
func (p RetryPolicy) Backoff(n int, jitter float64) time.Duration {
	wait := at(retryWaits, n-1)
	if p.MinBackoff > 0 {
		wait = time.Duration(float64(p.MinBackoff) * float64(wait) / float64(retryWaits[0]))
	}
	return p.shorten(wait, jitter)
}

// Replay returns the wait before the n-th repeat of an unknown KEYED attempt.
func (p RetryPolicy) Replay(n int, jitter float64) time.Duration {
	return p.shorten(at(replayWaits, n-1), jitter)
}

func (p RetryPolicy) shorten(wait time.Duration, jitter float64) time.Duration {
	limit := MaxBackoff
	if p.MaxBackoff > 0 {
		limit = min(p.MaxBackoff, MaxBackoff)
	}
	wait = min(wait, limit)
	return wait - time.Duration(float64(wait)*jitterShare*jitter)
}

// at returns the i-th wait of a table, and the last one for an index past the end.
func at(waits []time.Duration, i int) time.Duration {
	return waits[max(0, min(i, len(waits)-1))]
}
