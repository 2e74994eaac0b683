package job

import "time"

// Snapshot is a job as a store read it, with the store's clock and what is known
// about its attempts: everything that Decide needs beyond the job's row.
type Snapshot struct {
	Job
	// Now is the store's clock at the read.
	Now time.Time
	// WindowHeld reports that the window that is over (StartDeadline) begins again, because a stop
	// holds windows. Only a read of what is overdue sets it.
	WindowHeld bool
	// Open lists the attempts whose outcome is unknown or not yet recorded.
	Open []int
	// Fence is when the last attempt can no longer act: its answer deadline plus
	// grace. Zero when nothing was armed.
	Fence time.Time
	// PeerEnded reports whether the target itself ended the last attempt's exchange.
	PeerEnded bool
	// EarlierFence is the last fence of the earlier open attempts whose exchange the target
	// has not ended. Zero when there is none.
	EarlierFence time.Time
	// RoundArmed is when the first attempt of the present round was armed. Zero
	// when none was.
	RoundArmed time.Time
	// RoundKey is that attempt's effect key, which the round keeps. Empty when none was armed.
	RoundKey string
	// Handle is the last attempt's saved handle, if any.
	Handle string
}

// ResendRuled reports whether a person wants a new effect although an earlier attempt may
// have had one, and no attempt of the new round has been armed.
func (s *Snapshot) ResendRuled() bool { return s.newRound() && s.Resolution.resends() }

func (s *Snapshot) newRound() bool { return s.Attempt > 0 && s.RoundArmed.IsZero() }

// Complete fills in the request of a snapshot that has only those of its fields that
// every change writes. The other fields are copied from before.
func (s *Snapshot) Complete(before *Spec) {
	hold, window := s.HoldKey, s.StartWindow
	s.Spec = *before
	s.HoldKey, s.StartWindow = hold, window
}

// Of returns the completed snapshot.
func (s Snapshot) Of(before Spec) Snapshot {
	s.Complete(&before)
	return s
}

// View returns the snapshot as Decide takes it. jitter is in [0,1).
func (s Snapshot) View(t Traits, jitter float64) View {
	v := View{
		Job: s.Job, Now: s.Now, Open: s.Open, WindowLeft: s.StartDeadline.Sub(s.Now), WindowHeld: s.WindowHeld,
		Handle: s.Handle, PeerEnded: s.PeerEnded, Traits: t, Jitter: jitter,
	}
	if !s.Fence.IsZero() {
		v.FenceLeft = s.Fence.Sub(s.Now)
	}
	if !s.EarlierFence.IsZero() {
		v.EarlierLeft = s.EarlierFence.Sub(s.Now)
	}
	if !s.NextAt.IsZero() {
		v.DueLeft = s.NextAt.Sub(s.Now)
	}
	v.NewRound = s.newRound()
	if !s.RoundArmed.IsZero() {
		v.KeyAge = s.Now.Sub(s.RoundArmed)
	}
	return v
}
