package storetest

import (
	"bytes"
	"errors"
	"time"

	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var randomTests = []test{{"operations keep the invariants", randomOperations}}

// randomOperations drives a store with random claims, arms, outcomes, looks, requests and
// sweeps, judged by Decide as the engine's are, and after each one checks the protocol's
// invariants from outside.
func randomOperations(f *fixture) {
	classes := []job.Class{job.Keyed, job.Handle, job.Observable, job.Opaque}
	policies := []job.Delivery{job.OnceOrAsk, job.AtMostOnce, job.AtLeastOnce}
	rapid.Check(f.T, func(t *rapid.T) {
		// One store serves all runs; each has a project and a connection of its own.
		w := &world{
			fixture: f, t: t, jobs: make(map[job.ID]*known), leases: make(map[job.ID]store.Leased),
			project: "random-" + f.id().String(), takenOver: make(map[job.ID]bool),
		}
		w.conn = f.connect(store.Connection{
			Project: w.project, Class: rapid.SampledFrom(classes).Draw(t, "class"),
			KeyWindow: 24 * time.Hour, AccountIdentity: w.project,
		})
		for range rapid.IntRange(1, 4).Draw(t, "jobs") {
			n := f.new(on(w.conn))
			n.Spec.Project = w.project
			n.Spec.Delivery = rapid.SampledFrom(policies).Draw(t, "policy")
			n.Spec.Retry.MaxAttempts = rapid.IntRange(1, 5).Draw(t, "attempts")
			n.Spec.StartWindow = time.Duration(rapid.IntRange(1, 6).Draw(t, "window")) * time.Hour
			if len(w.ids) > 0 && rapid.Bool().Draw(t, "replies") {
				n.Spec.ReplyTo = rapid.SampledFrom(w.ids).Draw(t, "to")
				n.Spec.WaitWindow = time.Duration(rapid.IntRange(1, 6).Draw(t, "wait")) * time.Hour
			}
			w.jobs[n.Spec.ID] = &known{asked: n, first: f.create(n)[0].Snapshot}
			w.ids = append(w.ids, n.Spec.ID)
		}
		steps := []struct {
			name string
			do   func()
		}{
			{"claim", w.claimSome}, {"claim looks", w.look}, {"arm", w.armSome}, {"outcome", w.outcome},
			{"outcome again", w.outcome}, {"sweep", w.sweep}, {"ask", w.ask}, {"submit again", w.resubmit}, {"time", w.time},
			{"move", w.move}, {"update", w.update}, {"restore", w.restore}, {"quarantine", w.quarantine},
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

// world is one run: the jobs and their observed history.
type world struct {
	*fixture
	t       *rapid.T
	project string
	conn    store.Connection
	ids     []job.ID
	jobs    map[job.ID]*known
	leases  map[job.ID]store.Leased
	// takenOver has the jobs whose object is another job's now.
	takenOver map[job.ID]bool
	// shut reports that the database is quarantined.
	shut bool
}

type known struct {
	asked store.NewJob
	first job.Snapshot
	// moved is set once a request has changed the job's time.
	moved bool
	// ended is set once the job was SUCCEEDED, which never reverts.
	ended bool
	// arms are the attempts as they were at the last arm.
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
	if out[0].TakenOver {
		w.takenOver[out[0].Owner] = true
	}
}

func (w *world) claimSome() {
	got, err := w.s.Claim(w.ctx, store.ClaimParams{Worker: "w", Lease: lease, Limit: 3})
	if w.refused(err) {
		return
	}
	w.must(err)
	for _, l := range got {
		if w.jobs[l.ID] == nil {
			continue // an earlier run's
		}
		w.leases[l.ID] = l
		if l.ReplyTo != w.effectOf(l.Snapshot.ReplyTo) {
			w.t.Fatalf("job %s replies to %q", l.ID, l.ReplyTo)
		}
	}
}

// refused reports whether a quarantine has refused a claim, which it must.
func (w *world) refused(err error) bool {
	if w.shut != errors.Is(err, store.ErrQuarantined) {
		w.t.Fatalf("quarantined %t, and a claim says %v", w.shut, err)
	}
	return w.shut
}

// effectOf returns the external id of a job's effect. The job has SUCCEEDED, or it
// is none.
func (w *world) effectOf(id job.ID) string {
	if id.IsZero() {
		return ""
	}
	s := w.read(id)
	if s.State != job.Succeeded {
		w.t.Fatalf("a reply to job %s, %v, was claimed", id, s.State)
	}
	if s.Effect == nil {
		return ""
	}
	return s.Effect.ExternalID
}

// look leases looks and follows Decide: arm again, poll or observe.
func (w *world) look() {
	got, err := w.s.ClaimLooks(w.ctx, store.ClaimParams{Worker: "looker", Lease: lease, Limit: 3})
	if w.refused(err) {
		return
	}
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

// armSome arms a kept lease, which may be over by now, or belong to another owner.
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
		if w.shut {
			w.t.Fatalf("job %s was armed in quarantine", id)
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
			// An object that a look saw may turn out to be another job's.
			o.ExternalID = rapid.SampledFrom([]string{"x", "y", o.ExternalID}).Draw(w.t, "object")
			w.reserve(&o, s)
		}
	case job.ResultAccepted:
		o.Handle = "h"
	default:
	}
	return o
}

// reserve keeps the platform sane: it never returns one object in two answers.
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
		case s.State.Runnable() && s.PredecessorEnd != 0:
			w.judge(s, job.PredecessorEnded{})
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
		w.judge(s, job.RetryAsked{At: w.wish()})
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
	sameTime := k.moved || got.Snapshot.ScheduleTime.Equal(k.first.ScheduleTime)
	if got.Created || got.Snapshot.ID != k.first.ID || !sameTime {
		w.t.Fatalf("one key, two jobs or two times: %+v", got)
	}
}

// wish returns a time to start at, or none.
func (w *world) wish() time.Time {
	in := rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(w.t, "in")
	if in == 0 {
		return time.Time{}
	}
	return w.clock.now().Add(in)
}

// move reschedules a job, or has it run now.
func (w *world) move() {
	s := w.pick()
	if rapid.Bool().Draw(w.t, "now") {
		w.judge(s, job.RunNowAsked{})
		return
	}
	asked := job.RescheduleAsked{At: w.wish(), Window: rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(w.t, "new window")}
	if !s.State.Runnable() {
		return
	}
	w.judge(s, asked)
	got := w.read(s.ID)
	if got.State != s.State || !got.StartDeadline.Equal(got.Deadline(got.ScheduleTime)) || got.NextAt.Before(asked.At) {
		w.t.Fatalf("rescheduled to %v: %+v", asked.At, got.Status)
	}
	w.jobs[s.ID].moved = true
}

// update moves a job to a hold key of its own, or back.
func (w *world) update() {
	s := w.pick()
	d, err := job.Decide(s.View(job.Traits{}, 0), job.UpdateAsked{})
	if err != nil {
		return
	}
	c := store.Content{
		Payload: []byte(rapid.SampledFrom([]string{"a", "b"}).Draw(w.t, "payload")),
		HoldKey: rapid.SampledFrom([]string{holdKey, s.ID.String()}).Draw(w.t, "hold key"),
	}
	out, err := w.s.Apply(w.ctx, []store.Change{{Job: s.ID, Version: s.Version, Decision: d, Content: &c}})
	w.must(err)
	w.must(out[0].Err)
	got := w.read(s.ID)
	if !bytes.Equal(got.Payload, c.Payload) || got.HoldKey != c.HoldKey || !got.NextAt.Equal(s.NextAt) {
		w.t.Fatalf("updated to %+v: %+v", c, got.Job)
	}
}

// restore asks a person about one job that may have been started.
func (w *world) restore() {
	got, err := w.s.Doubtful(w.ctx, w.clock.now(), store.MaxBatch)
	w.must(err)
	for _, s := range got {
		if w.jobs[s.ID] != nil && rapid.Bool().Draw(w.t, "doubt") {
			w.judge(s, job.Restored{Since: s.Now})
			return
		}
	}
}

func (w *world) quarantine() {
	switch {
	case w.shut:
		w.must(w.s.Release(w.ctx))
		w.shut = false
	case rapid.IntRange(0, 3).Draw(w.t, "rarely") == 0:
		w.must(w.s.Quarantine(w.ctx, "random"))
		w.shut = true
	}
}

func (w *world) time() {
	steps := []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}
	w.clock.advance(rapid.SampledFrom(steps).Draw(w.t, "advance"))
}

// drain ends the remaining jobs of this run, so that they do not affect the next one.
func (w *world) drain() {
	w.must(w.s.Release(w.ctx))
	for _, id := range w.ids {
		w.judge(w.read(id), job.CancelAsked{})
		if s := w.read(id); s.Attempt > 0 {
			w.judge(s, job.Outcome{Attempt: s.Attempt, Result: job.ResultSucceeded, ExternalID: id.String()})
		}
	}
	w.check()
	w.checkCounts()
}

func (w *world) read(id job.ID) job.Snapshot {
	s, err := w.s.Job(w.ctx, store.Ref{ID: id})
	w.must(err)
	return s
}
