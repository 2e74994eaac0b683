package rules

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// DefaultMaxInFlight bounds the jobs under way of a connection without a bound of its own.
const DefaultMaxInFlight = 32

// Bounds are a connection's bounds and its present use.
type Bounds struct {
	// MaxInFlight is the connection's own bound, and Default applies where it has none.
	MaxInFlight, Default int64
	// Busy is how many of its jobs are CLAIMED or SENDING.
	Busy   int64
	Bucket store.Bucket
}

// Free returns how many more of its jobs may be under way; none, if it is not positive.
func (b Bounds) Free() int64 {
	limit := b.MaxInFlight
	if limit <= 0 {
		limit = b.Default
	}
	return limit - b.Busy
}

// Capacity returns how many more of its jobs a claim may take, at a time in microseconds.
func (b Bounds) Capacity(now int64) int64 {
	if b.Bucket.PerMinute == 0 {
		return b.Free()
	}
	return min(b.Free(), b.Bucket.Tokens(now))
}

// Paced reports whether a connection with a bound on its starts has no token left. Its bucket
// has the time at which it has one again.
func Paced(b store.Bucket, now int64) bool { return b.PerMinute > 0 && b.Tokens(now) == 0 }

// Take returns the bucket after n jobs were claimed.
func Take(b store.Bucket, now, n int64) store.Bucket {
	if b.PerMinute == 0 || n == 0 {
		return b
	}
	return b.Take(now, n)
}

// Share returns the part of a claim that one of some runnable rows gets at first. All get the
// same; the rest goes to rows that have more jobs.
func Share(left, rows int64) int64 { return max(1, left/rows) }

// Claimed returns a due job as a claim leaves it.
func Claimed(j job.Job, p *store.ClaimParams, token job.ID, now time.Time) job.Job {
	j = Leased(j, p, token, now)
	j.State, j.Version, j.Blocked, j.Updated = job.Claimed, j.Version+1, "", now
	return j
}

// Leased returns a job as a lease for its look or poll leaves it: no version, no event.
func Leased(j job.Job, p *store.ClaimParams, token job.ID, now time.Time) job.Job {
	j.ClaimToken, j.Worker, j.NextAt = token, p.Worker, soon(now, p.Lease)
	return j
}
