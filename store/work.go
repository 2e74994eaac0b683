package store

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Work takes jobs through their attempts: a job is leased, and armed and sent under its
// lease. Jobs.Apply writes the result of an attempt.
type Work interface {
	// Claim leases due jobs: SCHEDULED or RETRYING, due, their window open, their hold key
	// neither held nor stopped (see Stops), their connection below its limits. A job that a stop
	// of its label covers is leased all the same, with Leased.Stopped, and never armed. Each becomes CLAIMED with a new claim
	// token, and its lease ends Lease from now. A job for which ClaimParams.Intent returns an
	// intent is armed in the same transaction: two events, CLAIMED and then SENDING, and
	// every guard of Arm. ErrQuarantined, ErrClockSuspect.
	Claim(ctx context.Context, p ClaimParams) ([]Leased, error)

	// ClaimLooks leases AMBIGUOUS and ACCEPTED jobs whose look or poll is due, so that one
	// reconciler works on each. The state, the version and the events stay as they are; only
	// the token and the due time (now plus Lease) change, and StartDeadline if the time to keep
	// trying is over and begins again (WindowHeld). ErrQuarantined, ErrClockSuspect.
	ClaimLooks(ctx context.Context, p ClaimParams) ([]Leased, error)

	// Renew moves the end of leases that are still held under their token to now plus lease,
	// and reports which they are. It works for claims and looks alike.
	Renew(ctx context.Context, lease time.Duration, refs []LeaseRef) ([]bool, error)

	// NextDue returns how long until Claim, ClaimLooks or Overdue may find something; at most
	// limit. Zero: now.
	NextDue(ctx context.Context, limit time.Duration) (time.Duration, error)

	// Arm writes intents: the attempt, and SENDING. ErrUnconfirmed leaves the outcome to
	// ArmedBy. The guards:
	//
	//   - the state is CLAIMED, or AMBIGUOUS for a re-arm, and the claim token is held;
	//   - no cancel was requested;
	//   - the window is open, and the hold key is not held;
	//   - no stop is in force over the job (see Stops); otherwise the verdict is a *StoppedError;
	//   - no other job was armed within a cool-down of the connection or the schedule (see
	//     CoolDowns);
	//   - for a gated job, no other open intent has its fingerprint;
	//   - for a job that has looked for its content, no attempt with its fingerprint was armed
	//     since (see Arm.Looked);
	//   - the database is not quarantined, and its clock is not suspect where that suspends
	//     work; otherwise the verdict is ErrHeld.
	Arm(ctx context.Context, items []Arm) ([]Armed, error)

	// ContentArms returns how many attempts with a content were armed, in the account that an
	// arm would take the content's gate in. The number never falls. It may grow by other
	// contents' arms too, but for few of them.
	ContentArms(ctx context.Context, c GatedContent) (int64, error)

	// ArmedBy reads back whether an arm with this token is durable. It waits for a
	// transaction that may still be deciding it. The zero Armed with ErrNotFound means that
	// it is not and never will be.
	ArmedBy(ctx context.Context, id job.ID, token job.ID) (Armed, error)

	// SaveHandle stores the handle of a prepare step before the next step acts.
	SaveHandle(ctx context.Context, id job.ID, attempt int, handle string) error

	// Owners returns which of these external ids settle another job already, in the account
	// and namespace of a job's attempt: by id, the other job. At most MaxBatch ids.
	Owners(ctx context.Context, id job.ID, attempt int, externalIDs []string) (map[string]job.ID, error)
}

// ClaimParams bounds one claim.
type ClaimParams struct {
	Worker string
	Lease  time.Duration
	Limit  int
	// Room, when set, is what the worker has room for. Claim takes no more of a connection or a
	// project, and what it cannot take stays due. ClaimLooks does not use it.
	Room *Room
	// Intent, when set, is called for each job that Claim leases, before the lease is
	// durable; ClaimLooks does not call it. It returns the intent to write with the lease,
	// under the version and the claim token that it is given, or nil. Without an intent, or
	// if Arm.Intended or a guard of Arm refuses it, the job is only leased. Intent does no
	// I/O and calls no store. A transaction that is retried calls it again, and only its last
	// result for a job counts. One goroutine at a time calls it, and none after Claim has
	// returned.
	Intent func(Leased) *Arm
}

// LeaseRef names a lease.
type LeaseRef struct {
	Job   job.ID
	Token job.ID
}

// Leased is a job under a lease, with the data that its preparation needs.
type Leased struct {
	job.Snapshot
	Connection Connection
	// ReplyTo is the external id of the effect that this job answers; empty when it answers
	// none, or that effect has no known id.
	ReplyTo string
	// Stopped is the stop that is in force over the job; nil: none is. Its worker returns the lease.
	Stopped *Stop
	// Armed is set when the job was armed with its claim. The snapshot beside it is the job
	// between the two.
	Armed *Armed
}

// Arm is one intent to write.
type Arm struct {
	Job     job.ID
	Version int64 // that was read; another version is ErrStale
	Claim   job.ID
	Token   job.ID // chosen by the caller, to read back an unconfirmed commit
	Worker  string
	Class   job.Class
	// Rearm arms an AMBIGUOUS job with the effect key and digest of its first attempt of the
	// round. The store refuses other bytes with ErrIllegal.
	Rearm             bool
	EffectKey         string
	Digest            []byte
	Frozen            []byte
	CredentialVersion int
	AccountIdentity   string
	Watermark         string
	// Gate is the content fingerprint for OBSERVABLE; empty: no gate.
	Gate []byte
	// Looked is what ContentArms returned for the gate before the job looked for its content;
	// nil: it did not look.
	Looked *int64
	// Span belongs to the request to the target; zero: none.
	Span job.Span
	// SendBy, AnswerBy and Fence (AnswerBy plus grace) count from the arm.
	SendBy, AnswerBy, Fence time.Duration
	// KeepTrying is how long the job is tried, from when it began, as its policy says by now;
	// 0: job.DefaultKeepTrying. It replaces the end of the start window.
	KeepTrying time.Duration
}

// GatedContent is the content of a gated intent. If AccountIdentity is empty, the connection's
// hold key stands for the account.
type GatedContent struct {
	Connection      job.ID
	HoldKey         string
	AccountIdentity string
	Gate            []byte
}

// Intended reports whether an intent may be written with the claim of a job: it is the job's
// own, of a target that is KEYED, has no cool-down, and does not look for its content first.
// Any other job is prepared under a lease that is already durable.
func (a *Arm) Intended(l Leased) bool {
	class := a.Class
	if l.Attempt > 0 {
		class = l.Class
	}
	return a.Job == l.ID && !a.Rearm && class == job.Keyed && len(a.Gate) == 0 && !l.CoolsDown() && l.SkipIfPresent == 0
}

// CoolsDown reports whether a cool-down applies to the job.
func (l *Leased) CoolsDown() bool { return len(CoolDowns(l.Spec, l.Connection.CoolDown)) > 0 }

// Armed is Arm's verdict.
type Armed struct {
	// Err is nil, ErrStale (the job has changed, its lease was lost, or it was canceled),
	// ErrNotFound, ErrIllegal, ErrWindowOver, ErrHeld, ErrGated, ErrLookAgain or ErrCoolDown.
	// With an error nothing was written.
	Err error
	// Snapshot is the job after the arm. Of its request only the fields that changes write
	// are certain to be there: ID, Project, Connection, HoldKey, Schedule and StartWindow.
	// The caller has the rest (see Snapshot.Of).
	Snapshot job.Snapshot
	Attempt  job.Attempt
}

// Refusals of Arm beside the common errors.
var (
	// ErrWindowOver: the start deadline passed.
	ErrWindowOver = errors.New("start window over")
	// ErrHeld: the hold key is held, or the database suspends all work.
	ErrHeld = errors.New("held")
	// ErrGated: another open intent has the same content. Engines return it as a
	// *GatedError.
	ErrGated = errors.New("gated")
	// ErrLookAgain: an attempt with the same content was armed since the job looked for it.
	ErrLookAgain = errors.New("an attempt with the same content was armed since the look")
)

// GatedError is ErrGated with the job whose open intent has the same content.
type GatedError struct{ By job.ID }

func (e *GatedError) Error() string { return ErrGated.Error() + ": by job " + e.By.String() }

// Is makes the error one of ErrGated.
func (e *GatedError) Is(target error) bool { return target == ErrGated }
