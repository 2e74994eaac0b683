package store

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// MaxRecipients bounds the recipients of a job by which it is found.
const MaxRecipients = 100

// MaxReplies bounds the jobs that wait for one other: the transaction in which that job
// ends tells all of them.
const MaxReplies = 100

// Errors of Create beside the common ones.
var (
	// ErrReplyTo: the job to reply to does not exist in the project.
	ErrReplyTo = errors.New("no such job to reply to")
	// ErrManyReplies: MaxReplies jobs wait for the job to reply to.
	ErrManyReplies = errors.New("too many replies wait for this job")
	// ErrEffectKeyTaken: another effect at the receiver had the caller's own effect key.
	ErrEffectKeyTaken = errors.New("the effect key is taken")
)

// Jobs stores jobs, reads them, and writes what was decided about them.
type Jobs interface {
	// Create stores jobs in state SCHEDULED, each under its (project, key). An
	// item whose key is bound already stores nothing and returns the bound job;
	// two items of one batch with one key: the first wins. A job that replies to
	// another waits for it (Status.WaitsFor): it is in no claim and no NextDue
	// until that job has SUCCEEDED, at once if it has already; its window runs
	// meanwhile. Where MaxReplies wait already, ended ones too, it is ErrManyReplies. Fails whole only for ErrUnavailable and ErrUnconfirmed; repeat
	// after both.
	Create(ctx context.Context, items []NewJob) ([]Created, error)

	// Job reads one job of a project by id, or by key when Ref.Key is set.
	// ErrNotFound, for the key of a removed job as a RemovedError.
	Job(ctx context.Context, ref Ref) (job.Snapshot, error)

	// List reads a page of a project's jobs, payloads left out, in the order and
	// after the place that the query names. It is a keyset page: jobs added or
	// moved meanwhile may be missed or seen twice.
	//
	// A page may have fewer jobs than Limit, or none, although there are more (see
	// WalkSteps).
	List(ctx context.Context, q JobQuery) (JobPage, error)

	// Count counts the jobs that a query selects, by state and in groups; its order,
	// place and limit mean nothing. The bounds are CountIndexed and CountLooked.
	Count(ctx context.Context, q JobQuery, by GroupBy) (JobCounts, error)

	// Attempts reads a job's attempts from number After on, oldest first.
	Attempts(ctx context.Context, ref Ref, after, limit int) ([]job.Attempt, error)

	// Observations reads a job's looks, newest first: those whose number is below before,
	// or all from the newest on when before is 0.
	Observations(ctx context.Context, ref Ref, before, limit int) ([]job.Observation, error)

	// Apply writes decisions. A verdict is nil, ErrStale, ErrNotFound or
	// ErrIllegal. A decision whose effect id already settles another job is
	// written as NEEDS_RESOLUTION when it was observed (where the table has no
	// such move, the state stays), while a direct answer takes the id over, or tells
	// its owner (see Applied.Told). No decision moves a job to CLAIMED or SENDING; none that
	// says "no effect" is taken while an attempt is open; none that counts an
	// absence is, if its look began before the last attempt's fence (ErrStale); a
	// proven result of an attempt is kept when later evidence knows less. A job that SUCCEEDED lets
	// the jobs go that wait for it; that is no change of theirs and has no event.
	Apply(ctx context.Context, items []Change) ([]Applied, error)
}

// NewJob is one job to store. Delay is used when the client set no time: the
// job is due at the store's now, and that becomes its canonical time.
type NewJob struct {
	Spec job.Spec
	// ScheduleTime is the requested time; zero means now, by the store's clock.
	ScheduleTime time.Time
	Class        job.Class
	Actor        string
	// Recipients are those whom the payload addresses, each once, as Recipient of a query
	// names them. At most MaxRecipients.
	Recipients []string
	// EffectKey is job.EffectKeyDigest of Spec.OwnEffectKey at its receiver; zero: none. A
	// digest that a job of any project ever had is ErrEffectKeyTaken.
	EffectKey [32]byte
	// Start, when set, has the job claimed as it is stored, as Claim would, if it is
	// due, waits for no other job, is the first that is due under its hold key, and
	// that key and its connection are free for one more. Its Limit means nothing. A
	// store may leave it, also for a reason of its own: a claim finds the job then.
	Start *ClaimParams
}

// Created is Create's verdict on one item.
type Created struct {
	// Snapshot is the job as it is stored; one that was just created, as it was
	// submitted, also if it was started.
	Snapshot job.Snapshot
	// Started is the job's lease, if it was claimed as it was stored.
	Started *Leased
	// Created is true for exactly one call per key, for as long as the key is kept.
	Created bool
	// Err is set when this item alone could not be stored; ErrNotFound: its
	// connection does not exist or is deleted, or, as a RemovedError, its key is
	// bound to a job that was removed.
	Err error
}

// Order of a list.
type Order int

const (
	// ByScheduledDesc is the default: latest time first.
	ByScheduledDesc Order = iota
	// ByScheduledAsc: earliest time first.
	ByScheduledAsc
	// ByCreatedDesc: newest job first.
	ByCreatedDesc
	// ByCreatedAsc: oldest job first, and so every job before those that reply to it.
	ByCreatedAsc
)

// ByCreated reports whether jobs are listed by the time of their creation.
func (o Order) ByCreated() bool { return o == ByCreatedDesc || o == ByCreatedAsc }

// JobQuery selects jobs; zero fields select all.
type JobQuery struct {
	Project            string
	States             []job.State
	Connections        []job.ID
	Jobs               []job.ID
	Schedule           job.ID
	ScheduleTimeFrom   time.Time // inclusive
	ScheduleTimeBefore time.Time // exclusive
	CreatedFrom        time.Time // inclusive
	CreatedBefore      time.Time // exclusive
	EndedFrom          time.Time // inclusive
	EndedBefore        time.Time // exclusive
	// InState: the job has been in its state for at least so long.
	InState time.Duration
	// KeyPrefix and KeyText are the beginning and a part of the idempotency key.
	KeyPrefix, KeyText string
	// ExternalID is that of the effect.
	ExternalID string
	// Recipient is one of the job's (see NewJob.Recipients).
	Recipient  string
	ErrorKinds []job.FailureKind // of the last error
	Classes    []job.Class
	Labels     map[string]string
	// OnlyLeftBehind: of CANCELED jobs only those that were left behind
	// (job.Status.LeftBehind).
	OnlyLeftBehind bool
	Order          Order
	// After is the last job of the page before; the zero place is the start.
	AfterTime time.Time
	AfterID   job.ID
	Limit     int
}

// JobPage is one page. More tells whether a further one may have jobs; it begins after
// Next, which may lie behind the last job of this one.
type JobPage struct {
	Jobs []job.Snapshot
	More bool
	Next Place
	// Position is the event log's end as it was before the page was read, in
	// Incarnation.
	Position    int64
	Incarnation int64
}
