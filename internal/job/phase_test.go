package job_test

import (
	"testing"

	"github.com/fireonce/fireonce/internal/job"
)

// TestPhase: every state has one phase, and the phases agree with what else is known of states.
func TestPhase(t *testing.T) {
	for n := range 256 {
		s := job.State(n)
		want := job.Phase(0)
		switch s {
		case job.Scheduled, job.Retrying:
			want = job.PhaseWaiting
		case job.Claimed, job.Sending, job.Accepted:
			want = job.PhaseRunning
		case job.Ambiguous, job.NeedsResolution:
			want = job.PhaseUnknown
		case job.Succeeded, job.Failed, job.Canceled, job.Expired:
			want = job.PhaseEnded
		}
		got := s.Phase()
		if got != want {
			t.Errorf("%v is in phase %d, want %d", s, got, want)
		}
		if (got != 0) != s.Valid() || (got == job.PhaseEnded) != s.Terminal() ||
			(got == job.PhaseWaiting) != s.Runnable() || (got == job.PhaseUnknown) != s.Unresolved() || s.InFlight() && got != job.PhaseRunning {
			t.Errorf("the phase %d of %v contradicts another predicate", got, s)
		}
	}
}
