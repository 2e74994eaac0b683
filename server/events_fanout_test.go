package server_test

import (
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
)

// TestSharedEffect: a platform answers two jobs with one object. Both say so where
// clients look: on the effect, and in the history of the job that had it before.
func TestSharedEffect(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		succeed := func(key string) string {
			f.schedule(f.request(key))
			snap := f.arm()
			return f.learn(snap.ID, job.Outcome{Attempt: snap.Attempt, Result: job.ResultSucceeded, ExternalID: "post-1"}).ID.String()
		}
		first := succeed("first")
		if e := f.read(c, first).GetEffect(); e.GetExternalId() != "post-1" || e.GetSharedWithJobId() != "" {
			t.Errorf("alone: %v", e)
		}
		second := succeed("second")
		for id, other := range map[string]string{first: second, second: first} {
			j := f.read(c, id)
			if j.GetState() != fireoncev1.JobState_JOB_STATE_SUCCEEDED || j.GetEffect().GetExternalId() != "post-1" ||
				j.GetEffect().GetSharedWithJobId() != other {
				t.Errorf("%s: %v, want the effect shared with %s", id, j.GetEffect(), other)
			}
		}
		n := int(f.read(c, first).GetSequence())
		events, _ := c.open(t, fromBeginning, onlyJobs(first)).changes(t, n)
		last := events[n-1]
		if last.GetCause() != fireoncev1.EventCause_EVENT_CAUSE_EFFECT_SHARED ||
			last.GetOldState() != fireoncev1.JobState_JOB_STATE_SUCCEEDED || last.GetNewState() != fireoncev1.JobState_JOB_STATE_SUCCEEDED {
			t.Errorf("the last event of the first job: %v", last)
		}
	})
}
