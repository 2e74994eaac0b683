package sqlite

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// TestNewHoldKeyLeavesTheOldRow: a runnable row whose only job has moved to another hold key
// wakes no worker for it.
func TestNewHoldKeyLeavesTheOldRow(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t), Now: frozen})
	conn := mustConnect(t, s)
	mustCreate(t, s, newJob(conn))
	// The new hold key is held: its credential was refused.
	held := newJob(conn)
	held.Spec.HoldKey, held.ScheduleTime = "held", testStart.Add(-time.Second)
	mustCreate(t, s, held)
	var other job.Snapshot
	for _, l := range mustClaim(t, s, 2) {
		e := job.Deferred{Kind: job.FailHeld, Message: "back"}
		if l.HoldKey == "held" {
			e.Kind = job.FailAuth
		}
		d, err := job.Decide(l.View(job.Traits{}, 0), e)
		must(t, err)
		out, err := s.Apply(t.Context(), []store.Change{{Job: l.ID, Version: l.Version, Decision: d}})
		must(t, err)
		must(t, out[0].Err)
		if l.HoldKey != "held" {
			other = out[0].Snapshot
		}
	}
	due := func(want time.Duration) {
		t.Helper()
		got, err := s.NextDue(t.Context(), time.Minute)
		must(t, err)
		if got != want {
			t.Errorf("next due in %v, want %v", got, want)
		}
	}
	due(0)
	d, err := job.Decide(other.View(job.Traits{}, 0), job.UpdateAsked{})
	must(t, err)
	out, err := s.Apply(t.Context(), []store.Change{{
		Job: other.ID, Version: other.Version, Decision: d, Content: &store.Content{Payload: []byte("new"), HoldKey: "held"},
	}})
	must(t, err)
	must(t, out[0].Err)
	due(time.Minute)
}
