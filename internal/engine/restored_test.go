package engine_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// In each of these tests a database was restored to a state with a job's first attempt,
// which had no effect. The state that was lost had proven that, and armed a second
// attempt, whose request is on its way when the operator releases the database. The
// restored state has no trace of it.

// lostAttempt lets the request of the lost attempt act after a while.
func (w *world) lostAttempt(id job.ID, after time.Duration) {
	key := w.firstKey(id)
	time.AfterFunc(after, func() { w.platform.commit(key) })
}

// release quarantines the database, as an operator or its next open would, and
// releases it.
func (w *world) release() {
	w.t.Helper()
	if err := w.store.Quarantine(w.t.Context(), "restored"); err != nil {
		w.t.Fatal(err)
	}
	if err := w.store.Release(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// onlyLost checks that the job ends by the lost attempt's effect, the only one.
func (w *world) onlyLost(id job.ID) {
	w.t.Helper()
	w.until(id, job.Succeeded, time.Hour)
	w.pass(time.Hour)
	w.bound(id)
	if w.platform.total() != 1 || w.platform.sent() != 0 {
		w.t.Errorf("%d effects, %d requests by this state\n%s", w.platform.total(), w.platform.sent(), w.story(id))
	}
}

func TestALookAfterARestoreWaitsForWhatTheLostStateArmed(t *testing.T) {
	for name, saved := range map[string]struct {
		after     time.Duration
		state     job.State
		negatives int
	}{
		"saved in mid-send":           {10 * time.Second, job.Sending, 0},
		"saved before the first look": {65 * time.Second, job.Ambiguous, 0},
		"saved between two looks":     {100 * time.Second, job.Ambiguous, 1},
	} {
		t.Run(name, func(t *testing.T) {
			observable(t, func(t *testing.T, w *world) {
				id := w.submit("restored")
				w.armAsTheDead()
				if err := w.store.Enlist(t.Context(), store.Process{Worker: "dead"}); err != nil { // it lives in the state that is lost
					t.Fatal(err)
				}
				w.start()
				w.pass(saved.after)
				w.stop()
				before := w.job(id)
				if before.State != saved.state || before.Negatives != saved.negatives {
					t.Fatalf("saved as %s with %d absences", before.State, before.Negatives)
				}
				w.pass(10 * time.Minute)
				w.lostAttempt(id, 50*time.Second)
				w.release()
				w.start()
				w.onlyLost(id)
			})
		})
	}
}

// The same with a look that began before the release and ends after it: no quarantine
// stopped it, because the restore went unnoticed.
func TestALookUnderWayAtTheReleaseProvesNothing(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		var id job.ID
		looks := 0
		w.platform.observe = func(l connector.Look) job.Observation {
			seen := w.platform.look(t.Context(), l)
			if looks++; looks == 2 {
				w.lostAttempt(id, 50*time.Second)
				w.release()
			}
			return seen
		}
		id = w.submit("looked at")
		w.armAsTheDead()
		w.start()
		w.onlyLost(id)
		if looks < 3 {
			t.Errorf("%d looks", looks)
		}
	})
}
