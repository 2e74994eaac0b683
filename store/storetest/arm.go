package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var armTests = []test{
	{"an intent", armIntent},
	{"guards", armGuards},
	{"a lease that is over", armLeaseOver},
	{"the window", armWindow},
	{"a cancelled job", armCanceled},
	{"a held key", armHeld},
	{"one bad item fails no other", armBatch},
	{"a token is used once", armToken},
	{"a gate", armGate},
	{"a look for the content", armLooked},
	{"a look for the content, and two connections", armLookedElsewhere},
	{"the class is frozen at the first arm", armClass},
	{"a re-arm", armRearm},
	{"a re-arm keeps the key and the bytes", armRearmBytes},
	{"no re-arm without being asked", armRearmState},
	{"no re-arm after a cancel", armRearmCanceled},
	{"reading back", armReadBack},
	{"handles", armHandle},
	{"the poison count ends at an arm", armClaims},
}

func armIntent(f *fixture) {
	f.submit()
	l := f.claim()
	f.clock.advance(time.Second)
	now := start.Add(time.Second)
	in := f.intent(l, func(a *store.Arm) { a.AccountIdentity = "me" })
	got := f.armOne(in)
	f.ok(got.Err)
	s := got.Snapshot
	f.is([]any{s.State, s.Version, s.Attempt}, []any{job.Sending, int64(3), 1}, "state, version, attempt")
	f.is(s.NextAt, now.Add(fence), "due at the fence")
	f.is(s.Fence, now.Add(fence), "fence")
	f.is(s.ClaimToken.IsZero(), true, "token is gone")
	f.is(f.job(l.ID), s, "stored job")
	want := job.Attempt{
		Number: 1, Round: 1, ArmToken: in.Token, Worker: "worker", ClaimedAt: start, ArmedAt: now,
		SendDeadline: now.Add(in.SendBy), AnswerDeadline: now.Add(in.AnswerBy),
		EffectKey: in.EffectKey, RequestDigest: in.Digest, Frozen: in.Frozen,
		CredentialVersion: 1, AccountIdentity: "me", Watermark: "watermark",
	}
	f.is(got.Attempt, want, "attempt")
	f.is(f.attempts(l.ID), []job.Attempt{want}, "stored attempts")
	e := f.last(l.ID)
	f.is([]any{e.From, e.To, e.Cause, e.Attempt}, []any{job.Claimed, job.Sending, job.CauseArmed, 1}, "event")
}

func armGuards(f *fixture) {
	f.submit()
	l := f.claim()
	for _, tt := range []struct {
		name string
		edit func(*store.Arm)
		want error
	}{
		{"no such job", func(a *store.Arm) { a.Job = f.id() }, store.ErrNotFound},
		{"older version", func(a *store.Arm) { a.Version-- }, store.ErrStale},
		{"newer version", func(a *store.Arm) { a.Version++ }, store.ErrStale},
		{"another token", func(a *store.Arm) { a.Claim = f.id() }, store.ErrStale},
		{"no token", func(a *store.Arm) { a.Claim = job.ID{} }, store.ErrStale},
		{"re-arm of a claimed job", func(a *store.Arm) { a.Rearm = true }, store.ErrIllegal},
		{"no class", func(a *store.Arm) { a.Class = 0 }, store.ErrIllegal},
	} {
		got := f.armOne(f.intent(l, tt.edit))
		f.is(got.Snapshot, job.Snapshot{}, "%s: snapshot of a refusal", tt.name)
		f.fails(got.Err, tt.want)
		f.unchanged(l.Snapshot)
	}
	for _, state := range job.States {
		f := newFixture(f.T, f.open)
		s := f.inState(state)
		a := f.intent(store.Leased{Snapshot: s}, func(a *store.Arm) { a.Rearm = false })
		if state == job.Claimed {
			f.ok(f.armOne(a).Err)
			continue
		}
		f.fails(f.armOne(a).Err, store.ErrIllegal)
		f.unchanged(s)
	}
}

func armLeaseOver(f *fixture) {
	f.submit()
	l := f.claim()
	f.clock.advance(lease)
	f.fails(f.armOne(f.intent(l)).Err, store.ErrStale)
	f.apply(f.job(l.ID), job.LeaseOver{})
	f.fails(f.armOne(f.intent(l)).Err, store.ErrStale)
	again := f.claim()
	f.is(again.ClaimToken == l.ClaimToken, false, "one token twice")
	f.fails(f.armOne(f.intent(l)).Err, store.ErrStale)
	f.fails(f.armOne(f.intent(l, func(a *store.Arm) { a.Version = again.Version })).Err, store.ErrStale)
	f.arm(again)
}

func armWindow(f *fixture) {
	f.submit(func(n *store.NewJob) { n.Spec.StartWindow = 10 * time.Second })
	l := f.claim()
	f.clock.advance(10*time.Second - time.Microsecond)
	early := f.intent(l)
	f.clock.advance(time.Microsecond)
	f.fails(f.armOne(early).Err, store.ErrWindowOver)
	f.unchanged(l.Snapshot)
}

func armCanceled(f *fixture) {
	f.submit()
	l := f.claim()
	f.apply(l.Snapshot, job.CancelAsked{})
	f.fails(f.armOne(f.intent(l)).Err, store.ErrStale)
	f.is(f.job(l.ID).State, job.Canceled, "state")
}

func armHeld(f *fixture) {
	for _, kind := range []job.FailureKind{job.FailAuth, job.FailRateLimited} {
		f := newFixture(f.T, f.open)
		f.submit()
		f.submit()
		free := f.submit(holding("free"))
		got := f.claimN(3)
		slices.SortFunc(got, func(a, b store.Leased) int { return slices.Compare(a.ID[:], b.ID[:]) })
		f.apply(got[0].Snapshot, job.Deferred{Kind: kind, Message: "held", RetryAfter: 10 * time.Second})
		f.fails(f.armOne(f.intent(got[1])).Err, store.ErrHeld)
		f.unchanged(got[1].Snapshot)
		f.is(got[2].ID, free.ID, "the free job")
		f.arm(got[2])
		if kind == job.FailRateLimited {
			f.clock.advance(10 * time.Second)
			f.arm(got[1])
		}
	}
}

func armBatch(f *fixture) {
	for range 3 {
		f.submit()
	}
	got := f.claimN(3)
	items := []store.Arm{
		f.intent(got[0]),
		f.intent(got[1], func(a *store.Arm) { a.Class = 77 }), // refused by the database itself
		f.intent(got[2]),
	}
	out, err := f.s.Arm(f.ctx, items)
	f.ok(err)
	f.ok(out[0].Err)
	f.fails(out[1].Err, store.ErrIllegal)
	f.ok(out[2].Err)
	f.unchanged(got[1].Snapshot)
	_, err = f.s.Arm(f.ctx, slices.Repeat(items, store.MaxBatch))
	f.fails(err, store.ErrIllegal)
}

func armToken(f *fixture) {
	f.submit()
	f.submit()
	got := f.claimN(2)
	a := f.arm(got[0])
	f.fails(f.armOne(f.intent(got[0], func(in *store.Arm) { in.Token = a.Attempt.ArmToken })).Err, store.ErrStale)
	f.fails(f.armOne(f.intent(got[1], func(in *store.Arm) { in.Token = a.Attempt.ArmToken })).Err, store.ErrIllegal)
	f.unchanged(got[1].Snapshot)
	f.arm(got[1])
}

func gate(content string) func(*store.Arm) {
	return func(a *store.Arm) { a.Gate, a.AccountIdentity = []byte(content), "me" }
}

func armGate(f *fixture) {
	conn := f.connect(store.Connection{Class: job.Observable})
	for range 4 {
		f.submit(on(conn))
	}
	got := f.claimN(4)
	first := f.arm(got[0], gate("hello"))
	refused := f.armOne(f.intent(got[1], gate("hello"))).Err
	f.fails(refused, store.ErrGated)
	var gated *store.GatedError
	f.is(errors.As(refused, &gated) && gated.By == got[0].ID, true, "the refusal names the holder")
	f.unchanged(got[1].Snapshot)
	f.arm(got[2], gate("other content"))
	elsewhere := f.intent(got[3], gate("hello"))
	elsewhere.AccountIdentity = "somebody else"
	f.ok(f.armOne(elsewhere).Err)
	// While the outcome is unknown the gate stays closed.
	s := f.apply(first.Snapshot, answer(first.Snapshot, job.ResultUnknown)).Snapshot
	f.fails(f.armOne(f.intent(got[1], gate("hello"))).Err, store.ErrGated)
	s = f.apply(s, job.Looked{Observation: job.Observation{Attempt: 1, Verdict: job.SawCandidates}}).Snapshot
	f.is(s.State, job.NeedsResolution, "state")
	second := f.arm(got[1], gate("hello"))
	// It stays closed for an accepted job, and opens with the success.
	f.clock.advance(time.Second)
	third := f.submit(on(conn))
	l := f.claim()
	f.is(l.ID, third.ID, "job")
	s = f.apply(second.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultAccepted, Handle: "h"}).Snapshot
	f.fails(f.armOne(f.intent(l, gate("hello"))).Err, store.ErrGated)
	f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, Polled: true})
	f.arm(l, gate("hello"))
}

// looked is a look that began when arms attempts with the content had been armed.
func looked(content string, arms int64) func(*store.Arm) {
	return func(a *store.Arm) {
		gate(content)(a)
		a.Looked = &arms
	}
}

func (f *fixture) contentArms(l store.Leased, content string) int64 {
	n, err := f.s.ContentArms(f.ctx, store.GatedContent{
		Connection: l.Connection.ID, HoldKey: l.HoldKey, AccountIdentity: "me", Gate: []byte(content),
	})
	f.ok(err)
	return n
}

// An intent is refused if the content was armed since its job looked, also when that attempt
// has ended, and whatever the clock shows.
func armLooked(f *fixture) {
	conn := f.connect(store.Connection{Class: job.Observable})
	for range 5 {
		f.submit(on(conn))
	}
	got := f.claimN(5)
	f.is(f.contentArms(got[0], "hello"), int64(0), "arms")
	first := f.arm(got[0], looked("hello", 0))
	f.is(f.contentArms(got[1], "hello"), int64(1), "arms")
	f.fails(f.armOne(f.intent(got[1], looked("hello", 0))).Err, store.ErrGated)
	f.apply(first.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultSucceeded})
	f.fails(f.armOne(f.intent(got[1], looked("hello", 0))).Err, store.ErrLookAgain)
	f.unchanged(got[1].Snapshot)
	f.is(f.contentArms(got[1], "hello"), int64(1), "arms after a refusal")
	out, err := f.s.Arm(f.ctx, []store.Arm{
		f.intent(got[1], looked("hello", 1)), f.intent(got[2], looked("hello", 1)), f.intent(got[3], looked("other content", 0)),
	})
	f.ok(err)
	f.ok(out[0].Err)
	f.fails(out[1].Err, store.ErrGated)
	f.ok(out[2].Err)
	f.apply(out[0].Snapshot, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent})
	f.fails(f.armOne(f.intent(got[2], looked("hello", 1))).Err, store.ErrLookAgain)
	// An arm without a look is never refused for one, and counts.
	without := f.arm(got[4], gate("hello"))
	f.apply(without.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultSucceeded})
	f.fails(f.armOne(f.intent(got[2], looked("hello", 2))).Err, store.ErrLookAgain)
	f.arm(got[2], looked("hello", 3))
}

// The arms of a content are counted by account, and by connection only where the account is
// not known.
func armLookedElsewhere(f *fixture) {
	one, two := f.connect(store.Connection{Class: job.Observable}), f.connect(store.Connection{Class: job.Observable})
	f.submit(on(one))
	f.submit(on(two))
	got := f.claimN(2)
	first := f.arm(got[0], looked("hello", 0))
	f.apply(first.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultSucceeded})
	f.fails(f.armOne(f.intent(got[1], looked("hello", 0))).Err, store.ErrLookAgain)
	unknown := f.intent(got[1], looked("hello", 0))
	unknown.AccountIdentity = ""
	f.ok(f.armOne(unknown).Err)
}

func armClass(f *fixture) {
	f.submit(func(n *store.NewJob) { n.Class = job.Opaque })
	l := f.claim()
	f.is(l.Class, job.Opaque, "class before the arm")
	a := f.arm(l, func(a *store.Arm) { a.Class = job.Observable })
	f.is(a.Snapshot.Class, job.Observable, "class after the arm")
	f.apply(a.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient})
	f.clock.advance(time.Hour)
	again := f.arm(f.claim(), func(a *store.Arm) { a.Class = job.Keyed })
	f.is(again.Snapshot.Class, job.Observable, "class after the second arm")
	f.is(f.job(l.ID).Class, job.Observable, "stored class")
}

func armRearm(f *fixture) {
	s := f.ambiguous()
	l := f.looks()[0]
	got := f.arm(l)
	f.is([]any{got.Snapshot.State, got.Snapshot.Attempt}, []any{job.Sending, 2}, "state and attempt")
	f.is(got.Snapshot.Open, []int{1, 2}, "open attempts")
	f.is(got.Snapshot.RoundArmed, start, "first arm of the round")
	f.is(got.Snapshot.Version, s.Version+1, "version")
	e := f.last(s.ID)
	f.is([]any{e.From, e.To, e.Attempt}, []any{job.Ambiguous, job.Sending, 2}, "event")
}

func armRearmBytes(f *fixture) {
	f.ambiguous()
	l := f.looks()[0]
	for _, edit := range []func(*store.Arm){
		func(a *store.Arm) { a.EffectKey += "x" },
		func(a *store.Arm) { a.Digest = []byte("other") },
		func(a *store.Arm) { a.Digest = nil },
	} {
		f.fails(f.armOne(f.intent(l, edit)).Err, store.ErrIllegal)
		f.unchanged(l.Snapshot)
	}
	f.arm(l)
}

func armRearmState(f *fixture) {
	f.ambiguous()
	l := f.looks()[0]
	f.fails(f.armOne(f.intent(l, func(a *store.Arm) { a.Rearm = false })).Err, store.ErrIllegal)
	f.fails(f.armOne(f.intent(l, func(a *store.Arm) { a.Claim = f.id() })).Err, store.ErrStale)
	f.unchanged(l.Snapshot)
}

func armRearmCanceled(f *fixture) {
	f.ambiguous()
	l := f.looks()[0]
	s := f.apply(l.Snapshot, job.CancelAsked{}).Snapshot
	f.fails(f.armOne(f.intent(l, func(a *store.Arm) { a.Version = s.Version })).Err, store.ErrStale)
}

func armReadBack(f *fixture) {
	f.submit()
	l := f.claim()
	in := f.intent(l)
	_, err := f.s.ArmedBy(f.ctx, l.ID, in.Token)
	f.fails(err, store.ErrNotFound)
	want := f.armOne(in)
	f.ok(want.Err)
	got, err := f.s.ArmedBy(f.ctx, l.ID, in.Token)
	f.ok(err)
	got.Snapshot = f.whole(got.Snapshot)
	f.is(got, want, "read back")
	_, err = f.s.ArmedBy(f.ctx, f.id(), in.Token)
	f.fails(err, store.ErrNotFound)
}

func armHandle(f *fixture) {
	a := f.sending()
	id := a.Snapshot.ID
	f.ok(f.s.SaveHandle(f.ctx, id, 1, "h1"))
	f.is(f.job(id).Handle, "h1", "handle")
	f.is(f.job(id).Version, a.Snapshot.Version, "version")
	f.fails(f.s.SaveHandle(f.ctx, id, 2, "h2"), store.ErrNotFound)
	f.fails(f.s.SaveHandle(f.ctx, f.id(), 1, "h2"), store.ErrNotFound)
	s := f.apply(f.job(id), answer(a.Snapshot, job.ResultUnknown)).Snapshot
	f.is(s.Handle, "h1", "handle after the outcome")
	f.fails(f.s.SaveHandle(f.ctx, id, 1, "h2"), store.ErrStale)
	f.clock.advance(time.Minute)
	again := f.arm(f.looks()[0])
	f.is(again.Snapshot.Handle, "h1", "handle after a re-arm")
}

func armClaims(f *fixture) {
	f.submit()
	l := f.claim()
	f.clock.advance(lease)
	f.apply(f.job(l.ID), job.LeaseOver{})
	l = f.claim()
	f.is(l.Claims, 1, "claims")
	f.is(f.arm(l).Snapshot.Claims, 0, "claims after an arm")
}
