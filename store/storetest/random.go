package storetest

import (
	"bytes"
	"time"

	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var randomTests = []test{{"operations keep the invariants", randomOperations}}

// randomOperations drives a store with random claims, arms, outcomes, looks,
// requests and sweeps, judged by Decide as the engine's are, and after each one
// checks the protocol's invariants from outside.
func randomOperations(f *fixture) {
	classes := []job.Class{job.Keyed, job.Handle, job.Observable, job.Opaque}
	policies := []job.Policy{job.Hold, job.AssumeSent, job.Resend}
	rapid.Check(f.T, func(t *rapid.T) {
		// One store serves all runs; each has a project and a connection of its own.
		w := &world{
			fixture: f, t: t, jobs: make(map[job.ID]*known), leases: make(map[job.ID]store.Leased),
			project: "random-" + f.id().String(), stolen: make(map[job.ID]bool),
		}
		w.conn = f.connect(store.Connection{
			Project: w.project, Class: rapid.SampledFrom(classes).Draw(t, "class"),
			KeyWindow: 24 * time.Hour, AccountIdentity: w.project,
		})
		for range rapid.IntRange(1, 4).Draw(t, "jobs") {
			n := f.new(on(w.conn))
			n.Spec.Project = w.project
			n.Spec.Policy = rapid.SampledFrom(policies).Draw(t, "policy")
			n.Spec.Retry.MaxAttempts = rapid.IntRange(1, 5).Draw(t, "attempts")
			n.Spec.StartWindow = time.Duration(rapid.IntRange(1, 6).Draw(t, "window")) * time.Hour
			w.jobs[n.Spec.ID] = &known{asked: n, first: f.create(n)[0].Snapshot}
			w.ids = append(w.ids, n.Spec.ID)
		}
		steps := []struct {
			name string
			do   func()
		}{
			{"claim", w.claimSome}, {"claim looks", w.look}, {"arm", w.armSome}, {"outcome", w.outcome},
			{"outcome again", w.outcome}, {"sweep", w.sweep}, {"ask", w.ask}, {"submit again", w.resubmit}, {"time", w.time},
		}
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, len(steps)-1).Draw(t, "step")
			t.Logf("step: %s", steps[i].name)
			steps[i].do()
			w.check()
		}
		w.drain()
	})
}

// world is one run: the jobs and what was seen of them.
type world struct {
	*fixture
	t       *rapid.T
	project string
	conn    store.Connection
	ids     []job.ID
	jobs    map[job.ID]*known
	leases  map[job.ID]store.Leased
	stolen  map[job.ID]bool
}

type known struct {
	asked store.NewJob
	first job.Snapshot
	// ended is set once the job was SUCCEEDED, which never reverts.
	ended bool
	// arms are the attempts as they were when the last one was armed.
	arms int
}

func (w *world) pick() job.Snapshot {
	s, err := w.s.Job(w.ctx, store.Ref{ID: rapid.SampledFrom(w.ids).Draw(w.t, "job")})
	w.must(err)
	return s
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Fatal(err)
	}
}

// judge decides and writes; a request that does not fit the state is refused.
func (w *world) judge(s job.Snapshot, e job.Evidence) {
	traits := job.Traits{Class: s.Class, KeyWindow: 24 * time.Hour, ReadLag: time.Second, Negatives: 2, Spacing: time.Second}
	d, err := job.Decide(s.View(traits, 0), e)
	if err != nil || d.Action != job.ActWrite {
		return
	}
	out, err := w.s.Apply(w.ctx, []store.Change{{Job: s.ID, Version: s.Version, Decision: d}})
	w.must(err)
	if out[0].Err != nil {
		w.t.Fatalf("%T on %v, to %v: %v", e, s.State, d.To, out[0].Err)
	}
	if !out[0].Stolen.IsZero() {
		w.stolen[out[0].Stolen] = true
	}
}

func (w *world) claimSome() {
	got, err := w.s.Claim(w.ctx, store.ClaimParams{Worker: "w", Lease: lease, Limit: 3})
	w.must(err)
	w.keep(got)
}

func (w *world) keep(got []store.Leased) {
	for _, l := range got {
		if w.jobs[l.ID] != nil { // not an earlier run's
			w.leases[l.ID] = l
		}
	}
}

// look leases looks and does what Decide says: arm again, poll or observe.
func (w *world) look() {
	got, err := w.s.ClaimLooks(w.ctx, store.ClaimParams{Worker: "looker", Lease: lease, Limit: 3})
	w.must(err)
	for _, l := range got {
		if w.jobs[l.ID] == nil {
			continue
		}
		traits := job.Traits{Class: l.Class, KeyWindow: 24 * time.Hour, ReadLag: time.Second, Negatives: 2, Spacing: time.Second}
		d, err := job.Decide(l.View(traits, 0), job.LookDue{})
		w.must(err)
		switch d.Action {
		case job.ActRearm:
			w.leases[l.ID] = l
		case job.ActObserve:
			verdicts := []job.Verdict{job.SawPresent, job.SawAbsent, job.SawAbsent, job.SawInconclusive, job.SawCandidates}
			w.judge(l.Snapshot, job.Looked{Observation: job.Observation{
				Attempt: l.Attempt, Verdict: rapid.SampledFrom(verdicts).Draw(w.t, "verdict"),
				ExternalID: rapid.SampledFrom([]string{"", "x", "y"}).Draw(w.t, "seen"),
			}})
		case job.ActPoll:
			w.judge(l.Snapshot, w.drawOutcome(l.Snapshot, l.Attempt, true))
		case job.ActWrite:
			w.judge(l.Snapshot, job.LookDue{})
		case job.ActNothing:
		}
	}
}

// armSome arms a lease that was kept, which may be over by now, and which
// another owner may have.
func (w *world) armSome() {
	for _, id := range w.ids {
		l, ok := w.leases[id]
		if !ok || !rapid.Bool().Draw(w.t, "arm") {
			continue
		}
		delete(w.leases, id)
		before := w.attempts(id)
		a := w.armOne(w.intent(l, func(a *store.Arm) { a.AccountIdentity = w.project }))
		if a.Err != nil {
			continue
		}
		w.jobs[id].arms++
		for _, old := range before {
			// I3: every earlier intent is closed, or has the same key and bytes.
			same := old.EffectKey == a.Attempt.EffectKey && bytes.Equal(old.RequestDigest, a.Attempt.RequestDigest)
			if old.Result.Open() && !same {
				w.t.Fatalf("attempt %d armed while attempt %d is open", a.Attempt.Number, old.Number)
			}
		}
	}
}

func (w *world) outcome() {
	s := w.pick()
	if s.Attempt == 0 {
		return
	}
	n := rapid.IntRange(1, s.Attempt).Draw(w.t, "attempt")
	w.judge(s, w.drawOutcome(s, n, false))
}

func (w *world) drawOutcome(s job.Snapshot, attempt int, polled bool) job.Outcome {
	results := []job.Result{
		job.ResultSucceeded, job.ResultAccepted, job.ResultRejected, job.ResultNotSent, job.ResultUnknown, job.ResultUnknown,
	}
	kinds := []job.FailureKind{job.FailTransient, job.FailPermanent, job.FailRateLimited}
	o := job.Outcome{
		Attempt: attempt, Polled: polled, Message: "m",
		Result: rapid.SampledFrom(results).Draw(w.t, "result"),
		Kind:   rapid.SampledFrom(kinds).Draw(w.t, "kind"),
	}
	switch o.Result {
	case job.ResultSucceeded:
		o.ExternalID = s.ID.String() + string(rune('0'+attempt))
		if w.conn.Class == job.Observable {
			// What a look saw may turn out to be another job's.
			o.ExternalID = rapid.SampledFrom([]string{"x", "y", o.ExternalID}).Draw(w.t, "object")
			w.reserve(&o, s)
		}
	case job.ResultAccepted:
		o.Handle = "h"
	default:
	}
	return o
}

// reserve keeps the platform sane: it never gives two answers with one object.
func (w *world) reserve(o *job.Outcome, s job.Snapshot) {
	for _, id := range w.ids {
		other, err := w.s.Job(w.ctx, store.Ref{ID: id})
		w.must(err)
		if id != s.ID && other.Effect != nil && other.Effect.ExternalID == o.ExternalID && other.Effect.Proof != job.ProofObserved {
			o.ExternalID = s.ID.String() + string(rune('0'+o.Attempt))
		}
	}
}

func (w *world) sweep() {
	got, err := w.s.Overdue(w.ctx, store.MaxBatch)
	w.must(err)
	for _, s := range got {
		if w.jobs[s.ID] == nil {
			continue
		}
		switch {
		case s.State == job.Sending:
			w.judge(s, job.FenceOver{})
		case !s.StartDeadline.After(s.Now):
			w.judge(s, job.WindowOver{})
		default:
			w.judge(s, job.LeaseOver{})
		}
	}
}

func (w *world) ask() {
	s := w.pick()
	rulings := []job.Ruling{job.RuleSent, job.RuleNotSent, job.RuleResend, job.RuleCancel}
	switch rapid.IntRange(0, 4).Draw(w.t, "request") {
	case 0:
		w.judge(s, job.CancelAsked{})
	case 1:
		w.judge(s, job.RetryAsked{})
	case 2:
		w.judge(s, job.Deferred{Kind: job.FailTransient, Message: "m"})
	default:
		w.judge(s, job.Resolved{Ruling: rapid.SampledFrom(rulings).Draw(w.t, "ruling"), Actor: "ann"})
	}
}

// resubmit: I7, one key, one job, one canonical time.
func (w *world) resubmit() {
	k := w.jobs[rapid.SampledFrom(w.ids).Draw(w.t, "job")]
	n := k.asked
	n.Spec.ID = w.id()
	got := w.create(n)[0]
	if got.Created || got.Snapshot.ID != k.first.ID || !got.Snapshot.ScheduledFor.Equal(k.first.ScheduledFor) {
		w.t.Fatalf("one key, two jobs or two times: %+v", got)
	}
}

func (w *world) time() {
	steps := []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}
	w.clock.advance(rapid.SampledFrom(steps).Draw(w.t, "advance"))
}

// drain ends what is left of this run, out of the way of the next one.
func (w *world) drain() {
	for _, id := range w.ids {
		w.judge(w.read(id), job.CancelAsked{})
		if s := w.read(id); s.Attempt > 0 {
			w.judge(s, job.Outcome{Attempt: s.Attempt, Result: job.ResultSucceeded, ExternalID: id.String()})
		}
	}
	w.check()
}

func (w *world) read(id job.ID) job.Snapshot {
	s, err := w.s.Job(w.ctx, store.Ref{ID: id})
	w.must(err)
	return s
}

func (w *world) check() {
	owners := make(map[string]job.ID)
	for _, id := range w.ids {
		s := w.read(id)
		w.checkAttempts(s)
		w.checkEvents(s)
		k := w.jobs[id]
		if k.ended && s.State != job.Succeeded {
			w.t.Fatalf("I4: job %s left SUCCEEDED for %v", id, s.State)
		}
		k.ended = k.ended || s.State == job.Succeeded
		if s.Effect == nil || s.Effect.ExternalID == "" || w.stolen[id] || s.Effect.Proof == job.ProofOperator {
			continue
		}
		if other, taken := owners[s.Effect.ExternalID]; taken {
			w.t.Fatalf("I10: the object %s settles jobs %s and %s", s.Effect.ExternalID, other, id)
		}
		owners[s.Effect.ExternalID] = id
	}
}

// checkAttempts: I1, at most one live intent per job, and only in mid-send.
func (w *world) checkAttempts(s job.Snapshot) {
	all := w.attempts(s.ID)
	live := 0
	for i, a := range all {
		if a.Number != i+1 {
			w.t.Fatalf("attempt %d has number %d", i+1, a.Number)
		}
		if a.Result == 0 {
			live++
		}
	}
	if live > 1 || len(all) != s.Attempt || len(all) != w.jobs[s.ID].arms {
		w.t.Fatalf("I1: %d live of %d attempts; %d were armed, the job says %d", live, len(all), w.jobs[s.ID].arms, s.Attempt)
	}
	quiet := s.State == job.Scheduled || s.State == job.Claimed || s.State == job.Retrying
	if quiet && len(s.Open) > 0 {
		w.t.Fatalf("I3: %v with open attempts %v", s.State, s.Open)
	}
}

// checkEvents: I9, each write has one event, without gaps, and I4, by listed
// moves only.
func (w *world) checkEvents(s job.Snapshot) {
	p, err := w.s.Events(w.ctx, store.EventQuery{Project: w.project, Job: s.ID})
	w.must(err)
	at := job.State(0)
	for i, e := range p.Events {
		if e.Sequence != int64(i+1) || e.From != at {
			w.t.Fatalf("I9: event %d of %v: %+v", i+1, at, e)
		}
		if i > 0 && !job.Legal(e.From, e.To) {
			w.t.Fatalf("I4: %v to %v", e.From, e.To)
		}
		at = e.To
	}
	if int64(len(p.Events)) != s.Version || at != s.State {
		w.t.Fatalf("I9: %d events end in %v; the job is %v, version %d", len(p.Events), at, s.State, s.Version)
	}
}
