package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Jobs that are claimed as they are stored (NewJob.Start). A store may leave any of them
// unstarted, but must not start one that a claim would not take.
var startTests = []test{
	{"a due job", startDue},
	{"with an intent", startArmed},
	{"with an intent, and all that was asked", startWhole},
	{"nobody asked", startUnasked},
	{"not before its time", startNotDue},
	{"not twice", startTwice},
	{"not while it waits for another job", startReply},
	{"not under a hold, a pause or a quarantine", startHeld},
	{"not past older ones", startOlder},
	{"not above the bounds", startBounds},
	{"a batch", startBatch},
}

func starting(n *store.NewJob) {
	n.Start = &store.ClaimParams{Worker: "worker", Lease: lease}
}

// started stores a job that is to be started.
func (f *fixture) started(edit ...func(*store.NewJob)) store.Created {
	f.Helper()
	return f.create(f.new(append([]func(*store.NewJob){starting}, edit...)...))[0]
}

// notStarted checks that a job is stored as any other.
func (f *fixture) notStarted(c store.Created, why string) {
	f.Helper()
	f.is(c.Started == nil, true, "%s: not started", why)
	s := f.job(c.Snapshot.ID)
	f.is([]any{s.State, s.Version}, []any{job.Scheduled, int64(1)}, "%s: state and version", why)
}

func startDue(f *fixture) {
	c := f.started()
	f.is([]any{c.Created, c.Snapshot.State, c.Snapshot.Version}, []any{true, job.Scheduled, int64(1)}, "as it was submitted")
	if c.Started == nil {
		f.notStarted(c, "left by the store")
		return
	}
	l := *c.Started
	f.is([]any{l.State, l.Version, l.Worker}, []any{job.Claimed, int64(2), "worker"}, "state, version, worker")
	f.is([]any{l.ClaimToken.IsZero(), l.NextAt}, []any{false, start.Add(lease)}, "token, end of the lease")
	f.is(l.Connection, f.conn, "connection")
	f.is(f.job(l.ID), l.Snapshot, "stored job")
	e := f.events(l.ID)
	f.is(len(e), 2, "events")
	f.is([]any{e[1].From, e[1].To, e[1].Cause}, []any{job.Scheduled, job.Claimed, job.CauseClaimed}, "event")
	f.is(len(f.claimN(10)), 0, "claimed again")
	f.arm(l)
}

func startArmed(f *fixture) {
	var asked store.Leased
	c := f.started(func(n *store.NewJob) {
		n.Start.Intent = func(l store.Leased) *store.Arm {
			asked = l
			a := f.intent(l)
			return &a
		}
	})
	if c.Started == nil {
		f.notStarted(c, "left by the store")
		return
	}
	f.is(asked.ID, c.Snapshot.ID, "asked about")
	f.is(c.Started.Armed != nil, true, "armed")
	s := f.whole(c.Started.Armed.Snapshot)
	f.is([]any{s.State, s.Version, s.Attempt}, []any{job.Sending, int64(3), 1}, "state, version, attempt")
	f.is(len(f.events(s.ID)), 3, "events")
	f.apply(s, answer(s, job.ResultSucceeded))
}

// startWhole: in every way of a store, it keeps the whole request and writes the whole
// history.
func startWhole(f *fixture) {
	parent := f.sending()
	done := answer(parent.Snapshot, job.ResultSucceeded)
	done.ExternalID = "post 1"
	f.apply(parent.Snapshot, done)
	for _, reply := range []job.ID{{}, parent.Snapshot.ID, {}} {
		f.clock.advance(time.Second)
		var asked store.Leased
		n := f.new(starting, func(n *store.NewJob) {
			n.Spec.Retry = job.RetryPolicy{MaxAttempts: 3, MinBackoff: time.Second, MaxBackoff: time.Minute, AttemptTimeout: 2 * time.Second}
			n.Spec.Labels, n.Spec.TimeZone = map[string]string{"a": "b\"', \\"}, "Europe/Vienna"
			n.Spec.Schedule, n.Spec.ReplyTo, n.Spec.Delivery = f.id(), reply, job.AtLeastOnce
			n.Start.Intent = func(l store.Leased) *store.Arm {
				asked = l
				a := f.intent(l)
				return &a
			}
		})
		c := f.create(n)[0]
		want := n.Spec
		stored := f.job(n.Spec.ID)
		want.Created, want.Fingerprint = stored.Created, stored.Fingerprint
		f.is(stored.Spec, want, "request")
		if c.Started == nil || c.Started.Armed == nil {
			continue
		}
		f.is([]any{asked.Spec, asked.ReplyTo != ""}, []any{want, !reply.IsZero()}, "asked about")
		f.whole(c.Started.Armed.Snapshot)
		f.is(f.attempts(n.Spec.ID), []job.Attempt{c.Started.Armed.Attempt}, "attempts")
		var story [][4]any
		for _, e := range f.events(n.Spec.ID) {
			story = append(story, [4]any{e.To, e.Cause, e.Attempt, e.Actor})
		}
		f.is(story, [][4]any{
			{job.Scheduled, job.CauseSubmitted, 0, "tester"}, {job.Claimed, job.CauseClaimed, 0, "worker"},
			{job.Sending, job.CauseArmed, 1, "worker"},
		}, "events")
	}
}

func startUnasked(f *fixture) {
	f.notStarted(f.create(f.new())[0], "nobody asked")
}

func startNotDue(f *fixture) {
	f.notStarted(f.started(at(start.Add(time.Microsecond))), "later")
}

func startTwice(f *fixture) {
	n := f.new(starting)
	first := f.create(n)[0]
	n.Spec.ID = f.id()
	again := f.create(n)[0]
	f.is([]any{again.Created, again.Started == nil, again.Snapshot.ID}, []any{false, true, first.Snapshot.ID}, "the same key again")
	f.is(again.Snapshot, f.job(first.Snapshot.ID), "the stored job")
}

func startReply(f *fixture) {
	parent := f.submit(at(start.Add(time.Hour)))
	f.notStarted(f.started(func(n *store.NewJob) { n.Spec.ReplyTo = parent.ID }), "waits")
}

func startHeld(f *fixture) {
	paused := f.connect(store.Connection{PausedAt: start, PausedReason: "holiday"})
	f.notStarted(f.started(on(paused)), "paused")
	f.submit(holding("held"))
	f.holdIt(job.FailRateLimited, 0)
	f.notStarted(f.started(holding("held")), "rate limited")
	f.submit(holding("refused"))
	f.holdIt(job.FailAuth, 0)
	f.notStarted(f.started(holding("refused")), "credential refused")
	f.ok(f.s.Quarantine(f.ctx, "a copy"))
	f.notStarted(f.started(holding("free")), "quarantined")
}

func startOlder(f *fixture) {
	older := f.submit()
	f.clock.advance(time.Second)
	c := f.started()
	f.notStarted(c, "an older one waits")
	f.is(f.claimN(1)[0].ID, older.ID, "the older one goes first")
}

func startBounds(f *fixture) {
	conn := f.connect(store.Connection{MaxInFlight: 2})
	n := 0
	for range 4 {
		f.clock.advance(time.Second)
		if f.started(on(conn)).Started != nil {
			n++
		}
	}
	f.is(n <= 2, true, "%d started of a connection that takes two", n)
	f.is(len(f.claimN(10)), 2-n, "claimed beside those")
	const perMinute = 10
	paced := f.connect(store.Connection{MaxPerMinute: perMinute, MaxInFlight: 1000})
	n = 0
	for range 4 * perMinute {
		f.clock.advance(time.Millisecond)
		if f.started(on(paced)).Started != nil {
			n++
		}
		n += len(f.claimN(100))
	}
	f.is(n <= perMinute, true, "%d in a moment, of %d a minute", n, perMinute)
}

func startBatch(f *fixture) {
	items := []store.NewJob{f.new(starting), f.new(), f.new(starting, at(start.Add(time.Hour))), f.new(starting, holding("other"))}
	out := f.create(items...)
	f.notStarted(out[1], "nobody asked")
	f.notStarted(out[2], "later")
	want := 0
	for _, c := range out {
		if c.Started != nil {
			f.is(f.job(c.Snapshot.ID), c.Started.Snapshot, "stored job")
			continue
		}
		if c.Snapshot.ID != items[2].Spec.ID {
			want++
		}
	}
	f.is(len(f.claimN(10)), want, "claimed of the rest")
}
