package storetest

import (
	"bytes"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var orphanTests = []test{
	{"what a worker that is not enlisted is sending", orphansOfTheLost},
	{"only what is claimed or being sent", orphansAtWork},
	{"of what is sent only KEYED ones, with no cancel asked", orphansKeyed},
	{"claims, and a late arm is refused", orphansClaimed},
	{"no claims of jobs that another one of died", orphansClaimedAgain},
	{"what was armed is no claim any more", orphansArmed},
	{"earliest fence first, bounded", orphansBounded},
	{"page by page", orphansPaged},
	{"none in quarantine", orphansQuarantined},
	{"the fence stays as it was", orphansFence},
}

// orphans searches as often as a worker may be absent by accident. It enlists a worker of the
// searching process first: an engine that keeps a session for its workers has it from then on,
// and not from some moment later on the test's clock.
func (f *fixture) orphans() []store.Leased {
	f.Helper()
	f.ok(f.s.Enlist(f.ctx, store.Process{Worker: "who asks"}))
	f.clock.advance(2 * time.Second) // and later than after a start
	_, err := f.s.Orphans(f.ctx, store.Place{}, 0)
	f.ok(err)
	f.clock.advance(time.Second)
	got, err := f.s.Orphans(f.ctx, store.Place{}, 0)
	f.ok(err)
	return got
}

func orphansOfTheLost(f *fixture) {
	f.ok(f.s.Enlist(f.ctx, store.Process{Worker: "another"}))
	s := f.sending().Snapshot
	got := f.orphans()
	f.is(len(got), 1, "orphans")
	f.is(got[0].Snapshot, f.job(s.ID), "the job")
	f.is([]any{got[0].Connection.ID, got[0].Connection.KeyWindow, got[0].ClaimToken}, []any{f.conn.ID, f.conn.KeyWindow, job.ID{}}, "its connection, and no lease")
	f.unchanged(s)
	f.ok(f.s.Enlist(f.ctx, store.Process{Worker: "worker"}))
	f.ok(f.s.Enlist(f.ctx, store.Process{Worker: "worker"}))
	f.is(len(f.orphans()), 0, "orphans of an enlisted worker")
	f.sending()
	f.is(len(f.orphans()), 0, "what it arms later")
}

func orphansAtWork(f *fixture) {
	for _, state := range job.States {
		f := newFixture(f.T, f.open)
		f.inState(state)
		want := 0
		if state == job.Sending || state == job.Claimed {
			want = 1
		}
		f.is(len(f.orphans()), want, "orphans in %s", state)
	}
	s := f.sending().Snapshot
	after := f.apply(s, job.SenderLost{}).Snapshot
	f.is([]any{after.State, after.Fence, after.Open, after.Attempt}, []any{job.Ambiguous, s.Fence, []int{1}, 1}, "a lost sender")
	attempts, err := f.s.Attempts(f.ctx, store.Ref{ID: s.ID}, 0, 10)
	f.ok(err)
	f.is([]any{len(attempts), attempts[0].Result}, []any{1, job.ResultUnknown}, "its attempt")
	events := f.events(s.ID)
	f.is(events[len(events)-1].Cause, job.CauseSenderLost, "cause")
	f.is(len(f.orphans()), 0, "orphans that were taken up")
}

func orphansKeyed(f *fixture) {
	for _, class := range []job.Class{job.Keyed, job.Handle, job.Observable, job.Opaque} {
		f := newFixture(f.T, f.open)
		f.conn = f.connect(store.Connection{Class: class, KeyWindow: 24 * time.Hour})
		s := f.sending().Snapshot
		f.is(len(f.orphans()) == 1, class == job.Keyed, "%s: an orphan", class)
		f.apply(s, job.CancelAsked{})
		f.is(len(f.orphans()), 0, "%s: orphans of which a cancel was asked", class)
	}
}

func orphansClaimed(f *fixture) {
	f.submit()
	late := f.claim()
	got := f.orphans()
	f.is(len(got), 1, "orphans")
	f.is([]any{got[0].Snapshot, got[0].Connection.ID}, []any{f.job(late.ID), f.conn.ID}, "the job, and its connection")
	after := f.apply(got[0].Snapshot, job.SenderLost{}).Snapshot
	f.is([]any{after.State, after.ClaimToken, after.Claims, after.Attempt}, []any{job.Scheduled, job.ID{}, 1, 0}, "a claim that was lost")
	events := f.events(late.ID)
	f.is(events[len(events)-1].Cause, job.CauseSenderLost, "cause")
	f.fails(f.armOne(f.intent(late)).Err, store.ErrStale)
	f.is(f.renew(ref(late)), []bool{false}, "renewed")
	next := f.claim()
	f.is([]any{next.ID, next.Claims}, []any{late.ID, 1}, "claimed again at once")
	f.fails(f.armOne(f.intent(late)).Err, store.ErrStale)
	again := f.intent(late)
	again.Version = next.Version // only the lease differs
	f.fails(f.armOne(again).Err, store.ErrStale)
	f.unchanged(next.Snapshot)
	f.arm(next)
}

func orphansClaimedAgain(f *fixture) {
	f.submit()
	f.apply(f.claim().Snapshot, job.SenderLost{})
	f.claim()
	f.is(len(f.orphans()), 0, "orphans whose claim died before")
}

func orphansArmed(f *fixture) {
	f.conn = f.connect(store.Connection{Class: job.Opaque})
	f.submit()
	l := f.claim()
	f.orphans()
	got, err := f.s.Orphans(f.ctx, store.Place{}, 0)
	f.ok(err)
	f.is(len(got), 1, "orphans")
	armed := f.arm(l).Snapshot
	f.fails(f.change(got[0].Snapshot, f.decide(got[0].Snapshot, job.SenderLost{})).Err, store.ErrStale)
	f.unchanged(armed)
}

func orphansBounded(f *fixture) {
	var want []job.ID
	for i := range 3 {
		s := f.sending(func(n *store.NewJob) { n.Spec.HoldKey = string(rune('a' + i)) }).Snapshot
		want = append(want, s.ID)
		f.clock.advance(time.Second)
	}
	f.orphans()
	got, err := f.s.Orphans(f.ctx, store.Place{}, 2)
	f.ok(err)
	f.is([]any{len(got), got[0].ID, got[1].ID}, []any{2, want[0], want[1]}, "orphans")
}

// orphansPaged: a page begins after its place, and ids order jobs of the same time.
func orphansPaged(f *fixture) {
	var ids []job.ID
	for i := range 4 {
		s := f.sending(func(n *store.NewJob) { n.Spec.HoldKey = string(rune('a' + i)) }).Snapshot
		ids = append(ids, s.ID)
		if i == 2 {
			f.clock.advance(time.Second)
		}
	}
	slices.SortFunc(ids[:3], func(a, b job.ID) int { return bytes.Compare(a[:], b[:]) }) // one time
	f.orphans()
	var got []job.ID
	var after store.Place
	for range len(ids) {
		page, err := f.s.Orphans(f.ctx, after, 1)
		f.ok(err)
		f.is(len(page), 1, "a page")
		got, after = append(got, page[0].ID), store.Place{At: page[0].NextAt, ID: page[0].ID}
	}
	page, err := f.s.Orphans(f.ctx, after, 1)
	f.ok(err)
	f.is([]any{got, len(page)}, []any{ids, 0}, "orphans page by page, and none after the last")
}

func orphansQuarantined(f *fixture) {
	f.sending()
	f.ok(f.s.Quarantine(f.ctx, "a copy"))
	f.is(len(f.orphans()), 0, "orphans of what may be a copy")
	f.ok(f.s.Release(f.ctx))
	f.is(len(f.orphans()), 1, "orphans after it")
}

func orphansFence(f *fixture) {
	s := f.sending().Snapshot
	f.apply(s, job.SenderLost{})
	looks := f.looks()
	f.is(len(looks), 1, "looks before the fence")
	f.is(looks[0].Fence, s.Fence, "fence")
}
