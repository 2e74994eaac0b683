package sqlite

import (
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// TestEffectOfNoName: a success whose answer named no object is in the job's row, and one
// with a name has a row in effects.
func TestEffectOfNoName(t *testing.T) {
	path := testPath(t)
	s := mustOpen(t, Options{Path: path, Now: frozen})
	mustCreate(t, s, newJob(mustConnect(t, s)), newJob(mustConnect(t, s)))
	for i, a := range mustArm(t, s, mustClaim(t, s, 2)...) {
		o := job.Outcome{Attempt: 1, Result: job.ResultSucceeded, HTTPStatus: 200}
		if i == 1 {
			o.ExternalID = "object-1"
		}
		d, err := job.Decide(a.Snapshot.View(job.Traits{Class: job.Keyed}, 0), o)
		must(t, err)
		out, err := s.Apply(t.Context(), []store.Change{{Job: a.Snapshot.ID, Version: a.Snapshot.Version, Decision: d}})
		must(t, err)
		must(t, out[0].Err)
		read, err := s.Job(t.Context(), store.Ref{ID: a.Snapshot.ID})
		must(t, err)
		want := job.Effect{Attempt: 1, Round: 1, Proof: job.ProofResponse, ExternalID: o.ExternalID, At: testStart}
		for from, e := range map[string]*job.Effect{"the answer": out[0].Snapshot.Effect, "a later reader": read.Effect} {
			if e == nil || *e != want {
				t.Errorf("effect in %s: %+v", from, e)
			}
		}
	}
	must(t, s.Close())
	var rows int
	must(t, raw(t, path).QueryRow("SELECT count(*) FROM effects WHERE external_id = 'object-1'").Scan(&rows))
	if rows != 1 {
		t.Errorf("%d rows of the object", rows)
	}
	must(t, raw(t, path).QueryRow("SELECT count(*) FROM effects").Scan(&rows))
	if rows != 1 {
		t.Errorf("%d rows of two effects, one of them named", rows)
	}
}
