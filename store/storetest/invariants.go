package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// The conditions that the random test checks after every step, from outside.

func (w *world) check() {
	owners := make(map[string]job.ID)
	var stored store.StoredJobs
	for _, id := range w.ids {
		s := w.read(id)
		stored.Jobs, stored.Bytes = stored.Jobs+1, stored.Bytes+int64(len(s.Payload))
		w.checkAttempts(s)
		w.checkEvents(s)
		w.checkReply(s)
		k := w.jobs[id]
		if k.ended && s.State != job.Succeeded {
			w.t.Fatalf("I4: job %s left SUCCEEDED for %v", id, s.State)
		}
		k.ended = k.ended || s.State == job.Succeeded
		if s.Effect == nil || s.Effect.ExternalID == "" || w.takenOver[id] || s.Effect.Proof == job.ProofOperator {
			continue
		}
		if other, taken := owners[s.Effect.ExternalID]; taken {
			w.t.Fatalf("I10: the object %s settles jobs %s and %s", s.Effect.ExternalID, other, id)
		}
		owners[s.Effect.ExternalID] = id
	}
	if got, err := w.s.StoredJobs(w.ctx, w.project); err != nil || got != stored {
		w.t.Fatalf("stored: %+v, %v; the project's jobs are %+v", got, err, stored)
	}
}

// checkReply: a job waits for the one that it replies to exactly until that one has
// SUCCEEDED, is not under way meanwhile, and records if that one has ended otherwise.
func (w *world) checkReply(s job.Snapshot) {
	if s.ReplyTo.IsZero() {
		return
	}
	before := w.read(s.ReplyTo)
	done := before.State == job.Succeeded
	underWay := s.State == job.Claimed || s.State == job.Sending
	if done != s.WaitsFor.IsZero() || !done && (underWay || s.WaitsFor != s.ReplyTo) {
		w.t.Fatalf("job %s, %v, waits for %s; job %s has succeeded: %t", s.ID, s.State, s.WaitsFor, s.ReplyTo, done)
	}
	if end := before.State.BadEnd(); s.PredecessorEnd != end {
		w.t.Fatalf("job %s, %v: its predecessor ended as %v, known: %v", s.ID, s.State, end, s.PredecessorEnd)
	}
	// One whose wait was over by then keeps its deadline, and a sweep ends it (job.Released).
	kept := s.StartDeadline.Equal(s.NextAt.Add(s.Wait()))
	if s.State.Runnable() && done && s.StartDeadline.Before(before.Ended) && !kept {
		w.t.Fatalf("job %s, %v: its window was over at %v, before its predecessor ended at %v", s.ID, s.State, s.StartDeadline, before.Ended)
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

// checkCounts: the counts are those of the jobs that were read.
func (w *world) checkCounts() {
	want := make(map[job.State]int64)
	for _, id := range w.ids {
		want[w.read(id).State]++
	}
	got, err := w.s.Stats(w.ctx, store.StatsQuery{Project: w.project, Window: 1000 * time.Hour})
	w.must(err)
	for _, state := range job.States {
		if got.Counts[state] != want[state] {
			w.t.Fatalf("%d jobs are counted as %v; there are %d", got.Counts[state], state, want[state])
		}
		p, err := w.s.List(w.ctx, store.JobQuery{Project: w.project, States: []job.State{state}})
		w.must(err)
		if int64(len(p.Jobs)) != want[state] {
			w.t.Fatalf("%d jobs are listed as %v; there are %d", len(p.Jobs), state, want[state])
		}
	}
}
