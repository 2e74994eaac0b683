package storetest

import (
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var incidentTests = []test{
	{"only jobs in trouble, of the project", troubleKinds},
	{"the first cause of an unknown outcome", troubleFirstUnknown},
	{"the first cause of a failure, and results without a proof", troubleFirstFailed},
	{"a job that a restore left to a person", troubleRestored},
	{"what looks saw", troubleSeen},
	{"holds", troubleHolds},
	{"replies that wait", troubleReplies},
	{"bounds", troubleBounds},
	{"sent without a proof", unprovenJobs},
}

func (f *fixture) troubles(kind store.TroubleKind, edit ...func(*store.TroubleQuery)) store.TroublePage {
	f.Helper()
	q := store.TroubleQuery{Project: project, Kind: kind}
	for _, e := range edit {
		e(&q)
	}
	out, err := f.s.Troubles(f.ctx, q)
	f.ok(err)
	return out
}

// trouble returns the only job in a kind of trouble.
func (f *fixture) trouble(kind store.TroubleKind) store.Trouble {
	f.Helper()
	page := f.troubles(kind)
	f.is(len(page.Jobs), 1, "jobs in trouble")
	return page.Jobs[0]
}

func jobsIn(page store.TroublePage) []job.ID {
	var out []job.ID
	for _, t := range page.Jobs {
		out = append(out, t.Job)
	}
	return out
}

// answered ends an attempt with a cause.
func answered(s job.Snapshot, result job.Result, kind job.FailureKind, status int) job.Outcome {
	return job.Outcome{Attempt: s.Attempt, Result: result, Kind: kind, HTTPStatus: status}
}

func troubleKinds(f *fixture) {
	other := f.connect(store.Connection{Project: "other", Class: job.Opaque})
	f.sending(func(n *store.NewJob) { n.Spec.Project, n.Spec.Connection = "other", other.ID })
	in := make(map[job.State]job.ID)
	// Those that can be claimed come last.
	claimable := []job.State{job.Retrying, job.Scheduled}
	for _, state := range append(slices.DeleteFunc(slices.Clone(job.States), job.State.Runnable), claimable...) {
		in[state] = f.inState(state).ID
		f.clock.advance(time.Second)
	}
	f.submit(at(f.clock.now().Add(24 * time.Hour)))
	f.is(jobsIn(f.troubles(store.TroubleUnknown)), []job.ID{in[job.NeedsResolution], in[job.Ambiguous]}, "unknown")
	f.is(jobsIn(f.troubles(store.TroubleFailed)), []job.ID{in[job.Failed], in[job.Expired]}, "failed")
	f.clock.advance(time.Hour - time.Minute)
	f.is(jobsIn(f.troubles(store.TroubleWaiting)), []job.ID{in[job.Scheduled], in[job.Retrying]}, "waiting")
	since := f.job(in[job.Expired]).Ended
	f.is(jobsIn(f.troubles(store.TroubleFailed, func(q *store.TroubleQuery) { q.Since = since })), []job.ID{in[job.Expired]}, "failed since")
	_, err := f.s.Troubles(f.ctx, store.TroubleQuery{Project: project, Kind: 9})
	f.fails(err, store.ErrIllegal)
}

func troubleFirstUnknown(f *fixture) {
	a := f.sending()
	armed := a.Attempt.ArmedAt
	s := f.apply(a.Snapshot, answered(a.Snapshot, job.ResultUnknown, job.FailAmbiguous, 503)).Snapshot
	got := f.trouble(store.TroubleUnknown)
	f.is(got, store.Trouble{
		Job: s.ID, Version: s.Version, State: job.Ambiguous, Connection: f.conn.ID, HoldKey: holdKey, Class: job.Keyed, Since: armed,
		First: store.TroubleCause{Kind: job.FailAmbiguous, HTTPStatus: 503}, Last: store.TroubleCause{Kind: job.FailAmbiguous, HTTPStatus: 503},
		Open: true, Attempts: 1, NextAt: s.NextAt, Fence: s.Fence, Results: 1 << job.ResultUnknown,
	}, "trouble")
	// A repeat that is proven unsent changes the last error, and neither the cause nor since when.
	f.clock.advance(s.NextAt.Sub(f.clock.now()))
	l := f.looks()[0]
	again := f.arm(l, func(r *store.Arm) { r.Rearm = true })
	s = f.apply(again.Snapshot, answered(again.Snapshot, job.ResultUnknown, job.FailAmbiguous, 0)).Snapshot
	got = f.trouble(store.TroubleUnknown)
	f.is(got.First, store.TroubleCause{Kind: job.FailAmbiguous, HTTPStatus: 503}, "first cause")
	f.is(got.Last, store.TroubleCause{Kind: job.FailAmbiguous}, "last error")
	f.is([]any{got.Since, got.Attempts, got.Open, got.Version}, []any{armed, 2, true, s.Version}, "since, attempts, open, version")
}

func troubleFirstFailed(f *fixture) {
	a := f.sending()
	s := f.apply(a.Snapshot, answered(a.Snapshot, job.ResultNotSent, job.FailTransient, 0)).Snapshot
	f.clock.advance(s.NextAt.Sub(f.clock.now()))
	a = f.arm(f.claim())
	s = f.apply(a.Snapshot, answered(a.Snapshot, job.ResultRejected, job.FailPermanent, 410)).Snapshot
	got := f.trouble(store.TroubleFailed)
	f.is(got.First, store.TroubleCause{Kind: job.FailTransient}, "first cause")
	f.is(got.Last, store.TroubleCause{Kind: job.FailPermanent, HTTPStatus: 410}, "last error")
	f.is(got.Since, s.Ended, "since its end")
	f.is(got.Results, store.Results(1<<job.ResultNotSent|1<<job.ResultRejected), "results")
	f.is(got.Results.Has(job.ResultSuperseded), false, "closed without a proof")

	unknown := f.inState(job.NeedsResolution)
	f.clock.advance(time.Hour)
	f.apply(unknown, job.Resolved{Ruling: job.RuleNotSent, Actor: "ann", Note: "note"})
	page := f.troubles(store.TroubleFailed)
	f.is(len(page.Jobs), 2, "failed jobs")
	f.is(page.Jobs[0].Job, unknown.ID, "the newest end comes first")
	f.is(page.Jobs[0].Results.Has(job.ResultSuperseded), true, "closed without a proof, by a ruling")
	f.is([]bool{page.Jobs[0].Ruled, page.Jobs[1].Ruled}, []bool{true, false}, "ended by a ruling")
}

func troubleRestored(f *fixture) {
	s := f.submit()
	f.clock.advance(time.Minute)
	s = f.apply(s, job.Restored{Since: start}).Snapshot
	got := f.trouble(store.TroubleUnknown)
	f.is([]any{got.Open, got.Attempts, got.First.Kind, got.Since}, []any{false, 0, job.FailAmbiguous, s.Updated}, "open, attempts, cause, since")
}

func troubleSeen(f *fixture) {
	observable := f.connect(store.Connection{Class: job.Observable})
	s := f.ambiguous(on(observable), gatedNot)
	f.is(f.trouble(store.TroubleUnknown).SeenLast, job.Verdict(0), "no look yet")
	look := func(v job.Verdict) {
		f.Helper()
		at := f.clock.now()
		s = f.apply(f.job(s.ID), job.Looked{Observation: job.Observation{Attempt: 1, Verdict: v, BegunAt: at, EndedAt: at}}).Snapshot
	}
	look(job.SawInconclusive)
	f.clock.advance(time.Minute)
	look(job.SawCandidates)
	got := f.trouble(store.TroubleUnknown)
	f.is(got.State, job.NeedsResolution, "state")
	f.is(got.Seen, store.Verdicts(1<<job.SawInconclusive|1<<job.SawCandidates), "seen")
	f.is([]any{got.SeenLast, got.SeenAt}, []any{job.SawCandidates, f.clock.now().UTC()}, "last look")
}

// gatedNot leaves a job as it is.
func gatedNot(*store.NewJob) {}

func troubleHolds(f *fixture) {
	late := f.submit(holding("free"))
	f.submit()
	f.holdFor(job.FailAuth, 0, job.AuthLoginEnded)
	f.clock.advance(2 * time.Minute)
	page := f.troubles(store.TroubleWaiting)
	byKey := make(map[string]store.Trouble)
	for _, t := range page.Jobs {
		byKey[t.HoldKey] = t
	}
	f.is([]any{byKey["free"].Hold, byKey["free"].Since}, []any{store.HoldCause(""), late.NextAt}, "a late job")
	auth := byKey[holdKey]
	if auth.Job.IsZero() { // the first claim took the other hold key
		auth, byKey[holdKey] = byKey["free"], byKey["free"]
	}
	f.is([]any{auth.Hold, auth.Auth, auth.HeldSince}, []any{store.HoldAuth, job.AuthLoginEnded, start.UTC()}, "a refused credential")
	paused := f.revise(f.connection(f.conn.ID), store.ConnectionChange{Pause: new(string)})
	for _, t := range f.troubles(store.TroubleWaiting).Jobs {
		if t.HoldKey == "free" {
			f.is([]any{t.Hold, t.HeldSince}, []any{store.HoldPaused, paused.PausedAt}, "a pause")
		}
	}
}

func troubleReplies(f *fixture) {
	first := f.submit()
	f.submit(replying(first.ID))
	f.is(jobsIn(f.troubles(store.TroubleWaiting)), []job.ID{first.ID}, "the reply waits for the first")
}

func troubleBounds(f *fixture) {
	var ids []job.ID
	for range 3 {
		ids = append(ids, f.inState(job.Failed).ID)
		f.clock.advance(time.Second)
	}
	page := f.troubles(store.TroubleFailed, func(q *store.TroubleQuery) { q.Limit = 2 })
	f.is(jobsIn(page), []job.ID{ids[2], ids[1]}, "the newest ends")
	f.is(page.More, true, "more")
	f.is(f.troubles(store.TroubleFailed, func(q *store.TroubleQuery) { q.Limit = 4 }).More, false, "more, below the limit")
}

func unprovenJobs(f *fixture) {
	f.inState(job.Succeeded)
	ruled := f.inState(job.NeedsResolution)
	ruled = f.apply(ruled, job.Resolved{Ruling: job.RuleSent, Actor: "ann", Note: "note"}).Snapshot
	f.clock.advance(time.Minute)
	opaque := f.connect(store.Connection{Class: job.Opaque})
	a := f.sending(on(opaque), func(n *store.NewJob) { n.Spec.Delivery = job.AtMostOnce }).Snapshot
	assumed := f.apply(a, answer(a, job.ResultUnknown)).Snapshot
	if assumed.State == job.Ambiguous {
		assumed = f.apply(assumed, job.LookDue{}).Snapshot
	}
	f.is(assumed.State, job.Succeeded, "state")
	page, err := f.s.Unproven(f.ctx, store.TroubleQuery{Project: project})
	f.ok(err)
	f.is(page.Jobs, []store.Trouble{
		{
			Job: assumed.ID, Version: assumed.Version, State: job.Succeeded, Connection: opaque.ID, HoldKey: holdKey, Class: job.Opaque,
			Since: assumed.Ended, Proof: job.ProofAssumed,
		},
		{
			Job: ruled.ID, Version: ruled.Version, State: job.Succeeded, Connection: ruled.Connection, HoldKey: holdKey, Class: job.Opaque,
			Since: ruled.Ended, Proof: job.ProofOperator,
		},
	}, "unproven")
	page, err = f.s.Unproven(f.ctx, store.TroubleQuery{Project: project, Since: assumed.Ended, Limit: 1})
	f.ok(err)
	f.is([]any{len(page.Jobs), page.More}, []any{1, true}, "jobs since, more")
	page, err = f.s.Unproven(f.ctx, store.TroubleQuery{Project: "other"})
	f.ok(err)
	f.is(len(page.Jobs), 0, "of another project")
}
