package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var coolDownTests = []test{
	{"it is kept", coolDownKept},
	{"bounds", coolDownBounds},
	{"another job of the connection waits until its end", coolDownOfConnection},
	{"another job of the schedule waits until its end", coolDownOfSchedule},
	{"the longest counts", coolDownLongest},
	{"it is independent of the outcome", coolDownOutcome},
	{"a repeat passes, and does not count", coolDownRearm},
	{"a repeat makes no room for a later attempt", coolDownAfterRepeat},
	{"random histories", coolDownRandom},
	{"a retry passes, and counts", coolDownRetry},
	{"in one batch", coolDownBatch},
	{"a refused arm counts for nothing", coolDownRefused},
	{"no claim arms", coolDownIntend},
	{"of later limits", coolDownChanged},
	{"a gate does not take it", coolDownGate},
}

const coolFor = time.Hour

// cooling makes a connection with a cool-down.
func (f *fixture) cooling() store.Connection {
	f.Helper()
	return f.connect(store.Connection{CoolDown: coolFor})
}

// fired makes a job that of a schedule with a cool-down.
func fired(schedule job.ID, coolDown time.Duration) func(*store.NewJob) {
	return func(n *store.NewJob) { n.Spec.Schedule, n.Spec.CoolDown = schedule, coolDown }
}

// leases claims n jobs, by id.
func (f *fixture) leases(n int) []store.Leased {
	f.Helper()
	out := f.claimN(n)
	f.is(len(out), n, "jobs claimed")
	slices.SortFunc(out, func(a, b store.Leased) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return out
}

// cools expects an arm to be refused by a cool-down.
func (f *fixture) cools(a store.Arm, owner, by job.ID, left time.Duration) {
	f.Helper()
	before := f.job(a.Job)
	err := f.armOne(a).Err
	f.fails(err, store.ErrCoolDown)
	var cool *store.CoolDownError
	f.is(errors.As(err, &cool), true, "a cool-down error")
	f.is([]any{cool.Owner, cool.By, cool.Left}, []any{owner, by, left}, "owner, job, time left")
	f.unchanged(before)
}

// renewed keeps a lease while a test moves the clock.
func (f *fixture) renewed(l store.Leased) store.Leased {
	f.Helper()
	held, err := f.s.Renew(f.ctx, 10*coolFor, []store.LeaseRef{{Job: l.ID, Token: l.ClaimToken}})
	f.ok(err)
	f.is(held, []bool{true}, "lease held")
	return l
}

func coolDownKept(f *fixture) {
	conn := f.cooling()
	f.is(conn.CoolDown, coolFor, "as it is stored")
	schedule := f.id()
	s := f.submit(on(conn), fired(schedule, 90*time.Second))
	f.is([]any{s.CoolDown, s.Schedule}, []any{90 * time.Second, schedule}, "of a job as it is stored")
	f.is(f.job(s.ID).CoolDown, 90*time.Second, "of a job as it is read")
	p, err := f.s.List(f.ctx, store.JobQuery{Project: project, Limit: 10})
	f.ok(err)
	f.is(p.Jobs[0].CoolDown, 90*time.Second, "of a job as it is listed")
	l := f.claim()
	f.is([]any{l.CoolDown, l.Connection.CoolDown, l.CoolsDown()}, []any{90 * time.Second, coolFor, true}, "as it is claimed")
	f.is(f.submit().CoolDown, time.Duration(0), "of a job of no schedule")
}

func coolDownBounds(f *fixture) {
	f.connect(store.Connection{CoolDown: job.MaxCoolDown})
	for _, d := range []time.Duration{-time.Microsecond, job.MaxCoolDown + time.Microsecond} {
		id := f.id()
		_, _, err := f.s.CreateConnection(f.ctx, store.NewConnection{Connection: store.Connection{
			ID: id, Project: project, Connector: "fake", Class: job.Keyed, CoolDown: d,
		}})
		f.fails(err, store.ErrIllegal)
		_, err = f.s.ChangeConnection(f.ctx, store.ConnectionChange{
			ID: f.conn.ID, Project: project, Version: f.conn.Version, Limits: &store.ConnectionLimits{CoolDown: d},
		})
		f.fails(err, store.ErrIllegal)
		out, err := f.s.Create(f.ctx, []store.NewJob{f.new(fired(f.id(), d))})
		if err == nil {
			err = out[0].Err
		}
		f.fails(err, store.ErrIllegal)
	}
}

func coolDownOfConnection(f *fixture) {
	conn := f.cooling()
	f.submit(on(conn))
	f.submit(on(conn), holding("another account"))
	f.submit()
	got := f.leases(3)
	f.arm(got[0])
	f.arm(got[2]) // of another connection
	f.cools(f.intent(got[1]), conn.ID, got[0].ID, coolFor)
	l := f.renewed(got[1])
	f.clock.advance(coolFor - time.Microsecond)
	f.cools(f.intent(l), conn.ID, got[0].ID, time.Microsecond)
	f.clock.advance(time.Microsecond)
	f.arm(l)
	// That one counts from then on.
	f.submit(on(conn))
	f.cools(f.intent(f.claim()), conn.ID, l.ID, coolFor)
}

func coolDownOfSchedule(f *fixture) {
	mine, other := f.id(), f.id()
	conn := f.connect(store.Connection{})
	f.submit(fired(mine, coolFor))
	f.submit(on(conn), fired(mine, coolFor))
	f.submit(fired(other, coolFor))
	f.submit(fired(mine, 0))
	f.submit()
	got := f.leases(5)
	f.arm(got[0])
	f.cools(f.intent(got[1]), mine, got[0].ID, coolFor)
	for _, l := range got[2:] {
		f.arm(l)
	}
	l := f.renewed(got[1])
	f.clock.advance(coolFor)
	f.arm(l)
}

func coolDownLongest(f *fixture) {
	conn, schedule := f.cooling(), f.id()
	f.submit(on(conn), fired(schedule, 2*coolFor))
	f.submit(on(conn))
	f.submit(on(conn), fired(schedule, 2*coolFor))
	got := f.leases(3)
	f.arm(got[0])
	f.cools(f.intent(got[1]), conn.ID, got[0].ID, coolFor)
	f.cools(f.intent(got[2]), schedule, got[0].ID, 2*coolFor)
	second, third := f.renewed(got[1]), f.renewed(got[2])
	f.clock.advance(coolFor)
	f.arm(second)
	f.clock.advance(time.Minute)
	f.cools(f.intent(third), conn.ID, second.ID, coolFor-time.Minute)
}

func coolDownOutcome(f *fixture) {
	for _, result := range []job.Result{job.ResultSucceeded, job.ResultRejected, job.ResultNotSent, job.ResultUnknown} {
		f := newFixture(f.T, f.open)
		conn := f.cooling()
		f.submit(on(conn))
		f.submit(on(conn))
		got := f.leases(2)
		a := f.arm(got[0])
		out := answer(a.Snapshot, result)
		out.Kind = job.FailPermanent
		f.apply(a.Snapshot, out)
		f.cools(f.intent(got[1]), conn.ID, got[0].ID, coolFor)
	}
}

func coolDownRearm(f *fixture) {
	conn := f.cooling()
	first := f.sending(on(conn), func(n *store.NewJob) { n.Spec.Retry.KeepTrying = 9 * time.Hour })
	f.clock.advance(coolFor)
	second := f.sending(on(conn))
	f.apply(first.Snapshot, answer(first.Snapshot, job.ResultUnknown))
	f.clock.advance(time.Minute)
	l := f.looks()[0]
	f.is(l.ID, first.Snapshot.ID, "job to repeat")
	f.arm(l)
	// It is the effect that was counted before: others wait for the one after it.
	f.submit(on(conn))
	third := f.renewed(f.claim())
	f.cools(f.intent(third), conn.ID, second.Snapshot.ID, coolFor-time.Minute)
	f.clock.advance(coolFor - time.Minute)
	f.arm(third)
}

// coolDownAfterRepeat: a job is armed, another one after it, and then the first is repeated.
// If the repeat turns out to have had no effect, the next attempt is an effect that comes
// after the other job's, and waits for it.
func coolDownAfterRepeat(f *fixture) {
	conn := f.cooling()
	first := f.sending(on(conn), func(n *store.NewJob) { n.Spec.Retry.KeepTrying = 9 * time.Hour })
	f.apply(first.Snapshot, answer(first.Snapshot, job.ResultUnknown))
	f.clock.advance(coolFor)
	second := f.sending(on(conn))
	again := f.arm(f.looks()[0])
	f.is(again.Snapshot.ID, first.Snapshot.ID, "repeated")
	for _, n := range []int{2, 1} {
		f.apply(f.job(first.Snapshot.ID), job.Outcome{Attempt: n, Result: job.ResultRejected, Kind: job.FailTransient})
	}
	f.is(f.job(first.Snapshot.ID).State, job.Retrying, "state without an effect")
	f.clock.advance(time.Minute)
	l := f.renewed(f.claim())
	f.cools(f.intent(l), conn.ID, second.Snapshot.ID, coolFor-time.Minute)
	f.clock.advance(coolFor - time.Minute)
	f.arm(l)
}

func coolDownRetry(f *fixture) {
	conn := f.cooling()
	first := f.sending(on(conn))
	f.apply(first.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient})
	f.clock.advance(time.Minute)
	again := f.arm(f.claim())
	f.is(again.Attempt.Number, 2, "attempt")
	f.submit(on(conn))
	l := f.renewed(f.claim())
	f.clock.advance(coolFor - time.Minute)
	f.cools(f.intent(l), conn.ID, again.Snapshot.ID, time.Minute)
	// One of a job that another was armed after is an effect after that one's.
	f.apply(again.Snapshot, job.Outcome{Attempt: 2, Result: job.ResultNotSent, Kind: job.FailTransient})
	f.clock.advance(time.Minute)
	f.arm(l)
	f.clock.advance(30 * time.Minute)
	late := f.claim()
	f.is(late.ID, first.Snapshot.ID, "job to retry")
	f.cools(f.intent(late), conn.ID, l.ID, 30*time.Minute)
}

func coolDownBatch(f *fixture) {
	conn := f.cooling()
	for range 3 {
		f.submit(on(conn))
	}
	f.submit()
	got := f.leases(4)
	var items []store.Arm
	for _, l := range got {
		items = append(items, f.intent(l))
	}
	out, err := f.s.Arm(f.ctx, items)
	f.ok(err)
	f.ok(out[0].Err)
	f.fails(out[1].Err, store.ErrCoolDown)
	f.fails(out[2].Err, store.ErrCoolDown)
	f.ok(out[3].Err)
	f.unchanged(got[1].Snapshot)
	f.unchanged(got[2].Snapshot)
}

func coolDownRefused(f *fixture) {
	conn := f.cooling()
	f.submit(on(conn))
	f.submit(on(conn))
	got := f.leases(2)
	for _, edit := range []func(*store.Arm){
		func(a *store.Arm) { a.Version-- },
		func(a *store.Arm) { a.Claim = f.id() },
		func(a *store.Arm) { a.Class = 77 },
	} {
		f.is(f.armOne(f.intent(got[0], edit)).Err != nil, true, "refused")
	}
	f.arm(got[1])
}

func coolDownIntend(f *fixture) {
	conn := f.cooling()
	f.submit(on(conn))
	f.submit(fired(f.id(), coolFor))
	free := f.submit()
	out, _ := f.claimArming()
	f.is(len(out), 3, "leased")
	for _, l := range out {
		f.is(l.Armed != nil, l.ID == free.ID, "armed as it was claimed")
	}
	// A job that starts as it is stored does not either.
	n := f.new(on(conn), holding("another account"))
	n.Start = &store.ClaimParams{Worker: "worker", Lease: lease, Intent: func(l store.Leased) *store.Arm {
		a := f.intent(l)
		return &a
	}}
	made := f.create(n)[0]
	f.is(made.Started == nil || made.Started.Armed == nil, true, "armed as it was stored")
	n = f.new(fired(f.id(), coolFor), holding("a third account"))
	n.Start = &store.ClaimParams{Worker: "worker", Lease: lease, Intent: func(l store.Leased) *store.Arm {
		a := f.intent(l)
		return &a
	}}
	made = f.create(n)[0]
	f.is(made.Started == nil || made.Started.Armed == nil, true, "armed as it was stored")
	f.is(f.job(n.Spec.ID).CoolDown, coolFor, "cool-down")
}

func coolDownChanged(f *fixture) {
	conn := f.connect(store.Connection{})
	f.submit(on(conn))
	f.submit(on(conn))
	f.submit(on(conn))
	f.submit(on(conn))
	got := f.leases(4)
	f.arm(got[0])
	conn = f.revise(conn, store.ConnectionChange{Limits: &store.ConnectionLimits{CoolDown: coolFor}})
	f.is(conn.CoolDown, coolFor, "as it is read")
	// Earlier arms are not recorded.
	f.arm(got[1])
	f.cools(f.intent(got[2]), conn.ID, got[1].ID, coolFor)
	conn = f.revise(conn, store.ConnectionChange{Limits: &store.ConnectionLimits{CoolDown: 2 * coolFor}})
	f.cools(f.intent(got[2]), conn.ID, got[1].ID, 2*coolFor)
	f.revise(conn, store.ConnectionChange{Limits: &store.ConnectionLimits{}})
	f.arm(got[2])
}

func coolDownGate(f *fixture) {
	conn := f.connect(store.Connection{Class: job.Observable, CoolDown: coolFor})
	other := f.connect(store.Connection{Class: job.Observable})
	f.submit(on(other))
	f.submit(on(conn))
	f.submit(on(conn))
	got := f.leases(3)
	f.arm(got[0], gate("hello"))
	out, err := f.s.Arm(f.ctx, []store.Arm{f.intent(got[1], gate("hello")), f.intent(got[2], gate("other content"))})
	f.ok(err)
	f.fails(out[0].Err, store.ErrGated)
	f.ok(out[1].Err)
}
