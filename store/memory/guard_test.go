package memory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/memory"
)

// guarded is a store with one job of a KEYED connection. Decide does not judge its decisions,
// so it reaches states that no caller should cause, and the last guard must hold.
type guarded struct {
	*testing.T
	s     *memory.Store
	clock time.Time
	id    job.ID
	newID func() job.ID
}

func newGuarded(t *testing.T) *guarded {
	g := &guarded{T: t, clock: start, newID: counted()}
	g.s = memory.Open(memory.Options{Now: func() time.Time { return g.clock }, NewID: g.newID})
	conn, _, err := g.s.CreateConnection(t.Context(), store.NewConnection{
		Connection: store.Connection{ID: g.newID(), Project: "default", Connector: "fake", Class: job.Keyed},
	})
	g.must(err)
	g.id = g.newID()
	out, err := g.s.Create(t.Context(), []store.NewJob{{Spec: job.Spec{ID: g.id, Project: "default", Key: "k", Connection: conn.ID}}})
	g.must(errors.Join(err, out[0].Err))
	return g
}

func (g *guarded) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// arm leases the job, for an attempt or a look, and tries to arm it.
func (g *guarded) arm(edit ...func(*store.Arm)) error {
	g.Helper()
	p := store.ClaimParams{Worker: "w", Lease: time.Minute}
	got, err := g.s.Claim(g.Context(), p)
	g.must(err)
	if len(got) == 0 {
		got, err = g.s.ClaimLooks(g.Context(), p)
		g.must(err)
	}
	if len(got) != 1 {
		g.Fatalf("%d leases", len(got))
	}
	return g.armWith(got[0].Snapshot, edit...)
}

func (g *guarded) armWith(s job.Snapshot, edit ...func(*store.Arm)) error {
	g.Helper()
	a := store.Arm{
		Job: s.ID, Version: s.Version, Claim: s.ClaimToken, Token: g.newID(), Class: s.Class, Rearm: s.State == job.Ambiguous,
		EffectKey: "k", Digest: []byte("d"), SendBy: time.Second, AnswerBy: time.Second, Fence: time.Minute,
	}
	for _, e := range edit {
		e(&a)
	}
	out, err := g.s.Arm(g.Context(), []store.Arm{a})
	g.must(err)
	return out[0].Err
}

// force writes a decision that is due immediately.
func (g *guarded) force(d job.Decision) job.Snapshot {
	g.Helper()
	d.Cause, d.Round = job.CauseUpdated, max(1, d.Round)
	out, err := g.s.Apply(g.Context(), []store.Change{{Job: g.id, Version: g.s.Inspect(g.id).Snapshot.Version, Decision: d}})
	g.must(errors.Join(err, out[0].Err))
	return out[0].Snapshot
}

func (g *guarded) refuses(err, want error) {
	g.Helper()
	if !errors.Is(err, want) {
		g.Fatalf("got %v, want %v", err, want)
	}
}

// TestArmBesideLiveAttempt: a job that is looked at although its attempt has no outcome yet
// is not armed again: at most one live intent.
func TestArmBesideLiveAttempt(t *testing.T) {
	g := newGuarded(t)
	g.must(g.arm())
	g.force(job.Decision{To: job.Ambiguous})
	g.refuses(g.arm(), store.ErrIllegal)
	g.force(job.Decision{To: job.Ambiguous, Settle: []job.Settled{{Attempt: 1, Result: job.ResultUnknown}}})
	g.must(g.arm())
}

// TestArmBesideOpenAttempt: an attempt that turns out to be open while the job is claimed
// again prevents the next one from being armed.
func TestArmBesideOpenAttempt(t *testing.T) {
	g := newGuarded(t)
	g.must(g.arm())
	g.force(job.Decision{To: job.Retrying, Settle: []job.Settled{{Attempt: 1, Result: job.ResultAbsent}}})
	got, err := g.s.Claim(t.Context(), store.ClaimParams{Lease: time.Minute})
	g.must(err)
	s := g.force(job.Decision{
		To: job.Claimed, Delay: job.KeepDelay, Settle: []job.Settled{{Attempt: 1, Result: job.ResultUnknown, Handle: "h"}},
	})
	if len(got) != 1 || len(s.Open) != 1 {
		t.Fatalf("leases %d, open %v", len(got), s.Open)
	}
	g.refuses(g.armWith(s), store.ErrIllegal)
	g.must(g.armWith(g.force(job.Decision{
		To: job.Claimed, Delay: job.KeepDelay, Settle: []job.Settled{{Attempt: 1, Result: job.ResultRejected}},
	})))
}

// TestRearmInNewRound: a new round wants a new effect, and so no repeat.
func TestRearmInNewRound(t *testing.T) {
	g := newGuarded(t)
	g.must(g.arm())
	g.force(job.Decision{To: job.Ambiguous, Round: 2, Settle: []job.Settled{{Attempt: 1, Result: job.ResultUnknown}}})
	g.refuses(g.arm(), store.ErrIllegal)
}

// TestRearmOtherKey: a repeat under another effect key is a second request.
func TestRearmOtherKey(t *testing.T) {
	g := newGuarded(t)
	g.must(g.arm())
	g.force(job.Decision{To: job.Ambiguous, Settle: []job.Settled{{Attempt: 1, Result: job.ResultUnknown}}})
	g.refuses(g.arm(func(a *store.Arm) { a.EffectKey = "other" }), store.ErrIllegal)
}

// TestSaveHandleStale: only the attempt that is being sent, and has no outcome yet,
// may save a handle.
func TestSaveHandleStale(t *testing.T) {
	g := newGuarded(t)
	g.must(g.arm())
	g.must(g.s.SaveHandle(t.Context(), g.id, 1, "h"))
	g.force(job.Decision{To: job.Ambiguous})
	g.refuses(g.s.SaveHandle(t.Context(), g.id, 1, "late"), store.ErrStale)

	g = newGuarded(t)
	g.must(g.arm())
	g.force(job.Decision{To: job.Sending, Delay: job.KeepDelay, Settle: []job.Settled{{Attempt: 1, Result: job.ResultAccepted}}})
	g.refuses(g.s.SaveHandle(t.Context(), g.id, 1, "late"), store.ErrStale)
}

// TestInspect: changed jobs are named, and the results are copies.
func TestInspect(t *testing.T) {
	g := newGuarded(t)
	before := g.s.Version()
	if got := g.s.Changed(before); len(got) != 0 {
		t.Fatalf("changed since now: %v", got)
	}
	g.must(g.arm(func(a *store.Arm) { a.Gate = []byte("content") }))
	r := g.s.Inspect(g.id)
	if got := g.s.Changed(before); len(got) != 1 || got[0] != g.id || g.s.Version() != before+2 {
		t.Fatalf("changed: %v, version %d after %d", got, g.s.Version(), before)
	}
	if len(r.Events) != 3 || len(r.Attempts) != 1 || r.Attempts[0].Fence != start.Add(time.Minute) || r.Intent == nil || r.Effect != nil {
		t.Fatalf("record %+v", r)
	}
	g.force(job.Decision{
		To: job.Succeeded, Settle: []job.Settled{{Attempt: 1, Result: job.ResultSucceeded}},
		Effect: &job.Effect{Attempt: 1, Round: 1, ExternalID: "x", Proof: job.ProofResponse},
	})
	if r.Attempts[0].Result != 0 || len(r.Events) != 3 {
		t.Fatal("an earlier record has changed")
	}
	all := g.s.Effects()
	if len(all) != 1 || all[0].Job != g.id || !all[0].Owns || all[0].ExternalID != "x" || g.s.Inspect(g.id).Intent != nil {
		t.Fatalf("effects %+v", all)
	}
	if got := g.s.Inspect(g.newID()); got.Attempts != nil || got.Snapshot.Version != 0 {
		t.Fatalf("record of no job: %+v", got)
	}
}
