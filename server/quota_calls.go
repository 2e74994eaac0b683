package server

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rules of this file: each server has its own buckets, and forgets a bucket that is full again: a
// full bucket and none are the same. So the buckets are bounded by the use at the moment, and by
// a number.

// maxBucketsKept bounds the projects, and the peers, whose buckets are kept.
const maxBucketsKept = 10_000

// buckets are token buckets, by project or by peer.
type buckets struct {
	now func() time.Time

	mu sync.Mutex
	of map[string]*rate.Limiter
}

func newBuckets(now func() time.Time) *buckets {
	return &buckets{now: now, of: make(map[string]*rate.Limiter)}
}

// bucket returns the bucket under a name.
func (b *buckets) bucket(name string, pace rate.Limit, size int) *rate.Limiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l, ok := b.of[name]; ok {
		return l
	}
	if len(b.of) >= maxBucketsKept {
		b.sweep()
	}
	l := rate.NewLimiter(pace, size)
	b.of[name] = l
	return l
}

// sweep forgets buckets that are full, and where too many are in use, any: a quarter of
// all at least, so that a flood of peers does not sweep with each call.
func (b *buckets) sweep() {
	now := b.now()
	for name, l := range b.of {
		if l.TokensAt(now) >= float64(l.Burst()) {
			delete(b.of, name)
		}
	}
	for name := range b.of {
		if len(b.of) <= maxBucketsKept*3/4 {
			return
		}
		delete(b.of, name)
	}
}

// take takes a token, or returns how long until there is one.
func take(l *rate.Limiter, now time.Time) (wait time.Duration, taken bool) {
	if l.AllowN(now, 1) {
		return 0, true
	}
	missing := 1 - l.TokensAt(now)
	return time.Duration(missing / float64(l.Limit()) * float64(time.Second)), false
}

// callQuota refuses a call of a project that calls too fast.
func (a *authenticator) callQuota(project string) *fault {
	limit := a.quotas.limit(project, QuotaCalls)
	if limit == 0 || project == "" {
		return nil
	}
	wait, taken := take(a.calls.bucket(project, rate.Limit(limit), int(limit)), a.now())
	if taken {
		return nil
	}
	a.quotaLog.usedUp(project, QuotaCalls, limit, limit)
	return tooManyCalls(QuotaCalls, limit, wait,
		fmt.Sprintf("the project makes more than %d calls a second; repeat the call after a while", limit))
}

// callsUsed returns how many of the calls that may come together have come.
func (a *authenticator) callsUsed(project string, limit int64) int64 {
	if limit == 0 {
		return 0
	}
	a.calls.mu.Lock()
	l, ok := a.calls.of[project]
	a.calls.mu.Unlock()
	if !ok {
		return 0
	}
	return limit - int64(max(0, l.TokensAt(a.now())))
}
