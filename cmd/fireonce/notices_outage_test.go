//go:build failpoints

package main

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// falls has each request answered with 503 or broken off, until it is up again.
func (s *subscriber) falls(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// failed returns the ids of the notices that were tried meanwhile.
func (s *subscriber) failed() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.tried))
}

// refusals returns how many requests it had while it was down.
func (s *subscriber) refusals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// TestSubscriberDownForADay has a receiver of notices down for a day of the server's clock, with jobs
// that end in each two hours of it, and a server that is killed at the end of each. Once it is up again, each job
// must be reported once, in order, and first the notice that failed, under its id.
func TestSubscriberDownForADay(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		url := onSQLite.database(t)
		downForADay(t, url, func(time.Duration) {})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url, clock := clockedPostgres(t)
		downForADay(t, url, func(off time.Duration) { clock.Set(t, off) })
	})
}

func downForADay(t *testing.T, url string, set func(time.Duration)) {
	const lives, life, each = 12, 2 * time.Hour, 4
	told := startSubscriber(t)
	told.falls(true)
	c := newClocked(t, url, receiver.Options{Dedupes: true})
	start := func(n int) {
		off := time.Duration(n) * life
		set(off)
		c.start([]string{fmt.Sprint("FIREONCE_CLOCK_OFFSET=", off), fmt.Sprint("FIREONCE_BOOT_ID=", n)})
	}
	start(0)
	if err := told.subscribed(true)(waiting(t), c.api); err != nil {
		t.Fatal(err)
	}
	jobs, tried := 0, 0
	var failures int32
	for n := range lives {
		if n > 0 {
			start(n)
		}
		before := told.refusals()
		for range each {
			c.schedule(subjectOf(jobs), time.Time{})
			jobs++
		}
		c.ends(jobs)
		failures = c.tries(told, before, failures)
		if told.refusals() > before {
			tried++
		}
		c.kill()
	}
	ids := told.failed()
	if len(ids) != 1 || told.told() != 0 || tried < lives/2 {
		t.Fatalf("after a day %d notices were tried, and %d changes told, in %d lives of %d", len(ids), told.told(), tried, lives)
	}
	told.falls(false)
	start(lives)
	told.wait(jobs)
	for now := c.told(); now.GetUnderWay(); now = c.told() {
	}
	now := c.told()
	if now.GetState() != subscriptionsv1.SubscriptionState_SUBSCRIPTION_STATE_ACTIVE || now.GetFailedNoticeNumber() != 0 {
		t.Errorf("in the end: %v", now)
	}
	c.kill()
	t.Logf("%d requests were refused in %d lives of %d; %d jobs in %d notices", told.refusals(), tried, lives, jobs, len(told.order))
	if told.order[0].id != ids[0] {
		t.Errorf("the first notice came as %s, and failed as %s", told.order[0].id, ids[0])
	}
	judgeNotices(t, url, told, jobs)
}

// tries waits until a notice was tried again, or its job has ended, which another one follows. It
// returns how many of its jobs have ended.
func (c *clocked) tries(told *subscriber, refusals int, failures int32) int32 {
	c.Helper()
	for {
		now := c.told().GetFailureCount()
		if now > failures || told.refusals() > refusals {
			return now
		}
	}
}

func (c *clocked) told() *subscriptionsv1.Subscription {
	c.Helper()
	now, err := toldSubscription(waiting(c), c.api)
	if err != nil {
		c.Fatal(err)
	}
	return now
}
