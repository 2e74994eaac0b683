package storetest

import (
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var evidenceTests = []test{
	{"a success in every state", evidenceLateSuccess},
	{"what is known is not forgotten", evidenceKept},
	{"unknown, then a late success", evidenceUnknownSuccess},
	{"an effect with and without a name", evidenceNames},
	{"a success closes the others", evidenceCloses},
	{"an observed object of another job", evidenceObservedTaken},
	{"an answer takes the object over", evidenceTakesOver},
	{"objects of two accounts", evidenceAccounts},
	{"two answers with one object", evidenceTwoAnswers},
	{"a word that names another job's object", evidenceWordOfShared},
	{"one object, named in every order", evidenceOrders},
	{"a second effect is recorded", evidenceDuplicate},
	{"the target's own end of an exchange", evidencePeerEnded},
}

// evidenceLateSuccess: a success of any attempt is accepted in every state.
func evidenceLateSuccess(f *fixture) {
	for _, state := range job.States {
		f := newFixture(f.T, f.open)
		s := f.retried(1)
		f.is(s.State, job.Retrying, "state")
		switch state {
		case job.Scheduled, job.Succeeded, job.Retrying:
		case job.Claimed:
			s = f.claim().Snapshot
		case job.Canceled:
			s = f.apply(s, job.CancelAsked{}).Snapshot
		case job.Expired:
			s = f.apply(s, job.RescheduleAsked{}).Snapshot // it is EXPIRED only before it begins again
			f.clock.advance(200 * time.Hour)
			s = f.apply(f.job(s.ID), job.WindowOver{}).Snapshot
		default:
			s = f.arm(f.claim()).Snapshot
			switch state {
			case job.Accepted:
				s = f.apply(s, job.Outcome{Attempt: 2, Result: job.ResultAccepted, Handle: "h"}).Snapshot
			case job.Ambiguous:
				s = f.apply(s, answer(s, job.ResultUnknown)).Snapshot
			case job.Failed:
				s = f.apply(s, job.Outcome{Attempt: 2, Result: job.ResultRejected, Kind: job.FailPermanent}).Snapshot
			case job.NeedsResolution:
				s = f.apply(s, answer(s, job.ResultUnknown)).Snapshot
				f.clock.advance(13 * time.Hour)
				s = f.apply(f.job(s.ID), job.LookDue{}).Snapshot
			default: // stays in mid-send
			}
		}
		got := f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "x"}).Snapshot
		f.is(got.State, job.Succeeded, "from %s", s.State)
		f.is(f.attempts(s.ID)[0].Result, job.ResultSucceeded, "result")
		f.is(got.Effect.Attempt, 1, "attempt of the effect")
	}
}

// evidenceKept writes results over each other: proof replaces an unknown result, a success
// replaces everything, and nothing replaces a success. An unknown result replaces a proof
// only with a handle, which is the platform's statement that it acts.
func evidenceKept(f *fixture) {
	over := []job.Result{
		job.ResultSucceeded, job.ResultRejected, job.ResultNotSent, job.ResultUnknown,
		job.ResultAccepted, job.ResultSuperseded, job.ResultAbsent,
	}
	for _, was := range over {
		for _, is := range over {
			s := f.sending().Snapshot
			d := job.Decision{To: job.Sending, Cause: job.CauseLateEvidence, Round: 1, Delay: job.KeepDelay}
			d.Settle = []job.Settled{{Attempt: 1, Result: was, Message: "first"}}
			first := f.change(s, d)
			f.ok(first.Err)
			d.Settle = []job.Settled{{Attempt: 1, Result: is, Message: "second"}}
			f.ok(f.change(first.Snapshot, d).Err)
			want := was
			answered := is == job.ResultSucceeded || is == job.ResultRejected || is == job.ResultNotSent || is == job.ResultAccepted
			uncertain := is == job.ResultUnknown && (was == job.ResultSuperseded || was == job.ResultAccepted)
			if was != job.ResultSucceeded && (answered || uncertain || was == job.ResultUnknown) {
				want = is
			}
			f.is(f.attempts(s.ID)[0].Result, want, "%s over %s", is, was)
			d.Settle = []job.Settled{{Attempt: 1, Result: job.ResultUnknown, Handle: "h"}}
			f.ok(f.change(f.job(s.ID), d).Err)
			if want != job.ResultSucceeded {
				want = job.ResultUnknown
			}
			f.is(f.attempts(s.ID)[0].Result, want, "a handle over %s", was)
			f.end(s.ID)
		}
	}
}

func evidenceUnknownSuccess(f *fixture) {
	s := f.inState(job.Ambiguous)
	f.clock.advance(time.Minute)
	got := f.apply(s, job.Outcome{
		Attempt: 1, Result: job.ResultSucceeded, ExternalID: "x", ExternalURL: "https://x", HTTPStatus: 201, BytesWritten: 12,
	}).Snapshot
	f.is(got.State, job.Succeeded, "state")
	now := start.Add(time.Minute)
	f.is(got.Effect, &job.Effect{
		Attempt: 1, Round: 1, ExternalID: "x", ExternalURL: "https://x", Proof: job.ProofResponse, At: now,
	}, "effect")
	f.is(f.job(s.ID), got, "stored job")
	a := f.attempts(s.ID)[0]
	f.is([]any{a.Result, a.HTTPStatus, a.BytesWritten}, []any{job.ResultSucceeded, 201, int64(12)}, "attempt")
	// It is an end: nothing leads out of it.
	late := f.change(got, job.Decision{
		To: job.Succeeded, Cause: job.CauseLateEvidence, Round: 1, Delay: job.KeepDelay,
		Settle: []job.Settled{{Attempt: 1, Result: job.ResultRejected}},
	})
	f.ok(late.Err)
	f.is(late.Snapshot.Effect, got.Effect, "effect after a late rejection")
	f.is(f.attempts(s.ID)[0].Result, job.ResultSucceeded, "result after a late rejection")
}

// evidenceNames: an answer without a name replaces a person's statement that had one, and the
// object is free again; and the reverse.
func evidenceNames(f *fixture) {
	s := f.inState(job.Ambiguous)
	s = f.apply(s, job.Resolved{Ruling: job.RuleSent, Actor: "ann", ExternalID: "x", Override: true}).Snapshot
	f.clock.advance(time.Minute)
	s = f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultSucceeded}).Snapshot
	f.is(s.Effect, &job.Effect{Attempt: 1, Round: 1, Proof: job.ProofResponse, At: start.Add(time.Minute)}, "effect without a name")
	f.is(f.job(s.ID), s, "stored job")
	other := f.sending().Snapshot
	got := f.apply(other, succeeded(other, "x"))
	f.is([]any{got.Owner, got.Snapshot.Effect.ExternalID}, []any{job.ID{}, "x"}, "former owner, effect of the other")
	for _, id := range []string{"y", ""} {
		f.clock.advance(time.Minute)
		effect := job.Effect{Attempt: 1, Round: 1, ExternalID: id, Proof: job.ProofResponse}
		a := f.change(s, job.Decision{
			To: job.Succeeded, Cause: job.CauseLateEvidence, Round: 1, Delay: job.KeepDelay, Effect: &effect,
		})
		f.ok(a.Err)
		s, effect.At = a.Snapshot, a.Snapshot.Updated
		f.is(s.Effect, &effect, "effect with the name %q", id)
		f.is(f.job(s.ID), s, "stored job")
	}
}

func evidenceCloses(f *fixture) {
	f.ambiguous()
	a := f.arm(f.looks()[0])
	got := f.apply(a.Snapshot, answer(a.Snapshot, job.ResultSucceeded)).Snapshot
	f.is(len(got.Open), 0, "open attempts")
	f.is(got.Effect.Proof, job.ProofKeyReplay, "proof")
	f.is(f.attempts(got.ID)[0].Result, job.ResultSuperseded, "result of the unknown attempt")
}

// observable returns a job of a platform that can only be looked at, unknown.
func (f *fixture) observable(conn store.Connection) job.Snapshot {
	f.Helper()
	a := f.sending(on(conn))
	return f.apply(a.Snapshot, answer(a.Snapshot, job.ResultUnknown)).Snapshot
}

func saw(id string) job.Looked {
	return job.Looked{Observation: job.Observation{Attempt: 1, Verdict: job.SawPresent, ExternalID: id}}
}

func evidenceObservedTaken(f *fixture) {
	conn := f.connect(store.Connection{Class: job.Observable, AccountIdentity: "me"})
	a, b := f.observable(conn), f.observable(conn)
	f.is(f.apply(a, saw("x")).Snapshot.State, job.Succeeded, "the first")
	got := f.apply(b, saw("x"))
	f.is(got.Snapshot.State, job.NeedsResolution, "the second")
	f.is(got.Owner.IsZero(), true, "no other owner")
	f.is(got.Snapshot.Effect == nil, true, "no effect")
	f.is(got.Snapshot.Open, []int{1}, "open attempts")
	f.is(f.last(b.ID).To, job.NeedsResolution, "event")
	seen, err := f.s.Observations(f.ctx, store.Ref{ID: b.ID}, 0, 1)
	f.ok(err)
	f.is(seen[0].ExternalID, "x", "recorded look")
	// The same look again on the first job is no conflict.
	f.is(f.job(a.ID).Effect.ExternalID, "x", "effect of the first")
}

func evidenceTakesOver(f *fixture) {
	conn := f.connect(store.Connection{Class: job.Observable, AccountIdentity: "me"})
	a := f.observable(conn)
	b := f.sending(on(conn)).Snapshot
	a = f.apply(a, saw("x")).Snapshot
	got := f.apply(b, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "x"})
	f.is(got.Snapshot.State, job.Succeeded, "the answered job")
	f.is([]any{got.Owner, got.TakenOver}, []any{a.ID, true}, "former owner, taken over")
	f.is(got.Snapshot.Effect.SharedWith, a.ID, "on the winner, as it is answered")
	f.is(f.job(b.ID).Effect.SharedWith, a.ID, "on the winner")
	f.is(strings.Contains(f.last(b.ID).Detail, a.ID.String()), true, "the winner's event names the loser")
	other := f.job(a.ID)
	f.is(other.Effect.SharedWith, b.ID, "on the loser")
	f.is(other.State, job.Succeeded, "SUCCEEDED never reverts")
	f.is(other.Version, a.Version+1, "version of the other job")
	e := f.last(a.ID)
	f.is([]any{e.Cause, e.From, e.To, e.Sequence}, []any{job.CauseEffectShared, job.Succeeded, job.Succeeded, other.Version}, "event")
	f.is(strings.Contains(e.Detail, b.ID.String()), true, "the loser's event names the winner")
	// The object is the second job's now.
	c := f.observable(conn)
	f.is(f.apply(c, saw("x")).Snapshot.State, job.NeedsResolution, "a third")
}

func evidenceAccounts(f *fixture) {
	for i, account := range []string{"me", "you", "", ""} {
		conn := f.connect(store.Connection{Class: job.Observable, AccountIdentity: account})
		s := f.observable(conn)
		f.is(f.apply(s, saw("x")).Snapshot.State, job.Succeeded, "account %d", i)
	}
	// Two connections to one account share its objects.
	conn := f.connect(store.Connection{Class: job.Observable, AccountIdentity: "me"})
	s := f.observable(conn)
	f.is(f.apply(s, saw("x")).Snapshot.State, job.NeedsResolution, "the same account")
	// No id is no object.
	for range 2 {
		f.is(f.apply(f.observable(conn), saw("")).Snapshot.State, job.Succeeded, "without an id")
	}
}

// evidenceTwoAnswers: a platform answers a second request with the object of the first one.
// Both jobs keep their answer, and both name the other.
func evidenceTwoAnswers(f *fixture) {
	a, b, c := f.sending().Snapshot, f.sending().Snapshot, f.sending().Snapshot
	out := job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "x"}
	a = f.apply(a, out).Snapshot
	f.is(a.Effect.SharedWith, job.ID{}, "alone")
	got := f.apply(b, out)
	f.is(got.Snapshot.State, job.Succeeded, "state")
	f.is([]any{got.Owner, got.TakenOver}, []any{a.ID, false}, "an answer takes nothing from an answer, and tells it")
	f.is(strings.Contains(f.last(b.ID).Detail, a.ID.String()), true, "the event names the other job")
	owner := f.job(a.ID)
	f.is([]any{owner.State, owner.Version, owner.Effect.SharedWith}, []any{job.Succeeded, a.Version + 1, b.ID}, "the owner")
	e := f.last(a.ID)
	f.is([]any{e.Cause, e.From, e.To, e.Sequence}, []any{job.CauseEffectShared, job.Succeeded, job.Succeeded, owner.Version}, "its event")
	f.is(strings.Contains(e.Detail, b.ID.String()), true, "its event names the other job")
	f.is([]any{got.Snapshot.Effect.SharedWith, f.job(b.ID).Effect.SharedWith}, []any{a.ID, a.ID}, "the other")
	// An owner gets one event, however many answers follow.
	got = f.apply(c, out)
	f.is([]any{got.Owner, f.job(c.ID).Effect.SharedWith}, []any{job.ID{}, a.ID}, "a third")
	f.is([]any{f.job(a.ID).Version, f.job(a.ID).Effect.SharedWith}, []any{owner.Version, b.ID}, "the owner, later")
}

// evidenceWordOfShared: a person's statement that names another job's object is recorded, and
// is no alarm at that job.
func evidenceWordOfShared(f *fixture) {
	conn := f.connect(store.Connection{Class: job.Observable, AccountIdentity: "me"})
	a, b := f.observable(conn), f.observable(conn)
	a = f.apply(a, saw("x")).Snapshot
	got := f.apply(b, job.Resolved{Ruling: job.RuleSent, Actor: "ops", ExternalID: "x", Override: true})
	f.is([]any{got.Snapshot.State, got.Owner, got.Snapshot.Effect.SharedWith}, []any{job.Succeeded, job.ID{}, a.ID}, "ruled")
	f.is([]any{f.job(a.ID).Version, f.job(a.ID).Effect.SharedWith}, []any{a.Version, job.ID{}}, "the owner")
}

func evidenceDuplicate(f *fixture) {
	f.submit(on(f.connect(store.Connection{Class: job.Opaque})), func(n *store.NewJob) { n.Spec.Delivery = job.AtLeastOnce })
	a := f.arm(f.claim())
	s := f.apply(a.Snapshot, answer(a.Snapshot, job.ResultUnknown)).Snapshot
	f.clock.advance(fence)
	s = f.apply(f.job(s.ID), job.LookDue{}).Snapshot
	f.is([]any{s.State, s.Round}, []any{job.Retrying, 2}, "resent")
	b := f.arm(f.claim())
	s = f.apply(b.Snapshot, job.Outcome{Attempt: 2, Result: job.ResultSucceeded, ExternalID: "second"}).Snapshot
	s = f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "first"}).Snapshot
	f.is(f.last(s.ID).Cause, job.CauseDuplicateEffect, "cause")
	f.is(s.Effect.ExternalID, "second", "effect")
	f.is(f.attempts(s.ID)[0].Result, job.ResultSucceeded, "result of the first")
}

// evidencePeerEnded: whether the target itself ended the exchange is kept with each attempt,
// and known to all who read the job.
func evidencePeerEnded(f *fixture) {
	known := func(s job.Snapshot) []any { return []any{s.PeerEnded, s.EarlierFence} }
	for _, ended := range []bool{false, true} {
		s := f.sending().Snapshot
		open := s.Fence // the fence that a repeat has to wait for
		if ended {
			open = time.Time{}
		}
		out := job.Outcome{Attempt: 1, Result: job.ResultUnknown, PeerEnded: ended}
		s = f.apply(s, out).Snapshot
		f.is(known(s), []any{ended, time.Time{}}, "after the outcome")
		f.is(known(f.job(s.ID)), known(s), "as it is read")
		f.is(f.attempts(s.ID)[0].PeerEnded, ended, "the attempt")
		f.clock.advance(s.NextAt.Sub(f.clock.now()))
		look := f.looks()[0]
		f.is(known(look.Snapshot), known(s), "as it is leased")
		armed := f.armOne(f.intent(look))
		f.ok(armed.Err)
		f.is(known(armed.Snapshot), []any{false, open}, "after the repeat's arm")
		f.is(known(f.job(s.ID)), known(armed.Snapshot), "as it is read then")
		f.is(f.attempts(s.ID)[0].PeerEnded, ended, "the attempt that is kept")
		out.Attempt = 2
		s = f.apply(f.job(s.ID), out).Snapshot
		f.is(known(s), []any{ended, open}, "after the repeat's outcome")
		f.is(known(f.job(s.ID)), known(s), "as it is read at last")
		out.Attempt, out.PeerEnded = 1, true
		s = f.apply(s, out).Snapshot
		f.is(known(s), []any{ended, time.Time{}}, "after the first attempt's late end")
		f.is(known(f.job(s.ID)), known(s), "as it is read after that")
		f.apply(s, succeeded(s, "p-"+s.ID.String()))
	}
}
