package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var applyTests = []test{
	{"every move of the table, and no other", applyTransitions},
	{"verdicts", applyVerdicts},
	{"one winner per version", applyConcurrent},
	{"counters and words", applyFields},
	{"due times", applyDue},
	{"the fence never moves", applyFence},
	{"cancel and uncancel", applyCancel},
	{"a new window", applyNewWindow},
	{"rulings", applyRuling},
	{"no end without effect while an attempt is open", applyOpen},
	{"only what is to be written", applyAction},
}

// inState returns a job in a state, its look, if any, not yet due.
func (f *fixture) inState(state job.State) job.Snapshot {
	f.Helper()
	short := func(n *store.NewJob) { n.Spec.StartWindow = 12 * time.Hour }
	asked := func(s job.Snapshot, e job.Evidence) job.Snapshot { return f.apply(s, e).Snapshot }
	var s job.Snapshot
	switch state {
	case job.Scheduled:
		s = f.submit(short)
	case job.Claimed:
		f.submit(short)
		s = f.claim().Snapshot
	case job.Sending:
		s = f.sending(short).Snapshot
	case job.Accepted:
		a := f.sending(short).Snapshot
		s = asked(a, job.Outcome{Attempt: 1, Result: job.ResultAccepted, Handle: "h"})
	case job.Ambiguous:
		a := f.sending(short).Snapshot
		s = asked(a, answer(a, job.ResultUnknown))
	case job.Retrying:
		a := f.sending(short).Snapshot
		s = asked(a, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient})
	case job.NeedsResolution:
		a := f.sending(short, on(f.connect(store.Connection{Class: job.Opaque}))).Snapshot
		s = asked(asked(a, answer(a, job.ResultUnknown)), job.LookDue{})
	case job.Succeeded:
		a := f.sending(short).Snapshot
		s = asked(a, answer(a, job.ResultSucceeded))
	case job.Failed:
		a := f.sending(short).Snapshot
		s = asked(a, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent})
	case job.Canceled:
		s = asked(f.submit(short), job.CancelAsked{})
	case job.Expired:
		s = asked(f.submit(short, at(start.Add(-13*time.Hour))), job.WindowOver{})
	}
	f.is(s.State, state, "state reached")
	return s
}

// end ends a job, so that it does not affect the next one.
func (f *fixture) end(id job.ID) {
	f.Helper()
	switch s := f.job(id); {
	case s.State.Terminal():
	case s.Attempt > 0:
		f.apply(s, answer(s, job.ResultSucceeded))
	default:
		f.apply(s, job.CancelAsked{})
	}
}

// applyTransitions tries all moves, written by hand and not by Decide.
func applyTransitions(f *fixture) {
	for _, from := range job.States {
		for _, to := range append(slices.Clone(job.States), 0, 12) {
			s := f.inState(from)
			got := f.change(s, job.Decision{
				To: to, Cause: job.CauseUpdated, Round: s.Round, Delay: time.Hour, CloseOpen: job.ResultAbsent,
			})
			want := job.Legal(from, to)
			if from != to && (to == job.Claimed || to == job.Sending) {
				want = false // leases and intents come from Claim and Arm
			}
			if !want {
				f.fails(got.Err, store.ErrIllegal)
				f.unchanged(s)
				f.is(len(f.events(s.ID)), int(s.Version), "%s to %s: events", from, to)
				f.end(s.ID)
				continue
			}
			f.ok(got.Err)
			f.is(got.Snapshot.State, to, "from %s", from)
			f.is(got.Snapshot.Version, s.Version+1, "version")
			f.is(f.job(s.ID), got.Snapshot, "stored job")
			e := f.last(s.ID)
			f.is([]any{e.From, e.To, e.Sequence}, []any{from, to, s.Version + 1}, "event")
			f.end(s.ID)
		}
	}
}

func applyVerdicts(f *fixture) {
	a, b, c := f.submit(), f.submit(), f.submit()
	cancel := f.decide(a, job.CancelAsked{})
	illegal := cancel
	illegal.To = job.Ambiguous
	out, err := f.s.Apply(f.ctx, []store.Change{
		{Job: a.ID, Version: a.Version, Decision: cancel},
		{Job: f.id(), Version: 1, Decision: cancel},
		{Job: b.ID, Version: b.Version + 1, Decision: cancel},
		{Job: b.ID, Version: b.Version, Decision: illegal},
		{Job: a.ID, Version: a.Version, Decision: cancel},
		{Job: c.ID, Version: c.Version, Decision: cancel},
	})
	f.ok(err)
	for i, want := range []error{nil, store.ErrNotFound, store.ErrStale, store.ErrIllegal, store.ErrStale, nil} {
		if want == nil {
			f.ok(out[i].Err)
			f.is(out[i].Snapshot.State, job.Canceled, "state")
			continue
		}
		f.fails(out[i].Err, want)
		f.is(out[i].Snapshot, job.Snapshot{}, "snapshot of a refusal")
	}
	f.unchanged(b)
	_, err = f.s.Apply(f.ctx, make([]store.Change, store.MaxBatch+1))
	f.fails(err, store.ErrIllegal)
}

func applyConcurrent(f *fixture) {
	s := f.submit()
	d := f.decide(s, job.CancelAsked{})
	var mu sync.Mutex
	var wg sync.WaitGroup
	won := 0
	for range 20 {
		wg.Go(func() {
			out, err := f.s.Apply(f.ctx, []store.Change{{Job: s.ID, Version: s.Version, Decision: d}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				f.Error(err)
			} else if out[0].Err == nil {
				won++
			}
		})
	}
	wg.Wait()
	f.is(won, 1, "winners")
	f.is(len(f.events(s.ID)), 2, "events")
}

func applyFields(f *fixture) {
	s := f.inState(job.Ambiguous)
	f.clock.advance(time.Second)
	now := start.Add(time.Second)
	got := f.change(s, job.Decision{
		To: job.Ambiguous, Cause: job.CauseLooked, Attempt: 1, Round: 2, Failures: 3, Claims: 4, Looks: 5, Negatives: 6, Misses: 7,
		Delay: time.Minute, Detail: "detail", Blocked: "blocked",
		LastError: &job.Failure{Kind: job.FailTransient, Message: "message", HTTPStatus: 503},
		Observed:  &job.Observation{Attempt: 1, Verdict: job.SawAbsent, BegunAt: s.Fence},
	})
	f.ok(got.Err)
	g := got.Snapshot
	f.is([]int{g.Round, g.Failures, g.Claims, g.Looks, g.Negatives, g.Misses}, []int{2, 3, 4, 5, 6, 7}, "counters")
	f.is(g.LastError, &job.Failure{Kind: job.FailTransient, Message: "message", HTTPStatus: 503, At: now}, "last error")
	f.is([]any{g.Blocked, g.NextAt, g.Updated}, []any{"blocked", now.Add(time.Minute), now}, "blocked, due, updated")
	e := f.last(s.ID)
	f.is([]any{e.Attempt, e.Detail, e.Actor, e.Reason, e.At}, []any{1, "detail", "tester", "why", now}, "event")
	// No last error keeps the old one.
	got = f.change(g, job.Decision{To: job.Ambiguous, Cause: job.CauseLooked, Round: 2, Delay: time.Minute})
	f.ok(got.Err)
	f.is(got.Snapshot.LastError, g.LastError, "kept error")
	f.is(f.job(s.ID), got.Snapshot, "stored job")
}

func applyDue(f *fixture) {
	s := f.inState(job.Ambiguous)
	f.clock.advance(time.Second)
	now := start.Add(time.Second)
	d := job.Decision{To: job.Ambiguous, Cause: job.CauseLooked, Round: 1, Delay: job.KeepDelay}
	kept := f.change(s, d).Snapshot
	f.is(kept.NextAt, s.NextAt, "kept due time")
	d.Delay = 0
	f.is(f.change(kept, d).Snapshot.NextAt, now, "due at once")
	for _, state := range job.States {
		f := newFixture(f.T, f.open)
		s := f.inState(state)
		waits := state.Terminal() || state == job.NeedsResolution
		f.is(s.NextAt.IsZero(), waits, "%s waits for nobody", state)
		f.is(s.Ended.IsZero(), !state.Terminal(), "%s has ended", state)
	}
}

func applyFence(f *fixture) {
	s := f.sending().Snapshot
	f.clock.advance(time.Second)
	got := f.change(s, job.Decision{To: job.Sending, Cause: job.CauseUpdated, Round: 1, Delay: time.Hour})
	f.ok(got.Err)
	f.is(got.Snapshot.NextAt, s.NextAt, "fence")
	f.is(f.job(s.ID).Fence, s.Fence, "stored fence")
}

func applyCancel(f *fixture) {
	s := f.sending().Snapshot
	f.clock.advance(time.Second)
	s = f.apply(s, job.CancelAsked{}).Snapshot
	f.is([]any{s.State, s.CancelAsked}, []any{job.Sending, start.Add(time.Second)}, "state and cancel")
	s = f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient}).Snapshot
	f.is([]any{s.State, s.Ended}, []any{job.Canceled, start.Add(time.Second)}, "state and end")
	late := f.apply(s, answer(s, job.ResultSucceeded)).Snapshot
	f.is(late.State, job.Succeeded, "state after late evidence")

	failed := f.inState(job.Failed)
	d := f.decide(failed, job.RetryAsked{})
	d.Cancel = true
	got := f.change(failed, d)
	f.is(got.Snapshot.CancelAsked.IsZero(), true, "uncancel wins")
	f.is(got.Snapshot.Ended.IsZero(), true, "no longer ended")
}

func applyNewWindow(f *fixture) {
	s := f.inState(job.Expired)
	f.clock.advance(24 * time.Hour)
	got := f.apply(s, job.RetryAsked{}).Snapshot
	now := start.Add(24 * time.Hour)
	f.is(got.StartDeadline, now.Add(12*time.Hour), "deadline: a whole window from now")
	f.is(got.ScheduleTime, s.ScheduleTime, "canonical time")
	f.is(got.NextAt, now, "due")
	f.is(f.claim().ID, s.ID, "claimed")
}

func applyRuling(f *fixture) {
	s := f.inState(job.NeedsResolution)
	f.clock.advance(time.Hour)
	got := f.apply(f.job(s.ID), job.Resolved{Ruling: job.RuleResend, Actor: "ann", Note: "sure"}).Snapshot
	now := start.Add(time.Hour)
	f.is(got.Resolution, &job.Resolution{Ruling: job.RuleResend, Actor: "ann", Note: "sure", At: now}, "ruling")
	f.is([]any{got.State, got.Round}, []any{job.Retrying, 2}, "state and round")
	f.is(f.attempts(s.ID)[0].Result, job.ResultSuperseded, "result of the old attempt")
	// The next round is a new effect with a key of its own.
	a := f.arm(f.claim())
	f.is(a.Attempt.EffectKey == f.attempts(s.ID)[0].EffectKey, false, "one effect key in two rounds")
	u := f.apply(a.Snapshot, answer(a.Snapshot, job.ResultUnknown)).Snapshot
	u = f.apply(f.job(u.ID), job.LookDue{}).Snapshot
	got = f.apply(u, job.Resolved{Ruling: job.RuleSent, Actor: "bob", ExternalID: "x1"}).Snapshot
	f.is(got.Resolution.Actor, "bob", "the newest ruling")
	f.is(got.Effect, &job.Effect{Round: 2, ExternalID: "x1", Proof: job.ProofOperator, At: now}, "effect")
	f.is(f.job(s.ID), got, "stored job")
}

func applyOpen(f *fixture) {
	s := f.inState(job.Ambiguous)
	for _, to := range []job.State{job.Retrying, job.Failed, job.Canceled, job.Expired} {
		got := f.change(s, job.Decision{To: to, Cause: job.CauseLooked, Round: 1})
		f.fails(got.Err, store.ErrIllegal)
		f.unchanged(s)
	}
	f.is(f.attempts(s.ID)[0].Result, job.ResultUnknown, "result")
}

func applyAction(f *fixture) {
	s := f.inState(job.Scheduled)
	got := f.change(s, job.Decision{Action: job.ActObserve, To: job.Canceled})
	f.fails(got.Err, store.ErrIllegal)
	f.fails(f.change(s, job.Decision{
		To: job.Canceled, Cause: job.CauseCancelRequested, Round: 1, Effect: &job.Effect{Round: 1, Proof: job.ProofResponse},
	}).Err, store.ErrIllegal)
	f.fails(f.change(s, job.Decision{
		To: job.Canceled, Cause: job.CauseCancelRequested, Round: 1, Settle: []job.Settled{{Attempt: 1, Result: job.ResultNotSent}},
	}).Err, store.ErrIllegal)
	f.unchanged(s)
}
