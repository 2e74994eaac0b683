package job

import "time"

// Evidence is one thing that was learnt or asked. Its kinds are the types of
// this package with the method evidence.
type Evidence interface{ evidence() }

type (
	// Deferred says that a leased job could not be armed; nothing was sent.
	Deferred struct {
		Kind       FailureKind
		Message    string
		RetryAfter time.Duration // for FailRateLimited and FailHeld
		// HoldFor, for FailHeld, is how long the jobs with the same hold key are left
		// alone: what is in the way of this one is in theirs.
		HoldFor time.Duration
		// CredentialVersion is the refused credential's, for FailAuth.
		CredentialVersion int
		// Auth is why, for FailAuth; zero: AuthRefused.
		Auth AuthCause
	}
	// Outcome is how one attempt ended, as its connector classified it.
	Outcome struct {
		Attempt      int
		Result       Result // Succeeded, Accepted, Rejected, NotSent or Unknown
		Kind         FailureKind
		Message      string
		HTTPStatus   int
		BytesWritten int64
		RetryAfter   time.Duration
		ExternalID   string
		ExternalURL  string
		// Answer is what the connection keeps of the target's answer, if anything.
		Answer            *Answer
		Handle            string
		CredentialVersion int
		// Auth is why, for FailAuth; zero: AuthRefused.
		Auth AuthCause
		// Polled marks the platform's word on a handle.
		Polled bool
	}
	// LeaseOver says that a claim's lease ran out.
	LeaseOver struct{}
	// FenceOver says that an armed attempt has no outcome and its fence passed.
	FenceOver struct{}
	// SenderLost says that the server that holds the claim, or armed the present attempt,
	// is gone, or seems to be. Wait is how long a repeat waits for those of other jobs of
	// its connection.
	SenderLost struct{ Wait time.Duration }
	// WindowOver says that the start deadline passed.
	WindowOver struct{}
	// PredecessorEnded says that the job that this one replies to ended without success.
	PredecessorEnded struct{}
	// Missed says that the job's connection was paused at Since, and that what fell
	// due in the pause is not wanted any more.
	Missed struct{ Since time.Time }
	// LookDue asks what to do about an AMBIGUOUS or ACCEPTED job whose time came.
	LookDue struct{}
	// Looked is a finished look, begun after LookDue gave ActObserve for its
	// attempt, or while the job was CLAIMED, before a later arm.
	Looked struct {
		Observation
		// Refused says that each attempt was refused or never sent, so that an
		// object that is seen contradicts a direct answer.
		Refused bool
		// Sighted says of an inconclusive look that it saw an object which could be
		// this job's: nobody could be asked whose it is, or it has no id.
		Sighted bool
	}
	// AlreadyPresent is a finished look that a job with SkipIfPresent made before its first
	// arm, under its claim: its content is there. It is nobody's attempt.
	AlreadyPresent struct{ Observation }
	// CancelAsked is a client's wish to stop.
	CancelAsked struct{}
	// RetryAsked is a client's wish to start again after an end: at At, or now
	// when At is zero. Of a reply that ended because its predecessor had, once that
	// one is no longer ended.
	RetryAsked struct{ At time.Time }
	// RescheduleAsked is a client's wish to move a job that waits: to At, or to
	// now when At is zero. A zero Window keeps the start window's length.
	RescheduleAsked struct {
		At     time.Time
		Window time.Duration
	}
	// RunNowAsked is a client's wish to start a waiting job at once.
	RunNowAsked struct{}
	// UpdateAsked is a client's wish to change fields of its request; none named: all of
	// them. Same says that they are as asked for already.
	UpdateAsked struct {
		Same   bool
		Fields Fields
	}
	// Restored says that the database is an older state of itself, and that this
	// job may have been started since.
	Restored struct{ Since time.Time }
	// Freed says that what a waiting job was blocked by is gone.
	Freed struct{ Detail string }
	// Resolved is a person's ruling.
	Resolved struct {
		Ruling     Ruling
		Actor      string
		Note       string
		ExternalID string
		// OwnEffectKey, with RESEND, is the next round's effect key of a job that was given
		// its own; otherwise empty.
		OwnEffectKey string
		// Override allows a ruling while the reconciler is still looking.
		Override bool
	}
)

func (Deferred) evidence()   {}
func (Outcome) evidence()    {}
func (LeaseOver) evidence()  {}
func (FenceOver) evidence()  {}
func (SenderLost) evidence() {}
func (WindowOver) evidence() {}
func (Missed) evidence()     {}
func (LookDue) evidence()    {}
func (Looked) evidence()     {}

func (AlreadyPresent) evidence() {}

func (CancelAsked) evidence() {}
func (RetryAsked) evidence()  {}
func (Resolved) evidence()    {}

func (RescheduleAsked) evidence() {}
func (RunNowAsked) evidence()     {}
func (UpdateAsked) evidence()     {}

func (PredecessorEnded) evidence() {}
func (Restored) evidence()         {}
func (Freed) evidence()            {}

// WaitsForContent is the message of a Deferred job that waits for another with the same
// content.
const WaitsForContent = "waits for another job with the same content"

// The messages of a Deferred job that another was armed too short a time before.
const (
	ConnectionCoolsDown = "waits for the end of its connection's cool-down"
	ScheduleCoolsDown   = "waits for the end of its schedule's cool-down"
)
