package rules

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// DefaultMaxInFlight is how many jobs of a connection that states no bound may be under way.
const DefaultMaxInFlight = 100

// Bounds are those of a connection, with what is used of them.
type Bounds struct {
	// MaxInFlight is the connection's own bound, and Default that of one that states none.
	MaxInFlight, Default int64
	// Busy is how many of its jobs are CLAIMED or SENDING.
	Busy   int64
	Bucket store.Bucket
}

// Free is how many more of its jobs may be under way; none, if it is not positive.
func (b Bounds) Free() int64 {
	limit := b.MaxInFlight
	if limit <= 0 {
		limit = b.Default
	}
	return limit - b.Busy
}

// Room is how many more of its jobs a claim may take, at a time in microseconds.
func (b Bounds) Capacity(now int64) int64 {
	if b.Bucket.PerMinute == 0 {
		return b.Free()
	}
	return min(b.Free(), b.Bucket.Tokens(now))
}

// Paced reports whether a connection that counts its starts has none left. Its bucket says
// when it has one again.
func Paced(b store.Bucket, now int64) bool { return b.PerMinute > 0 && b.Tokens(now) == 0 }

// Take returns the bucket after n jobs were claimed.
func Take(b store.Bucket, now, n int64) store.Bucket {
	if b.PerMinute == 0 || n == 0 {
		return b
	}
	return b.Take(now, n)
}

// Share is the part of a claim that one of some ready rows gets at first: all get the same,
// and what is left goes to those that have more.
func Share(left, rows int64) int64 { return max(1, left/rows) }

// Claimed is a job that is due as a claim leaves it.
func Claimed(j job.Job, p *store.ClaimParams, token job.ID, now time.Time) job.Job {
	j = Leased(j, p, token, now)
	j.State, j.Version, j.Blocked, j.Updated = job.Claimed, j.Version+1, "", now
	return j
}

// Leased is a job that is looked at, or polled, as its lease leaves it: no version, no event.
func Leased(j job.Job, p *store.ClaimParams, token job.ID, now time.Time) job.Job {
	j.ClaimToken, j.Worker, j.NextAt = token, p.Worker, soon(now, p.Lease)
	return j
}
