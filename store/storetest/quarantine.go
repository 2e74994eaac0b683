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
	{"positions of another incarnation", incarnations},
}

func (f *fixture) meta() store.Meta {
	f.Helper()
	m, err := f.s.Meta(f.ctx)
	f.ok(err)
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
	// What is wrong for another reason says so.
	stale := a
	stale.Version++
	f.fails(f.armOne(stale).Err, store.ErrStale)
	f.is(f.renew(ref(l), ref(look)), []bool{true, true}, "leases are kept")
	f.ok(f.s.Release(f.ctx))
	f.ok(f.armOne(a).Err)
	f.ok(f.armOne(again).Err)
}

// quarantineRest: what was sent before is still settled, and clients are served.
func quarantineRest(f *fixture) {
	f.submit() // is claimed with the next one, and never armed
	s := f.sending().Snapshot
	f.submit()
	f.ok(f.s.Quarantine(f.ctx, reason))
	f.clock.advance(fence)
	f.is(f.overdue(), []job.ID{s.ID}, "overdue")
	// What it believes unsent may have been sent: it does not expire.
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
