package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var vitalsTests = []test{
	{"nothing", vitalsEmpty},
	{"counts over all projects", vitalsCounts},
	{"what is due", vitalsDue},
	{"unknown outcomes", vitalsUnknown},
	{"holds", vitalsHolds},
	{"schedules", vitalsFirings},
	{"schedules that paused themselves", vitalsPaused},
	{"subscriptions", vitalsSubscriptions},
	{"connections by connector", vitalsConnections},
	{"credentials that expire", vitalsExpiring},
}

func (f *fixture) vitals() store.Vitals {
	f.Helper()
	v, err := f.s.Vitals(f.ctx)
	f.ok(err)
	return v
}

func vitalsEmpty(f *fixture) {
	f.is(f.vitals(), store.Vitals{
		Now: start, Holds: map[store.HeldBy]int64{}, PausedSchedules: map[store.PauseCause]int64{},
		Connections: map[string]int64{"fake": 1}, Expiring: map[string]int64{},
	}, "vitals")
}

func vitalsCounts(f *fixture) {
	other := f.connect(store.Connection{Project: "other"})
	theirs := func(n *store.NewJob) { n.Spec.Connection, n.Spec.Project = other.ID, other.Project }
	for _, state := range []job.State{job.NeedsResolution, job.Ambiguous, job.Accepted, job.Sending, job.Claimed, job.Retrying, job.Succeeded} {
		f.inState(state)
	}
	f.sending(theirs)
	first := f.submit(theirs, at(start.Add(time.Hour)))
	f.submit(theirs, at(start.Add(time.Hour)), replying(first.ID))
	v := f.vitals()
	f.is([]int64{v.Waiting, v.InFlight, v.Accepted, v.Ambiguous, v.NeedsResolution}, []int64{3, 3, 1, 1, 1},
		"waiting (one retries, one is due later, one is behind that), in flight, accepted, ambiguous, needs resolution")
}

func vitalsDue(f *fixture) {
	due := func(n int64, oldest time.Duration, what string) {
		f.Helper()
		v := f.vitals()
		f.is(v.Due, n, "due: %s", what)
		f.is(v.OldestDue, oldest, "oldest: %s", what)
	}
	f.submit(at(start.Add(time.Hour)))
	due(0, 0, "before its time")
	f.clock.advance(time.Hour + time.Minute)
	due(1, time.Minute, "a due job")
	f.submit(holding("other"), at(start))
	f.submit(holding("other"), at(start.Add(time.Minute)))
	f.submit(holding("other"), at(start.Add(3*time.Hour)))
	due(3, 61*time.Minute, "two hold keys, and a job that is not due")
	f.claimN(10)
	due(0, 0, "all are claimed")

	f.submit(holding("held"))
	f.holdIt(job.FailAuth, 0)
	f.submit(on(f.connect(store.Connection{PausedAt: start})))
	f.clock.advance(time.Minute)
	due(0, 0, "a hold and a pause")
	one := f.connect(store.Connection{MaxInFlight: 1})
	f.submit(on(one))
	f.submit(on(one))
	f.is(len(f.claimN(10)), 1, "claimed under a limit")
	f.clock.advance(time.Second)
	due(0, 0, "a connection's own limit")
}

func vitalsUnknown(f *fixture) {
	oldest := func(want time.Duration, what string) {
		f.Helper()
		f.is(f.vitals().OldestUnknown, want, "%s", what)
		f.is(f.vitals().OldestUnknown, f.stats(store.StatsQuery{}).OldestUnresolved, "%s, as statistics say", what)
	}
	s := f.sending().Snapshot
	f.clock.advance(10 * time.Second)
	oldest(0, "in mid-send")
	f.apply(s, answer(s, job.ResultUnknown))
	oldest(10*time.Second, "since its arm")
	restored := f.submit(on(f.connect(store.Connection{})))
	f.apply(restored, job.Restored{Since: start})
	f.clock.advance(20 * time.Second)
	oldest(30*time.Second, "the older of two")
	v := f.vitals()
	f.is([]int64{v.Ambiguous, v.NeedsResolution}, []int64{1, 1}, "unknown outcomes")
	f.is(v.OldestQuestion, 20*time.Second, "since it needs a person")
}

func vitalsHolds(f *fixture) {
	held := func(want map[store.HeldBy]int64, what string) {
		f.Helper()
		f.is(f.vitals().Holds, want, "%s", what)
	}
	f.submit(holding("one"))
	f.holdIt(job.FailAuth, 0)
	f.submit(holding("two"))
	f.holdIt(job.FailAuth, 0)
	f.submit(holding("three"))
	f.holdIt(job.FailRateLimited, 0)
	f.connect(store.Connection{Connector: "other", PausedAt: start})
	f.connect(store.Connection{Connector: "other", PausedAt: start, Project: "other"})
	auth, limit := store.HeldBy{Connector: "fake", Cause: store.HoldAuth}, store.HeldBy{Connector: "fake", Cause: store.HoldRateLimit}
	paused := store.HeldBy{Connector: "other", Cause: store.HoldPaused}
	held(map[store.HeldBy]int64{auth: 1, limit: 1, paused: 2}, "a connection counts once for each cause")
	f.clock.advance(2 * time.Minute)
	held(map[store.HeldBy]int64{auth: 1, paused: 2}, "after the rate limit")
	conn := f.connect(store.Connection{Connector: "ill"})
	first, second := breakerOf(conn.ID), breakerOf(conn.ID)
	second.Destination = "elsewhere"
	first, second = f.stop(first), f.stop(second)
	ill := store.HeldBy{Connector: "ill", Cause: store.HoldBreaker}
	held(map[store.HeldBy]int64{auth: 1, paused: 2, ill: 1}, "with two breakers of a connection")
	f.endStop(first)
	f.endStop(second)
	held(map[store.HeldBy]int64{auth: 1, paused: 2}, "after the breakers")
}

func vitalsFirings(f *fixture) {
	c := f.schedule()
	f.is(f.vitals().OldestFiring, time.Duration(0), "before its time")
	f.clock.advance(c.Next.Sub(start) + time.Minute)
	f.is(f.vitals().OldestFiring, time.Minute, "a minute late")
}

// vitalsPaused: a pause by a person is no news to the operator.
func vitalsPaused(f *fixture) {
	paused := func(cause store.PauseCause) {
		f.changeSchedule(f.schedule(), func(s *store.Schedule) {
			s.State, s.PauseCause, s.Note, s.Next = store.SchedulePaused, cause, "why", time.Time{}
		})
	}
	f.schedule()
	f.endedSchedule(f.schedule())
	paused(store.PausedByPerson)
	paused(store.PausedByFailures)
	paused(store.PausedByFailures)
	paused(store.PausedByRefusal)
	v := f.vitals()
	f.is(v.Schedules, int64(5), "schedules that have not ended")
	f.is(v.PausedSchedules, map[store.PauseCause]int64{store.PausedByFailures: 2, store.PausedByRefusal: 1}, "those that paused themselves")
}

func vitalsConnections(f *fixture) {
	for _, name := range []string{"b", "a", "b", "c"} {
		f.connect(store.Connection{Connector: name})
	}
	gone := f.connect(store.Connection{Connector: "d", Project: "other"})
	f.is(f.vitals().Connections, map[string]int64{"a": 1, "b": 2, "c": 1, "d": 1, "fake": 1}, "connections")
	_, err := f.s.ChangeConnection(f.ctx, store.ConnectionChange{Project: gone.Project, ID: gone.ID, Version: gone.Version, Delete: true})
	f.ok(err)
	f.is(f.vitals().Connections, map[string]int64{"a": 1, "b": 2, "c": 1, "fake": 1}, "after a deletion")
}

// vitalsExpiring: a credential that is renewed, and one that has ended, are not about to end.
func vitalsExpiring(f *fixture) {
	create := func(connector string, s store.Sealed) store.Connection {
		s.KeyID, s.Data = "key", []byte("sealed")
		out, _, err := f.s.CreateConnection(f.ctx, store.NewConnection{
			Connection: store.Connection{ID: f.id(), Project: project, Connector: connector, Class: job.Keyed}, Sealed: &s,
		})
		f.ok(err)
		f.is([]any{out.CredentialRenews, out.CredentialExpires}, []any{s.Renews, s.Expires}, "the credential")
		return out
	}
	ends := start.Add(store.VitalsSoon)
	create("a", store.Sealed{Expires: ends.Add(-time.Microsecond)})
	create("a", store.Sealed{Expires: start.Add(time.Hour)})
	create("a", store.Sealed{Expires: start.Add(time.Hour), Renews: true})
	create("b", store.Sealed{})
	create("b", store.Sealed{Expires: ends})
	c := create("b", store.Sealed{Expires: start.Add(2 * time.Hour), Renews: true})
	f.is(f.vitals().Expiring, map[string]int64{"a": 2}, "credentials that end within a week")
	changed, err := f.s.ChangeConnection(f.ctx, store.ConnectionChange{Project: c.Project, ID: c.ID, Version: c.Version, Credential: &store.Sealed{
		Version: 2, KeyID: "key", Data: []byte("other"), Expires: start.Add(2 * time.Hour),
	}})
	f.ok(err)
	f.is(changed.CredentialRenews, false, "a credential that is not renewed")
	f.clock.advance(90 * time.Minute)
	f.is(f.vitals().Expiring, map[string]int64{"a": 1, "b": 2}, "later")
}

func vitalsSubscriptions(f *fixture) {
	is := func(total, failing, paused int64, oldest time.Duration, what string) {
		f.Helper()
		v := f.vitals()
		f.is([]any{v.Subscriptions, v.FailingSubscriptions, v.PausedSubscriptions, v.OldestNotice}, []any{total, failing, paused, oldest}, "%s", what)
	}
	s := f.subscribe()
	is(1, 0, 0, 0, "nothing to report")
	f.submit()
	f.clock.advance(time.Minute)
	is(1, 0, 0, time.Minute, "an event that nobody has read")
	s = f.told(s)
	is(1, 0, 0, 0, "a notice under way")
	f.carry(s, job.ResultRejected)
	s = f.step(s, ending(job.Failed), func(p *store.SubscriptionStep) {
		o := &p.Subscription
		o.Failed, o.Failures, o.Failing, o.Next, o.OnlyThen, o.LastError = 1, 1, f.clock.now().UTC(), f.clock.now().Add(time.Minute), true, "no"
	})
	is(1, 1, 0, 0, "a notice that is sent again later")
	f.clock.advance(3 * time.Minute)
	is(1, 1, 0, 2*time.Minute, "a notice that nobody sends again")
	s = f.step(s, func(p *store.SubscriptionStep) {
		o := &p.Subscription
		o.State, o.PauseCause, o.Next, o.OnlyThen = store.SubscriptionPaused, store.SubscriptionPausedByFailures, time.Time{}, false
	})
	is(1, 0, 1, 0, "paused by failures")
	f.step(s, func(p *store.SubscriptionStep) {
		p.Subscription.State, p.Subscription.PauseCause = store.SubscriptionDeleted, 0
	})
	is(0, 0, 0, 0, "deleted")
	collects := f.subscribe(func(s *store.Subscription) { s.Next, s.OnlyThen = f.clock.now().Add(time.Hour), true })
	f.submit()
	f.clock.advance(time.Minute)
	is(1, 0, 0, 0, "an event that is collected")
	collects = f.step(collects, func(p *store.SubscriptionStep) { p.Subscription.LastError = "a test failed" })
	is(1, 0, 0, 0, "an event that is collected after a test that failed")
	f.clock.advance(time.Hour)
	is(1, 0, 0, time.Minute, "an event that was collected, and is to be reported since")
	f.step(collects, func(p *store.SubscriptionStep) { p.Subscription.Next = f.clock.now().Add(time.Hour) })
	f.subscribe(func(s *store.Subscription) {
		s.Callbacks, s.Next, s.OnlyThen, s.LastError = true, f.clock.now().Add(time.Hour), true, "no callback_url"
	})
	is(2, 0, 0, 0, "callbacks, and no event since")
	f.submit()
	f.clock.advance(time.Minute)
	is(2, 0, 0, time.Minute, "an event of which no callback can be made")
}
