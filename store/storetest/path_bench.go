package storetest

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/fastpath"
	"github.com/fireonce/fireonce/store"
)

// pathJobs is the number of jobs of one compared call.
const pathJobs = 100

// intent is what an engine arms a first attempt with.
func (w *bench) intent(l *store.Leased) store.Arm {
	return store.Arm{
		Job: l.ID, Version: l.Version, Claim: l.ClaimToken, Token: newID(), Worker: "w", Class: job.Keyed,
		EffectKey: l.EffectKey(""), Digest: make([]byte, 32), Frozen: make([]byte, 600),
		SendBy: time.Second, AnswerBy: time.Second, Fence: time.Minute,
	}
}

// claimed claims some jobs, armed if intents are given.
func (w *bench) claimed(intend func(store.Leased) *store.Arm) []store.Leased {
	w.Helper()
	got, err := w.s.Claim(w.Context(), store.ClaimParams{Worker: "w", Lease: lease, Limit: pathJobs, Intent: intend})
	w.must(err)
	if len(got) != pathJobs {
		w.Fatalf("%d jobs claimed, want %d", len(got), pathJobs)
	}
	return got
}

// armed claims some jobs with their intents, and returns them as armed.
func (w *bench) armed() []store.Leased {
	w.Helper()
	got := w.claimed(func(l store.Leased) *store.Arm { a := w.intent(&l); return &a })
	for i := range got {
		if got[i].Armed == nil || got[i].Armed.Err != nil {
			w.Fatalf("a job was not armed as it was claimed: %+v", got[i].Armed)
		}
		got[i].Snapshot = got[i].Armed.Snapshot.Of(got[i].Spec)
	}
	return got
}

// BenchmarkPathClaimAndArm compares a claim that arms its jobs in the same write with a claim
// and an arm. open returns an empty store.
func BenchmarkPathClaimAndArm(b *testing.B, least float64, open func(b *testing.B) store.Store) {
	w := &bench{B: b, s: open(b)}
	w.free = append(w.free, w.connect())
	w.fill(40*pathJobs, w.free...)
	fastpath.Worth(b, least, func(int) { w.armed() }, func(int) {
		got := w.claimed(nil)
		arms := make([]store.Arm, len(got))
		for i := range got {
			arms[i] = w.intent(&got[i])
		}
		out, err := w.s.Arm(w.Context(), arms)
		w.must(err)
		for _, a := range out {
			w.must(a.Err)
		}
	})
}

// BenchmarkPathSuccess compares the common success of first attempts with one that has more
// data. open returns an empty store.
func BenchmarkPathSuccess(b *testing.B, least float64, open func(b *testing.B) store.Store) {
	w := &bench{B: b, s: open(b)}
	w.free = append(w.free, w.connect())
	w.fill(40*pathJobs, w.free...)
	var ready [2][][]store.Leased
	for range 15 {
		for way := range ready {
			ready[way] = append(ready[way], w.armed())
		}
	}
	succeed := func(leased []store.Leased, detail string) {
		changes := make([]store.Change, len(leased))
		for i := range leased {
			l := &leased[i]
			d, err := job.Decide(l.View(job.Traits{Class: l.Class}, 0), job.Outcome{Attempt: 1, Result: job.ResultSucceeded, HTTPStatus: 200, BytesWritten: 800})
			w.must(err)
			d.Detail = detail
			changes[i] = store.Change{Job: l.ID, Version: l.Version, Decision: d, Actor: "w"}
		}
		out, err := w.s.Apply(w.Context(), changes)
		w.must(err)
		for _, a := range out {
			w.must(a.Err)
		}
	}
	fastpath.Worth(b, least, func(round int) { succeed(ready[0][round], "") }, func(round int) { succeed(ready[1][round], "x") })
}
