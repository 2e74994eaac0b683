package job

import "time"

// Evidence is one fact or request that concerns a job. Its kinds are the types
// of this package that have the method evidence.
type Evidence interface{ evidence() }

type (
	// Deferred reports that a leased job could not be armed, and that nothing was sent.
	Deferred struct {
		Kind    FailureKind
		Message string
		// RetryAfter is how long the target asks to wait; for FailHeld, how long the job waits.
		RetryAfter time.Duration
		// HoldFor, for FailHeld, is how long no job with the same hold key may start:
		// the same obstacle is in the way of all of them.
		HoldFor time.Duration
		// CredentialVersion is the refused credential's version, for FailAuth.
		CredentialVersion int
		// Auth is the cause, for FailAuth; zero: AuthRefused.
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
		// OwnWait is set if RetryAfter is the engine's own wait, which already grows, and not
		// one that the target asks for.
		OwnWait bool
		// RetryFor, for a refusal of kind FailTransient, is how long after the job began it is
		// worth another attempt; zero: as long as the retry policy says.
		RetryFor    time.Duration
		ExternalID  string
		ExternalURL string
		// Answer is what the connection keeps of the target's answer, if anything.
		Answer            *Answer
		Handle            string
		CredentialVersion int
		// Auth is the cause, for FailAuth; zero: AuthRefused.
		Auth AuthCause
		// Polled marks the answer to a poll of a handle.
		Polled bool
		// PeerEnded reports whether the target itself ended the exchange, with a complete
		// answer of its own or by closing the connection, so that it no longer works on the
		// request. False if that is not known, as after a deadline of ours, an error of the
		// network or a gateway's answer.
		PeerEnded bool
		// Down is set if the target itself is ill: it gave no answer, or a 5xx.
		Down bool
	}
	// LeaseOver reports that the lease of a claim ran out.
	LeaseOver struct{}
	// FenceOver reports that an armed attempt has no outcome, and that its fence passed.
	FenceOver struct{}
	// SenderLost reports that the server that holds the claim, or that armed the present
	// attempt, is gone or seems to be. Wait is how long a repeat waits, so that the connection's jobs
	// are not all repeated together.
	SenderLost struct{ Wait time.Duration }
	// WindowOver reports that the start deadline passed.
	WindowOver struct{}
	// PredecessorEnded reports that the job that this one replies to ended without success.
	PredecessorEnded struct{}
	// Missed reports that the job's connection was paused at Since, and that jobs that fell
	// due in the pause are no longer wanted.
	Missed struct{ Since time.Time }
	// LookDue asks what to do about an AMBIGUOUS or ACCEPTED job whose time came.
	LookDue struct{}
	// Looked is a finished look. It began after LookDue returned ActObserve for its
	// attempt, or while the job was CLAIMED, before a later arm.
	Looked struct {
		Observation
		// Refused: each attempt was refused or never sent, so an object that is seen
		// contradicts a direct answer.
		Refused bool
		// Sighted: an inconclusive look saw an object that could be this job's, but its
		// owner could not be determined, or it has no id.
		Sighted bool
	}
	// AlreadyPresent is a finished look that a job with SkipIfPresent made under its
	// claim, before an arm, and that saw the content in an object that certainly is no effect
	// of the job. It belongs to no attempt.
	AlreadyPresent struct{ Observation }
	// CancelAsked is a client's request to stop the job.
	CancelAsked struct{}
	// RetryAsked is a client's request to start the job again after its end, at At, or now
	// if At is zero. A reply that ended because its predecessor had can be retried once that
	// predecessor is no longer ended.
	RetryAsked struct{ At time.Time }
	// RescheduleAsked is a client's request to move a waiting job to At, or to now if At is
	// zero. A zero Window keeps the length of the start window.
	RescheduleAsked struct {
		At     time.Time
		Window time.Duration
	}
	// RunNowAsked is a client's request to start a waiting job immediately.
	RunNowAsked struct{}
	// UpdateAsked is a client's request to change Fields; zero: all of them. Same reports
	// whether they have the requested values already.
	UpdateAsked struct {
		Same   bool
		Fields Fields
	}
	// Restored reports that the database was restored to an older state, and that this job
	// may have been started since that state.
	Restored struct{ Since time.Time }
	// Freed reports that the reason why a waiting job was blocked is gone.
	Freed struct{ Detail string }
	// Resolved is a person's ruling.
	Resolved struct {
		Ruling     Ruling
		Actor      string
		Note       string
		ExternalID string
		// OwnEffectKey, with RESEND, is the next round's effect key of a job whose caller
		// gave its effect key; otherwise empty.
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

// Stopped is the message of a Deferred job that a pause covers. The database finds these jobs by
// it when the pause ends.
const Stopped = "waits for the end of a pause"

// WaitsForContent is the message of a Deferred job that waits for another job with the same
// content.
const WaitsForContent = "waits for another job with the same content"

// The messages of a Deferred job that waits for a cool-down: too short a time has passed
// since another job was armed.
const (
	ConnectionCoolsDown = "waits for the end of its connection's cool-down"
	ScheduleCoolsDown   = "waits for the end of its schedule's cool-down"
)
