package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

func clockUnaskedForward(c *clockFixture) { clockUnasked(c, time.Hour) }

func clockUnaskedBack(c *clockFixture) { clockUnasked(c, -time.Hour) }

// clockUnasked: a job that starts as soon as possible does not wait because the clock was set,
// and its windows keep what is left of them. Requested times, and the time that every answer
// has, stay.
func clockUnasked(c *clockFixture, by time.Duration) {
	later := at(start.Add(3 * time.Hour))
	c.conn = c.connect(store.Connection{MaxInFlight: 10})
	soon, asked := c.submit(holding("soon")), c.submit(holding("asked"), at(start.Add(90*time.Minute)))
	waits := c.submit(replying(soon.ID), holding("reply"))
	moved := c.apply(c.submit(holding("moved"), later), job.RescheduleAsked{}).Snapshot
	run := c.apply(c.submit(holding("run"), later), job.RunNowAsked{}).Snapshot
	times := func(s job.Snapshot, by time.Duration) []time.Time {
		return []time.Time{s.ScheduleTime, s.StartDeadline.Add(by), s.NextAt.Add(by)}
	}
	c.fixture.clock.advance(10 * time.Second)
	c.machine.Set(by)
	c.step()
	for what, s := range map[string]job.Snapshot{"a job": soon, "a reply": waits, "a rescheduled job": moved} {
		c.is(times(c.job(s.ID), 0), times(s, by), "times of %s", what)
	}
	c.is(times(c.job(asked.ID), 0), times(asked, 0), "requested times")
	c.is(times(c.job(run.ID), 0)[:2], times(run, 0)[:2], "requested times of a job that runs now")
	started := make(map[job.ID]bool)
	for _, l := range c.tried() {
		started[l.ID] = true
	}
	c.is(started, map[job.ID]bool{soon.ID: true, moved.ID: true, run.ID: true}, "jobs claimed")
}

// clockRetried: a retry for which no time was requested starts as soon as possible too, and
// the time that was requested for the job stays.
func clockRetried(c *clockFixture) {
	failed := c.sending(at(start.Add(-time.Minute)))
	ended := c.apply(failed.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent, Message: "no"})
	again := c.apply(ended.Snapshot, job.RetryAsked{}).Snapshot
	c.is(again.Unasked, true, "not requested")
	c.machine.Set(-time.Hour)
	c.step()
	got := c.job(again.ID)
	c.is([]time.Time{got.ScheduleTime, got.StartDeadline}, []time.Time{again.ScheduleTime, again.StartDeadline.Add(-time.Hour)}, "times")
	c.is(c.claims(again.ID)(), true, "claimed")
}

func clockTryingForward(c *clockFixture) { clockTrying(c, time.Hour) }

func clockTryingBack(c *clockFixture) { clockTrying(c, -time.Hour) }

// clockTrying: no caller requested when a job began, so its time to keep trying keeps what is
// left of it, also if a caller requested the time of the job.
func clockTrying(c *clockFixture, by time.Duration) {
	c.conn = c.connect(store.Connection{MaxInFlight: 10})
	asked, early := at(start.Add(-50*time.Minute)), at(start.Add(3*time.Hour))
	var before []job.Snapshot
	for _, edit := range []func(*store.NewJob){asked, early} {
		s := c.submit(edit, trying(9*time.Hour))
		if s.NextAt.After(start) {
			c.apply(s, job.RunNowAsked{})
		}
		s = c.arm(c.claim()).Snapshot
		before = append(before, c.apply(s, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailTransient}).Snapshot)
	}
	c.machine.Set(by)
	c.step()
	for _, s := range before {
		got := c.job(s.ID)
		c.is([]any{got.KeepTrying, got.StartDeadline, got.ScheduleTime}, []any{9 * time.Hour, s.StartDeadline.Add(by), s.ScheduleTime}, "end, and canonical time")
	}
	s := before[0]
	due := s.NextAt.Add(by)
	if due.Before(s.ScheduleTime) {
		due = s.ScheduleTime
	}
	c.is(c.job(s.ID).NextAt, due, "its own wait")
}

// clockEcho: every answer to a request has the same time, also after a step.
func clockEcho(c *clockFixture) {
	n := c.new()
	made := c.create(n)[0]
	c.machine.Set(-time.Hour)
	c.step()
	again := c.create(n)[0]
	c.is([]any{made.Created, again.Created, again.Snapshot.ID}, []any{true, false, n.Spec.ID}, "created, created, id")
	c.is(again.Snapshot.ScheduleTime, made.Snapshot.ScheduleTime, "time in the answer to the repeat")
}

// clockPast: what happened before a step back is never later than now.
func clockPast(c *clockFixture) {
	paused := c.connect(store.Connection{})
	why := "why"
	paused = c.revise(paused, store.ConnectionChange{Pause: &why})
	_, err := c.s.CreateAPIKey(c.ctx, newKey("a"))
	c.ok(err)
	_, err = c.s.TouchAPIKey(c.ctx, "a", time.Minute)
	c.ok(err)
	waits := c.submit()
	stop := c.stop(store.Stop{Scope: store.StopConnection, Project: project, Connection: c.conn.ID})
	planned := c.stop(store.Stop{Scope: store.StopDestination, Destination: "elsewhere", Begin: start.Add(time.Minute)})
	// One is to be looked at again, one has its next firing later.
	look := c.schedule(func(s *store.Schedule) { s.Next = start.Add(store.BufferedLook) })
	far := c.schedule(func(s *store.Schedule) { s.Next = start.Add(2 * store.BufferedLook) })
	c.machine.Set(-time.Hour)
	c.step()
	now := start.Add(-time.Hour)
	c.is(c.connection(paused.ID).PausedAt, now, "the pause")
	stop.Begin = now
	stops, err := c.s.ListStops(c.ctx, store.StopQuery{Limit: 10})
	c.ok(err)
	c.is(stops.Stops, []store.Stop{planned, stop}, "the stops")
	for _, l := range c.claimN(10) {
		c.is(l.ID == waits.ID, false, "claimed what is stopped")
	}
	k, err := c.s.APIKey(c.ctx, "a")
	c.ok(err)
	c.is(k.LastUsed, now, "the last use")
	c.is(c.readSchedule(look.ID).Next, now, "the next decision")
	c.is(c.readSchedule(far.ID).Next, far.Next, "the next firing")
}

// clockSteady: the steady clock advances by what passes, through jumps, steps and restarts.
func clockSteady(c *clockFixture) {
	last, passed := c.meta().Steady, time.Duration(0)
	pass := func(when string) {
		c.Helper()
		c.fixture.clock.advance(time.Second)
		passed += time.Second
		c.is(c.meta().Steady.Sub(last), passed, "time that passed %s", when)
	}
	pass("at first")
	for _, off := range []time.Duration{time.Hour, -time.Hour, 0} {
		c.machine.Set(off)
		pass("after a jump")
		c.step()
		pass("after a step")
	}
	c.restart(true)
	pass("after a restart")
}
