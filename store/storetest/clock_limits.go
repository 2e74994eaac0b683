package storetest

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// clockLimits are times that were computed from a duration and bound what may be done. Each
// reports how long its bound still holds; 0: it is over.
var clockLimits = []struct {
	name string
	// begin makes a bound of a minute, and returns how much of it is left.
	begin func(*clockFixture) func() time.Duration
}{
	{"a rate limit", limitOfPlatform},
	{"a pace", limitOfPace},
	{"a lease to renew tokens", limitOfRenewal},
	{"a rest between renewals", limitOfRest},
	{"renewals apart", limitOfApart},
	{"a login", limitOfLogin},
	{"a cool-down", limitOfCoolDown},
	{"a wait after a failure", limitOfBackoff},
	{"a lease to clean", limitOfRetention},
	{"a lease to count", limitOfRoll},
	{"the fence of a job that ended", limitOfFence},
}

// RunClockLimits checks each bound in four cases: it is over or running, and the clock is set
// forward or back. A bound that is over stays over, and a running one keeps what is left.
func RunClockLimits(t *testing.T, engine Clocked) {
	for _, limit := range clockLimits {
		t.Run(limit.name, func(t *testing.T) { runClockLimit(t, engine, limit.begin) })
	}
}

func runClockLimit(t *testing.T, engine Clocked, begin func(*clockFixture) func() time.Duration) {
	t.Helper()
	for _, tt := range []struct {
		name   string
		by     time.Duration
		passed time.Duration
	}{
		{"over, and a step back", -time.Hour, 2 * time.Minute},
		{"over, and a short step back", -90 * time.Second, 2 * time.Minute},
		{"running, and a step back", -time.Hour, 20 * time.Second},
		{"over, and a step forward", time.Hour, 2 * time.Minute},
		{"running, and a step forward", time.Hour, 20 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClockFixture(t, engine)
			left := begin(c)
			c.fixture.clock.advance(tt.passed)
			c.machine.Set(tt.by)
			c.step()
			c.is(left(), max(0, time.Minute-tt.passed), "left after the step")
		})
	}
}

// until returns how long a new claim finds nothing, to the second.
func (c *clockFixture) until(found func() bool) time.Duration {
	c.Helper()
	for left := time.Duration(0); left <= 3*time.Hour; left += time.Second {
		if found() {
			return left
		}
		c.fixture.clock.advance(time.Second)
	}
	return 3 * time.Hour
}

func (c *clockFixture) claims(id job.ID) func() bool {
	return func() bool {
		for _, l := range c.tried() {
			if l.ID == id {
				return true
			}
		}
		return false
	}
}

func limitOfPlatform(c *clockFixture) func() time.Duration {
	sent := c.sending()
	c.apply(sent.Snapshot, job.Outcome{
		Attempt: 1, Result: job.ResultRejected, Kind: job.FailRateLimited, Message: "wait", RetryAfter: time.Minute,
	})
	return func() time.Duration {
		// The limit is the account's: it holds a new job too.
		return c.until(c.claims(c.submit().ID))
	}
}

func limitOfPace(c *clockFixture) func() time.Duration {
	conn := c.connect(store.Connection{MaxPerMinute: 1})
	c.submit(on(conn))
	c.is(len(c.tried()), 1, "jobs claimed")
	c.submit(on(conn)) // a claim that finds the bucket empty records until when
	c.is(len(c.tried()), 0, "jobs claimed beyond the pace")
	return func() time.Duration { return c.until(func() bool { return len(c.tried()) > 0 }) }
}

func limitOfRenewal(c *clockFixture) func() time.Duration {
	c.credentialed()
	c.is(c.leaseRenewal(1, c.id()).Granted, true, "granted")
	return func() time.Duration { return c.leaseRenewal(1, c.id()).Left }
}

func limitOfRest(c *clockFixture) func() time.Duration {
	c.credentialed()
	owner := c.id()
	c.is(c.leaseRenewal(1, owner).Granted, true, "granted")
	c.ok(c.s.EndRenewal(c.ctx, c.conn.ID, owner, time.Minute, false))
	return func() time.Duration { return c.leaseRenewal(1, c.id()).Left }
}

func limitOfApart(c *clockFixture) func() time.Duration {
	c.credentialed()
	c.is(c.leaseRenewal(1, c.id()).Granted, true, "granted")
	c.credentialed()
	return func() time.Duration {
		return c.until(func() bool {
			return c.leaseRenewal(2, c.id(), func(p *store.RenewalParams) { p.Apart = time.Minute }).Granted
		})
	}
}

func limitOfLogin(c *clockFixture) func() time.Duration {
	l := c.login()
	c.fixture.clock.advance(9 * time.Minute)
	return func() time.Duration {
		return c.until(func() bool {
			_, err := c.s.ReadLogin(c.ctx, l.State)
			return err != nil
		})
	}
}

func limitOfCoolDown(c *clockFixture) func() time.Duration {
	conn := c.connect(store.Connection{CoolDown: time.Minute})
	c.submit(on(conn))
	c.arm(c.leases(1)[0])
	return func() time.Duration {
		next := c.submit(on(conn))
		for _, l := range c.tried() {
			if l.ID != next.ID {
				continue
			}
			return c.until(func() bool { return c.armOne(c.intent(l)).Err == nil })
		}
		c.Fatal("the next job is not claimed")
		return 0
	}
}

func limitOfBackoff(c *clockFixture) func() time.Duration {
	failed := c.sending(func(n *store.NewJob) {
		n.Spec.Retry = job.RetryPolicy{MaxAttempts: 3, MinBackoff: 10 * time.Minute, MaxBackoff: 10 * time.Minute}
	})
	waits := c.apply(failed.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailTransient, Message: "later"})
	c.fixture.clock.advance(waits.Snapshot.NextAt.Sub(c.fixture.clock.now()) - time.Minute)
	return func() time.Duration { return c.until(c.claims(failed.Snapshot.ID)) }
}

func limitOfRetention(c *clockFixture) func() time.Duration {
	clean := func(owner job.ID) bool {
		r, err := c.s.Retain(c.ctx, store.RetainParams{Keep: keeping, Owner: owner, Lease: time.Minute})
		c.ok(err)
		return !r.Busy
	}
	c.is(clean(job.ID{1}), true, "cleaned")
	if clean(job.ID{2}) {
		c.Skip("one process cleans, without a lease")
	}
	return func() time.Duration { return c.until(func() bool { return clean(job.ID{2}) }) }
}

func limitOfRoll(c *clockFixture) func() time.Duration {
	count := func(owner job.ID) bool {
		r, err := c.s.Roll(c.ctx, store.RollParams{Owner: owner, Lease: time.Minute})
		c.ok(err)
		return !r.Busy
	}
	c.is(count(job.ID{1}), true, "counted")
	if count(job.ID{2}) {
		c.Skip("one process counts, without a lease")
	}
	return func() time.Duration { return c.until(func() bool { return count(job.ID{2}) }) }
}

// limitOfFence: a retry after a person's ruling waits for the fence of the last attempt.
func limitOfFence(c *clockFixture) func() time.Duration {
	sent := c.sending()
	seen := c.apply(sent.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultUnknown, Message: "no answer"})
	c.apply(seen.Snapshot, job.Resolved{Ruling: job.RuleNotSent, Actor: "a person", Override: true})
	return func() time.Duration {
		ended := c.job(sent.Snapshot.ID)
		again := c.apply(ended, job.RetryAsked{})
		return again.Snapshot.NextAt.Sub(again.Snapshot.Now)
	}
}
