package rules

import (
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// TestOwn judges each proof against each owner of an object.
func TestOwn(t *testing.T) {
	proofs := []job.Proof{job.ProofResponse, job.ProofObserved, job.ProofKeyReplay, job.ProofOperator, job.ProofAssumed}
	for _, mine := range proofs {
		alone := store.Change{Decision: job.Decision{To: job.Succeeded, Effect: &job.Effect{ExternalID: "x", Proof: mine}}}
		if got := own(&alone, job.Sending, Owner{}); got != (Ownership{Owns: true}) || !alone.Decision.Effect.SharedWith.IsZero() || alone.Decision.Detail != "" {
			t.Errorf("%s, nobody's: %+v, %+v", mine, got, alone.Decision)
		}
		for _, theirs := range proofs {
			for _, removed := range []bool{false, true} {
				for _, notified := range []bool{false, true} {
					owner := Owner{Job: job.ID{1}, Proof: theirs, Removed: removed, Notified: notified}
					given := &job.Effect{ExternalID: "x", Proof: mine}
					c := store.Change{Decision: job.Decision{To: job.Succeeded, Effect: given}}
					got := own(&c, job.Sending, owner)
					takes := mine.Direct() && !theirs.Direct()
					want := Ownership{Owns: takes, Takes: takes, Notifies: mine.Direct() && !removed && (takes || !notified)}
					if mine == job.ProofObserved {
						want = Ownership{}
					}
					if got != want || !given.SharedWith.IsZero() {
						t.Errorf("%s, of %+v: %+v, want %+v; given %+v", mine, owner, got, want, given)
					}
					if !strings.Contains(c.Decision.Detail, owner.Job.String()) {
						t.Errorf("%s, of %+v: the event says %q", mine, owner, c.Decision.Detail)
					}
					switch e := c.Decision.Effect; {
					case (e == nil) != (mine == job.ProofObserved):
						t.Errorf("%s, of %+v: effect %+v", mine, owner, e)
					case e != nil && e.SharedWith != owner.Job:
						t.Errorf("%s, of %+v: shared with %s", mine, owner, e.SharedWith)
					}
				}
			}
		}
	}
}
