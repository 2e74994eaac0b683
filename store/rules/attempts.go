package rules

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Mark is what is asked of an attempt.
type AttemptView struct {
	Number, Round  int
	Result         job.Result
	ArmedAt, Fence time.Time
	Handle         string
	EffectKey      string
	// Digest is the request's, as a string so that marks can be compared.
	Digest string
}

// Marks are all attempts of a job, oldest first: attempt n is at n-1.
type AttemptViews []AttemptView

// Complete adds to a job's own row what its attempts say of it.
func (m AttemptViews) Complete(s *job.Snapshot) {
	for i := range m {
		a := &m[i]
		if a.Result.Open() {
			s.Open = append(s.Open, a.Number)
		}
		if a.Round == s.Round && s.RoundArmed.IsZero() {
			s.RoundArmed, s.RoundKey = a.ArmedAt, a.EffectKey
		}
		s.Fence, s.Handle = a.Fence, a.Handle
	}
}

// UnderWay is the number of the first attempt that has no outcome; 0: each has one.
func (m AttemptViews) UnderWay() int {
	for i := range m {
		if m[i].Result == 0 {
			return m[i].Number
		}
	}
	return 0
}

// RoundDigest is the digest of the first attempt of a round; empty: it has no attempt.
func (m AttemptViews) RoundDigest(round int) string {
	for i := range m {
		if m[i].Round == round {
			return m[i].Digest
		}
	}
	return ""
}

// Results are the attempts' results, oldest first.
func (m AttemptViews) Results() []job.Result {
	out := make([]job.Result, len(m))
	for i := range m {
		out[i] = m[i].Result
	}
	return out
}

// Fence is that of the last attempt; the zero time: there is none.
func (m AttemptViews) Fence() time.Time {
	if len(m) == 0 {
		return time.Time{}
	}
	return m[len(m)-1].Fence
}
