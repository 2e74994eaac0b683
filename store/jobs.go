package store

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// MaxRecipients bounds the recipients of a job by which it is found.
const MaxRecipients = 100

// MaxReplies bounds the jobs that wait for one other: the transaction in which that job ends
// updates all of them.
const MaxReplies = 100

// Errors of Create beside the common ones.
var (
	// ErrReplyTo: the job to reply to does not exist in the project.
	ErrReplyTo = errors.New("no such job to reply to")
	// ErrManyReplies: MaxReplies jobs wait for the job to reply to.
	ErrManyReplies = errors.New("too many replies wait for this job")
	// ErrEffectKeyTaken: another effect at the receiver used the caller's own effect key.
	ErrEffectKeyTaken = errors.New("the effect key is taken")
)

// Jobs stores jobs, reads them, and writes the decisions about them.
type Jobs interface {
	// Create stores jobs in state SCHEDULED, each under its (project, key). An item whose key
	// is bound already stores nothing and returns the bound job. Of two items of one batch
	// with one key, the first is stored.
	//
	// A job that replies to another waits for it (Status.WaitsFor): no claim and no NextDue
	// includes it until that job has SUCCEEDED. If it has already, the reply does not wait.
	// The reply's window runs meanwhile. Where MaxReplies jobs wait already, ended ones
	// included, the verdict is ErrManyReplies.
	//
	// The call as a whole fails only with ErrUnavailable and ErrUnconfirmed; repeat it after
	// both.
	Create(ctx context.Context, items []NewJob) ([]Created, error)

	// Job reads one job of a project by id, or by key when Ref.Key is set. ErrNotFound, for
	// the key of a removed job as a RemovedError.
	Job(ctx context.Context, ref Ref) (job.Snapshot, error)

	// List reads a page of a project's jobs without payloads, in the order and after the
	// position that the query names. It is a keyset page: jobs that are added or moved
	// meanwhile may be missed or read twice.
	//
	// A page may have fewer jobs than Limit, or none, even if there are more (see WalkSteps).
	List(ctx context.Context, q JobQuery) (JobPage, error)

	// Count counts the jobs that a query selects, by state and in groups. The query's order,
	// position and limit are ignored. The bounds are CountIndexed and CountLooked.
	Count(ctx context.Context, q JobQuery, by GroupBy) (JobCounts, error)

	// JobNames reads what users call jobs of a project by, at most MaxBatch. It has none of a
	// job that does not exist, or no longer.
	JobNames(ctx context.Context, project string, ids []job.ID) (map[job.ID]JobName, error)

	// Attempts reads a job's attempts with numbers above after, oldest first.
	Attempts(ctx context.Context, ref Ref, after, limit int) ([]job.Attempt, error)

	// Observations reads a job's looks, newest first: those with numbers below before, or all
	// when before is 0.
	Observations(ctx context.Context, ref Ref, before, limit int) ([]job.Observation, error)

	// Apply writes decisions. A verdict is nil, ErrStale, ErrNotFound or ErrIllegal.
	//
	//   - If the decision's effect id settles another job already, an observed effect is
	//     written as NEEDS_RESOLUTION (where job.Transitions has no such move, the state
	//     stays). A direct answer takes the id over, or its owner gets an event (see
	//     Applied.Owner).
	//   - No decision moves a job to CLAIMED or SENDING.
	//   - A decision that means "no effect" is refused while an attempt is open.
	//   - A decision that counts an absence is refused with ErrStale if its look began before
	//     the last attempt's fence.
	//   - A proven result of an attempt is kept when later evidence proves less.
	//   - When a job has SUCCEEDED, the jobs that wait for it stop waiting. This is no change
	//     of those jobs and has no event.
	Apply(ctx context.Context, items []Change) ([]Applied, error)
}

// NewJob is one job to store. If the client set no time, the job is due at the store's now,
// which becomes its canonical time.
type NewJob struct {
	Spec job.Spec
	// ScheduleTime is the requested time; zero means now, by the store's clock: as soon as
	// possible, and no caller requested a time (job.Status.Unasked).
	ScheduleTime time.Time
	Class        job.Class
	Actor        string
	// Recipients are the recipients of the payload, each once, in the form of
	// JobQuery.Recipient. At most MaxRecipients.
	Recipients []string
	// Callback is the connection by which the job's end is reported; zero: none.
	Callback job.ID
	// EffectKey is job.EffectKeyDigest of Spec.OwnEffectKey at its receiver; zero: none. A
	// digest that a job of any project ever had is ErrEffectKeyTaken.
	EffectKey [32]byte
	// Start, when set, claims the job as it is stored, as Claim would, if it is due, waits
	// for no other job, is the first due job under its hold key, and that key and its
	// connection have capacity for one more. Its Limit is ignored. A store may leave the job
	// to a later claim for reasons of its own.
	Start *ClaimParams
}

// Created is Create's verdict on one item.
type Created struct {
	// Snapshot is the stored job. For a job that was just created it is the job as submitted,
	// even if it was started.
	Snapshot job.Snapshot
	// Started is the job's lease, if the job was claimed as it was stored.
	Started *Leased
	// Created is true for exactly one call per key, for as long as the key is kept.
	Created bool
	// Err is set when this item alone could not be stored. ErrNotFound: its connection does
	// not exist or is deleted, or, as a RemovedError, its key is bound to a removed job.
	Err error
}

// JobName is what users call a job by.
type JobName struct {
	Key    string
	Labels map[string]string
	// Callback is NewJob.Callback.
	Callback job.ID
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
	// InState selects jobs that have been in their state for at least this long.
	InState time.Duration
	// KeyPrefix and KeyText are a prefix and a substring of the idempotency key.
	KeyPrefix, KeyText string
	// ExternalID is the effect's external id.
	ExternalID string
	// Recipient is one of the job's (see NewJob.Recipients).
	Recipient  string
	ErrorKinds []job.FailureKind // of the last error
	Classes    []job.Class
	// Destinations are hold keys.
	Destinations []string
	Labels       map[string]string
	// OnlyLeftBehind selects, of CANCELED jobs, only those that were left behind
	// (job.Status.LeftBehind).
	OnlyLeftBehind bool
	Order          Order
	// AfterTime and AfterID name the last job of the page before; zero values are the start.
	AfterTime time.Time
	AfterID   job.ID
	Limit     int
}

// JobPage is one page. More reports whether a further page may have jobs. It begins after
// Next, which may lie behind the last job of this page.
type JobPage struct {
	Jobs []job.Snapshot
	More bool
	Next Place
	// Position is the event log's end as it was before the page was read, in Incarnation.
	Position    int64
	Incarnation int64
}
