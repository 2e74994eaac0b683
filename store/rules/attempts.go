package rules

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// AttemptView has the parts of an attempt that the rules read.
type AttemptView struct {
	Number, Round  int
	Result         job.Result
	ArmedAt, Fence time.Time
	PeerEnded      bool
	Handle         string
	EffectKey      string
	// Digest is the request's, as a string so that views can be compared.
	Digest string
}

// AttemptViews are all attempts of a job, oldest first: attempt n is at n-1.
type AttemptViews []AttemptView

// Complete adds to a job's own row what its attempts determine.
func (m AttemptViews) Complete(s *job.Snapshot) {
	for i := range m {
		a := &m[i]
		if a.Result.Open() {
			s.Open = append(s.Open, a.Number)
			if i < len(m)-1 && !a.PeerEnded && a.Fence.After(s.EarlierFence) {
				s.EarlierFence = a.Fence
			}
		}
		if a.Round == s.Round && s.RoundArmed.IsZero() {
			s.RoundArmed, s.RoundKey = a.ArmedAt, a.EffectKey
		}
		s.Fence, s.Handle, s.PeerEnded = a.Fence, a.Handle, a.PeerEnded
	}
}

// Settle records what is known of an attempt.
func (m AttemptViews) Settle(s job.Settled) {
	a := &m[s.Attempt-1]
	a.Result, a.PeerEnded = s.Result, s.PeerEnded
	if s.Handle != "" {
		a.Handle = s.Handle
	}
}

// UnderWay returns the number of the first attempt without an outcome; 0: each attempt has
// one.
func (m AttemptViews) UnderWay() int {
	for i := range m {
		if m[i].Result == 0 {
			return m[i].Number
		}
	}
	return 0
}

// RoundDigest returns the digest of the first attempt of a round; empty: it has no attempt.
func (m AttemptViews) RoundDigest(round int) string {
	for i := range m {
		if m[i].Round == round {
			return m[i].Digest
		}
	}
	return ""
}

// Results returns the attempts' results, oldest first.
func (m AttemptViews) Results() []job.Result {
	out := make([]job.Result, len(m))
	for i := range m {
		out[i] = m[i].Result
	}
	return out
}

// Fence returns the fence of the last attempt; the zero time: there is none.
func (m AttemptViews) Fence() time.Time {
	if len(m) == 0 {
		return time.Time{}
	}
	return m[len(m)-1].Fence
}
