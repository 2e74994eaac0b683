package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var quarantineTests = []test{
	{"no claims and no looks", quarantineClaims},
	{"no arm of what was claimed before", quarantineArms},
	{"everything else goes on", quarantineRest},
	{"a release without a quarantine", quarantineNone},
	{"a release raises fences", quarantineFences},
	{"an absence from before the release", quarantineAbsence},
	{"positions of another incarnation", incarnations},
	{"the store's time", metaTime},
}

func metaTime(f *fixture) {
	f.clock.advance(time.Hour)
	m, err := f.s.Meta(f.ctx)
	f.ok(err)
	f.is(m.Now.UnixMicro(), f.clock.now().UnixMicro(), "the time in meta")
}

func (f *fixture) meta() store.Meta {
	f.Helper()
	m, err := f.s.Meta(f.ctx)
	f.ok(err)
	m.Now = time.Time{} // it goes on
	m.EventLag = 0      // an engine may send a hint at this moment, in a transaction of its own
	return m
}

const reason = "an operator said so"

func quarantineClaims(f *fixture) {
	s := f.submit()
	before := f.meta()
	f.ok(f.s.Quarantine(f.ctx, reason))
	_, err := f.s.Claim(f.ctx, store.ClaimParams{Lease: lease, Limit: 1})
	f.fails(err, store.ErrQuarantined)
	_, err = f.s.ClaimLooks(f.ctx, store.ClaimParams{Lease: lease, Limit: 1})
	f.fails(err, store.ErrQuarantined)
	next, err := f.s.NextDue(f.ctx, time.Minute)
	f.ok(err)
	f.is(next, time.Minute, "next due: no claim would give it")
	f.is(f.meta().Quarantined, reason, "reason")
	later := f.submit()
	work, end := f.s.Watch(store.WatchWork)
	defer end()
	f.ok(f.s.Release(f.ctx))
	f.is(token(work), true, "hint of the release")
	f.claimed(s.ID, later.ID)
	// The operator may know of a restore that left no trace.
	before.Incarnation++
	f.is(f.meta(), before, "meta after the release")
}

func quarantineArms(f *fixture) {
	first := f.ambiguous()
	f.submit()
	l, look := f.claim(), f.looks()[0]
	f.is(look.ID, first.ID, "look")
	f.ok(f.s.Quarantine(f.ctx, reason))
	a, again := f.intent(l), f.intent(look)
	out, err := f.s.Arm(f.ctx, []store.Arm{a, again})
	f.ok(err)
	for i, s := range []store.Leased{l, look} {
		f.fails(out[i].Err, store.ErrHeld)
		f.unchanged(s.Snapshot)
		_, err = f.s.ArmedBy(f.ctx, s.ID, []store.Arm{a, again}[i].Token)
		f.fails(err, store.ErrNotFound)
	}
	// Another error has its own reason.
	stale := a
	stale.Version++
	f.fails(f.armOne(stale).Err, store.ErrStale)
	f.is(f.renew(ref(l), ref(look)), []bool{true, true}, "leases are kept")
	f.ok(f.s.Release(f.ctx))
	f.ok(f.armOne(a).Err)
	f.fails(f.armOne(again).Err, store.ErrStale) // a lost repeat may be under way
}

// quarantineRest: jobs that were sent before are still settled, and clients are served.
func quarantineRest(f *fixture) {
	f.submit() // is claimed with the next one, and never armed
	s := f.sending().Snapshot
	f.submit()
	f.ok(f.s.Quarantine(f.ctx, reason))
	f.clock.advance(fence)
	f.is(f.overdue(), []job.ID{s.ID}, "overdue")
	// Jobs that it believes unsent may have been sent, so they do not expire.
	f.clock.advance(3 * time.Hour)
	f.is(f.overdue(), []job.ID{s.ID}, "overdue past the window")
	s = f.apply(f.job(s.ID), job.FenceOver{}).Snapshot
	s = f.apply(s, succeeded(s, "x")).Snapshot
	f.is(s.State, job.Succeeded, "state")
	n := f.submit()
	f.is(f.apply(n, job.CancelAsked{}).Snapshot.State, job.Canceled, "state")
	f.ok(f.s.Release(f.ctx))
	f.is(len(f.overdue()), 2, "jobs overdue after the release")
}

func quarantineNone(f *fixture) {
	before := f.meta()
	f.ok(f.s.Release(f.ctx))
	f.fails(f.s.Quarantine(f.ctx, ""), store.ErrIllegal)
	f.is(f.meta(), before, "meta")
	f.is([]any{before.Quarantined, before.Incarnation}, []any{"", int64(1)}, "reason and incarnation of a new database")
}

// quarantineFences: the last arms of a lost state may still act when the quarantine ends, so
// jobs whose outcome is open are fenced from then on.
func quarantineFences(f *fixture) {
	for _, class := range []job.Class{job.Keyed, job.Handle, job.Observable, job.Opaque} {
		c := f.connect(store.Connection{Class: class})
		looked := f.ambiguous(on(c))
		if class == job.Handle || class == job.Observable {
			looked = f.job(looked.ID)
			looked = f.change(looked, f.twice(looked, absent(looked))).Snapshot
			f.is([]any{looked.State, looked.Negatives}, []any{job.Ambiguous, 1}, "state and absences of %v", class)
		}
		f.clock.advance(time.Minute)
		f.submit(on(c))
		long := f.arm(f.claim(), func(a *store.Arm) { a.AnswerBy, a.Fence = time.Hour, 2*time.Hour }).Snapshot
		sending := f.sending(on(c)).Snapshot
		looks := f.looks()
		looked = f.job(looked.ID)

		f.ok(f.s.Release(f.ctx))
		f.unchanged(looked)
		f.clock.advance(time.Second)
		f.ok(f.s.Quarantine(f.ctx, reason))
		f.unchanged(looked)
		f.ok(f.s.Release(f.ctx))
		not := f.clock.now().UTC().Add(30*time.Second + store.LostGrace)
		for _, before := range []job.Snapshot{looked, sending} {
			after := f.job(before.ID)
			before.Fence, before.NextAt, before.ClaimToken, before.Negatives = not, not, job.ID{}, 0
			before.Now = after.Now
			f.is(after, before, "%v, %v", class, before.State)
			f.is(int64(len(f.events(before.ID))), before.Version, "events")
		}
		f.unchanged(long)
		for _, l := range looks {
			f.is(f.renew(ref(l)), []bool{false}, "lease of job %s is held", l.ID)
		}
		f.clock.advance(not.Sub(f.clock.now()) - time.Microsecond)
		f.is(len(f.overdue()), 0, "jobs overdue before the fence")
		f.clock.advance(time.Microsecond)
		f.is(f.overdue(), []job.ID{sending.ID}, "overdue")
		f.apply(f.job(sending.ID), succeeded(sending, "s-"+sending.ID.String()))
		f.apply(f.job(long.ID), succeeded(long, "l-"+long.ID.String()))
		f.apply(f.job(looked.ID), succeeded(looked, "a-"+looked.ID.String()))
	}
}

// absent is a complete absence, seen by a look that begins now.
func absent(s job.Snapshot) job.Looked {
	return job.Looked{Observation: job.Observation{Attempt: s.Attempt, Verdict: job.SawAbsent, BegunAt: s.Now}}
}

// twice judges evidence where two absences prove one.
func (f *fixture) twice(s job.Snapshot, e job.Evidence) job.Decision {
	f.Helper()
	d, err := job.Decide(s.View(job.Traits{Class: s.Class, Negatives: 2}, 0), e)
	f.ok(err)
	return d
}

// quarantineAbsence: a look that was under way at the release saw a platform on which the
// last arms of the lost state had not acted.
func quarantineAbsence(f *fixture) {
	c := f.connect(store.Connection{Class: job.Observable})
	f.ambiguous(on(c))
	l := f.looks()[0].Snapshot
	proven, counted := f.decide(l, absent(l)), f.twice(l, absent(l))
	f.is([]any{proven.To, proven.CloseOpen}, []any{job.Retrying, job.ResultAbsent}, "what the look proves without a release")
	f.is([]any{counted.To, counted.Negatives}, []any{job.Ambiguous, 1}, "and what it counts")
	noted := f.decide(l, job.CancelAsked{})
	noted.Negatives++ // an earlier look's, which is forgotten
	f.ok(f.s.Quarantine(f.ctx, reason))
	f.ok(f.s.Release(f.ctx))
	for _, d := range []job.Decision{proven, counted, noted} {
		f.fails(f.change(l, d).Err, store.ErrStale)
	}
	s := f.apply(f.job(l.ID), absent(l)).Snapshot
	f.is([]any{s.State, s.Negatives, s.NextAt}, []any{job.Ambiguous, 0, s.Fence.Add(time.Second)}, "judged again")
	f.clock.advance(time.Hour)
	s = f.apply(f.job(l.ID), absent(l)).Snapshot
	f.is([]any{s.State, s.Negatives}, []any{job.Ambiguous, 0}, "judged after the fence")
	s = f.job(l.ID)
	f.is(f.apply(s, absent(s)).Snapshot.State, job.Retrying, "a later look")
	other := f.ambiguous(on(c))
	look := f.looks()[0].Snapshot
	f.is(look.ID, other.ID, "look")
	found := absent(look)
	found.Verdict, found.ExternalID = job.SawPresent, "x"
	d := f.decide(look, found)
	f.ok(f.s.Quarantine(f.ctx, reason))
	f.ok(f.s.Release(f.ctx))
	f.ok(f.change(look, d).Err)
	f.is(f.job(look.ID).State, job.Succeeded, "what was seen is there")
}

func incarnations(f *fixture) {
	s := f.submit()
	now := f.meta().Incarnation
	p, err := f.s.List(f.ctx, store.JobQuery{Project: project})
	f.ok(err)
	f.is(p.Incarnation, now, "incarnation of a list")
	for _, q := range []store.EventQuery{{Project: project}, {Project: project, Job: s.ID}} {
		for _, of := range []int64{0, now} {
			q.Incarnation = of
			e, err := f.s.Events(f.ctx, q)
			f.ok(err)
			f.is([]any{len(e.Events), e.Incarnation}, []any{1, now}, "events and incarnation")
		}
		for _, of := range []int64{now - 1, now + 1} {
			if of == 0 {
				continue
			}
			q.Incarnation = of
			_, err := f.s.Events(f.ctx, q)
			f.fails(err, store.ErrCursorExpired)
		}
	}
}
