package sim

import (
	"testing"

	"github.com/fireonce/fireonce/internal/job"
)

// A world is at rest only when no outcome is under way: the answer of a send may come
// long after its job was given to a person, and moves it then.
func TestSimCountsOutcomesUnderWay(t *testing.T) {
	for op, rests := range map[string]bool{"Publish": false, "Apply": false, "Claim": true, "Observe": true} {
		t.Run(op, func(t *testing.T) {
			w := &simWorld{jobs: []*simJob{{last: job.Snapshot{Job: job.Job{Status: job.Status{State: job.NeedsResolution}}}}}}
			w.director = newDirector(w, 1)
			if !w.allSettled() {
				t.Fatal("a job that waits for a person, and nothing under way: not settled")
			}
			w.director.parked = []group{{&call{op: op, acted: true}}}
			if got := w.allSettled(); got != rests {
				t.Errorf("settled = %t with an answer of %s under way, want %t", got, op, rests)
			}
		})
	}
}
