package engine

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// TestLookEndsNotBeforeTheArm: the end of a refused attempt that was written before the clock was
// set right says nothing of the moment until which a look is needed.
func TestLookEndsNotBeforeTheArm(t *testing.T) {
	armed := time.Date(2026, 1, 1, 10, 44, 0, 0, time.UTC)
	a := job.Attempt{Number: 1, Result: job.ResultRejected, ArmedAt: armed, AnswerDeadline: armed.Add(30 * time.Second)}
	for ended, want := range map[time.Duration]time.Duration{
		300 * time.Millisecond: 300 * time.Millisecond,
		-time.Hour:             time.Minute,
	} {
		a.EndedAt = armed.Add(ended)
		if got := lookTo(&store.Leased{}, []job.Attempt{a}, 30*time.Second).Sub(armed); got != want {
			t.Errorf("ended %v after its arm: a look until %v after it, want %v", ended, got, want)
		}
	}
}
