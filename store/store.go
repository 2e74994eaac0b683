// Package store is the contract between Fireonce and the databases that keep
// its jobs: the Store interface, its parameters and its errors. Each engine is
// a package of its own below this one and passes the suite in storetest.
//
// # Rules for every engine
//
//   - One method is one transaction. When a method returns without error, what
//     it wrote is durable; when it returns an error, nothing of the call was
//     written, unless the error is ErrUnconfirmed.
//   - A change of a job and its event are one write. Version rises by one with
//     each event and equals the event's sequence; leases that are renewed or
//     taken for a look raise neither, nor do the fences that Release raises.
//   - The SQL guards the status machine: a write names the version it was
//     decided on, and a move that job.Transitions does not list is refused by
//     the database itself, whoever asks.
//   - Times are the database's, as far as its clock is believed (see Timeline): a clock
//     that jumps starts, ends and removes nothing, until a step follows it (ClockStep).
//     A parameter that says when something is due is a
//     duration, added to the database's clock in the same transaction. Every
//     time is stored in whole microseconds, in UTC.
//   - Batches give one verdict per item, in the order of the items; one bad item
//     fails no other.
//   - Every list is bounded by its Limit, at most MaxBatch unless said otherwise.
//   - All methods may be called from many goroutines at once.
package store

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// MaxBatch bounds the items of one batch call and of one page.
const MaxBatch = 500

// MaxRecipients bounds the recipients of a job by which it is found.
const MaxRecipients = 100

// MaxReplies bounds the jobs that wait for one other: the transaction in which that job
// ends tells all of them.
const MaxReplies = 100

// LostGrace is added to the time for an answer where Release makes up the fence of
// an attempt that nobody remembers: the grace that a server adds by default, 30 s,
// and as much for clocks of two databases that differ and for a release that takes
// its time to commit.
const LostGrace = time.Minute

// Errors that every engine returns, wrapped or bare; compare with errors.Is.
var (
	// ErrNotFound: no such job, connection, credential or schedule in the project.
	ErrNotFound = errors.New("not found")
	// ErrStale: the job has moved on since the version that was named. Read and
	// decide again.
	ErrStale = errors.New("stale version")
	// ErrIllegal: the database refused a transition. A bug in the caller.
	ErrIllegal = errors.New("illegal transition")
	// ErrUnconfirmed: the commit's own outcome is unknown. Read back.
	ErrUnconfirmed = errors.New("commit unconfirmed")
	// ErrUnavailable: the database could not be reached or is shutting down;
	// nothing was written.
	ErrUnavailable = errors.New("store unavailable")
	// ErrCursorExpired: the position is older than the events that are kept.
	ErrCursorExpired = errors.New("cursor expired")
	// ErrReplyTo: the job to reply to does not exist in the project.
	ErrReplyTo = errors.New("no such job to reply to")
	// ErrManyReplies: MaxReplies jobs wait for the job to reply to.
	ErrManyReplies = errors.New("too many replies wait for this job")
	// ErrEffectKeyTaken: another effect at the receiver had the caller's own effect key.
	ErrEffectKeyTaken = errors.New("the effect key is taken")
	// ErrQuarantined: the database may be a copy or an old state (see Meta); no
	// claim is given until an operator releases it.
	ErrQuarantined = errors.New("quarantined")
	// ErrUndecided: the database was restored, and firings of the schedule that may have
	// taken place in the state that was lost are not decided yet. Fire decides about them.
	ErrUndecided = errors.New("firings of the lost time are not decided")
)

// Store keeps jobs, their events, connections and schedules.
type Store interface {
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

	// Events reads a project's events after a position, in the log's order. An
	// event that is returned is durable, and no event with a lower position can
	// appear later. Query.Job reads one job's events by sequence instead.
	// ErrCursorExpired, also for a position of another incarnation.
	Events(ctx context.Context, q EventQuery) (EventPage, error)

	// Claim leases due jobs: SCHEDULED or RETRYING, their time come, their window
	// open, their hold key not held, their connection below its limits. Each
	// becomes CLAIMED with a fresh claim token, its lease ending Lease from now. What
	// ClaimParams.Intend gives an intent for is armed in the same transaction: two
	// events, CLAIMED and then SENDING, and every guard of Arm. ErrQuarantined,
	// ErrClockDoubted.
	Claim(ctx context.Context, p ClaimParams) ([]Leased, error)

	// ClaimLooks leases AMBIGUOUS and ACCEPTED jobs whose look or poll is due, so
	// that one reconciler works on each. The state, the version and the events
	// stay as they are; only the token and the due time (now plus Lease) change.
	// ErrQuarantined, ErrClockDoubted.
	ClaimLooks(ctx context.Context, p ClaimParams) ([]Leased, error)

	// Renew moves the end of leases still held under their token to now plus
	// lease and tells which were. It serves claims and looks alike.
	Renew(ctx context.Context, lease time.Duration, refs []LeaseRef) ([]bool, error)

	// Arm writes intents: the attempt, and SENDING. Guards, all in SQL: the state
	// is CLAIMED, or AMBIGUOUS for a re-arm; the claim token is held; no cancel
	// was asked; the window is open; the hold key is not held; for a gated job no
	// other open intent has its fingerprint; no other job was armed within a cool-down
	// of the connection or the schedule (see Arm.Cooled). A quarantined database holds every
	// arm. After an ErrUnconfirmed, ask ArmedBy.
	Arm(ctx context.Context, items []Arm) ([]Armed, error)

	// ArmedBy reads back whether an arm with this token is durable, waiting for
	// a transaction that may still be deciding it. The zero Armed with
	// ErrNotFound says that it is not and never will be.
	ArmedBy(ctx context.Context, id job.ID, token job.ID) (Armed, error)

	// SaveHandle stores the handle of a prepare step before the next step acts.
	SaveHandle(ctx context.Context, id job.ID, attempt int, handle string) error

	// Apply writes decisions. A verdict is nil, ErrStale, ErrNotFound or
	// ErrIllegal. A decision whose effect id already settles another job is
	// written as NEEDS_RESOLUTION when it was observed (where the table has no
	// such move, the state stays), while a direct answer takes the id over, or tells
	// its owner (see Change.Claim and Applied.Told). No decision moves a job to CLAIMED or SENDING; none that
	// says "no effect" is taken while an attempt is open; none that counts an
	// absence is, if its look began before the last attempt's fence (ErrStale); a
	// proven result of an attempt is kept when later evidence knows less. A job that SUCCEEDED lets
	// the jobs go that wait for it; that is no change of theirs and has no event.
	Apply(ctx context.Context, items []Change) ([]Applied, error)

	// Overdue reads jobs whose time is over: CLAIMED past the lease, SENDING past
	// the fence, SCHEDULED, RETRYING or CLAIMED past the start deadline, held or
	// not. It changes nothing; the caller decides and applies. A quarantined
	// database gives only what is past its fence: of a job that it believes unsent
	// nobody may say that it expired without an effect.
	Overdue(ctx context.Context, limit int) ([]job.Snapshot, error)

	// Enlist says that a server works here under a worker's name until this Store is
	// closed: no claim or attempt of that worker is an orphan then. It returns when every other
	// server can know; a repeat changes nothing. Fails with ErrUnavailable; the name is
	// then made known as soon as that is possible.
	Enlist(ctx context.Context, worker string) error

	// Orphans reads jobs of workers that are enlisted neither here nor by any other server
	// that is alive: those that are CLAIMED, no claim of theirs having died before, and
	// KEYED ones that are SENDING with no cancel asked. The earliest end of a lease or a
	// fence (NextAt) comes first; the page begins after a place in that order, the zero
	// Place being the start. It changes and leases
	// nothing. Where several servers share a database, a worker's absence is a hint and no
	// proof: its session may be lost while it goes on sending. It counts from the second
	// call in a row that finds it absent, a second or more after the first. A quarantined database has no orphans, nor has
	// one whose clock is doubted.
	Orphans(ctx context.Context, after Place, limit int) ([]Leased, error)

	// Owners tells which of these external ids settle another job already, in the
	// account and namespace of a job's attempt: id by id, the other job. At most
	// MaxBatch ids.
	Owners(ctx context.Context, id job.ID, attempt int, externalIDs []string) (map[string]job.ID, error)

	// Doubtful reads jobs that may have been started by a state of this database
	// that was lost: SCHEDULED, RETRYING or CLAIMED, due by now, and their window
	// not over at since; a CLAIMED job was due when it was claimed. It serves
	// Recover's caller, batch by batch.
	Doubtful(ctx context.Context, since time.Time, limit int) ([]job.Snapshot, error)

	// Stats counts and measures a project's jobs.
	Stats(ctx context.Context, q StatsQuery) (Stats, error)

	// NextDue tells how long until Claim, ClaimLooks or Overdue may find
	// something; at most limit. Zero: now.
	NextDue(ctx context.Context, limit time.Duration) (time.Duration, error)

	// Watch returns a channel that gets a token, dropped when one is waiting,
	// after writes of the kind by this process and, where the engine can, by
	// others. A hint: polling is the truth. A job that comes to wait for longer than
	// HintAhead gives none for its time. The function ends it.
	Watch(kind WatchKind) (<-chan struct{}, func())

	Connections
	Sealing
	APIKeys
	OAuth
	Retention
	Erasure
	Rollups
	Quotas
	Namespaces
	Schedules
	ScheduleItems
	Watching
	// Meta describes the database.
	Meta(ctx context.Context) (Meta, error)
	// Quarantine turns claims off until Release: an operator's act, before a copy
	// of the database is taken or put to use, or because it is known to be one.
	// The incarnation rises, as after a restore that was noticed. ErrIllegal
	// without a reason.
	Quarantine(ctx context.Context, reason string) error
	// Release ends the quarantine, if there is one: an operator's act, who has
	// made sure that no other copy is at work. What such a copy armed last may
	// still act, so every SENDING or AMBIGUOUS job that may be looked at (any that
	// is not KEYED) is treated as armed at that moment: the fence of its last
	// attempt is no earlier than now plus the time for that attempt's answer plus
	// LostGrace, nor is its next look, absences that were counted are forgotten,
	// and a look's lease ends. That is no change of the job: no version, no event.
	// Every schedule that is not deleted gets its HeldUntil, in the same transaction, and an
	// ACTIVE one is due.
	Release(ctx context.Context) error
	// Close ends all work; calls under way may fail with ErrUnavailable.
	Close() error
}

// HintAhead is how far ahead work is hinted at: who waits for hints looks again by
// himself more often than that, and the many jobs of a later day wake nobody.
const HintAhead = 5 * time.Second

// WatchKind tells the hints of Watch apart.
type WatchKind int

const (
	// WatchWork: something may have become due.
	WatchWork WatchKind = iota
	// WatchEvents: events were written.
	WatchEvents
	// WatchSchedules: a schedule may have become due.
	WatchSchedules
)

// Ref names one job, connection or schedule of a project, by Key when it is set. An empty
// Project matches every project and is for the engine only, without a Key.
type Ref struct {
	Project string
	ID      job.ID
	Key     string
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

// EventQuery selects events after a position.
type EventQuery struct {
	Project string
	// After is the position, or for Job the sequence, of the last event seen.
	After int64
	// Incarnation is the one that After is of; 0: the present one, whatever it is.
	Incarnation int64
	// Job, when set, reads one job's events by sequence.
	Job         job.ID
	Jobs        []job.ID
	Connections []job.ID
	Schedule    job.ID
	// Labels must all be among those that the job has now. A job that was removed has
	// none.
	Labels map[string]string
	// Ended: only changes to a terminal state from another state.
	Ended bool
	Limit int
}

// EventPage is a run of events. Next is the position to read on from, also when
// the filter let nothing through; More says that reading on at once may give more.
type EventPage struct {
	Events []job.Event
	Next   int64
	More   bool
	// End is the log's present end: everything up to it can be read, and what
	// is written from now on comes after it.
	End int64
	// Begin is where the log begins: what came up to it may be gone.
	Begin int64
	// Incarnation is the database's (see Meta).
	Incarnation int64
}

// ClaimParams bounds one claim.
type ClaimParams struct {
	Worker string
	Lease  time.Duration
	Limit  int
	// Intend, when set, is asked about each job that Claim leases, before the lease
	// is durable; ClaimLooks does not ask. It gives the intent to write with it,
	// under the version and the claim token that it is shown, or nil. Without one,
	// or if Arm.Intended or a guard of Arm refuses it, the job is leased and no more.
	// It does no I/O and calls no store. A transaction that is run anew asks anew,
	// and only the last word about a job counts. One goroutine at a time calls it,
	// and none after Claim has returned.
	Intend func(Leased) *Arm
}

// LeaseRef names a lease.
type LeaseRef struct {
	Job   job.ID
	Token job.ID
}

// Leased is a job under a lease, with what preparing it needs.
type Leased struct {
	job.Snapshot
	Connection Connection
	// ReplyTo is the external id of the effect that this job answers; empty when
	// it answers none, or that effect has no known id.
	ReplyTo string
	// Armed is set when the job was armed as it was claimed; the snapshot beside it
	// is the job between the two.
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
	// Rearm arms an AMBIGUOUS job with the effect key and digest of its first
	// attempt of the round; the store refuses other bytes with ErrIllegal.
	Rearm             bool
	EffectKey         string
	Digest            []byte
	Frozen            []byte
	CredentialVersion int
	AccountIdentity   string
	Watermark         string
	// Gate is the content fingerprint for OBSERVABLE; empty: no gate.
	Gate []byte
	// Span is that of the request to the target; zero: none.
	Span job.Span
	// SendBy and AnswerBy count from the arm, Fence too (AnswerBy plus grace).
	SendBy, AnswerBy, Fence time.Duration
}

// Intended tells whether an intent may be written with the claim of a job: it is
// the job's own, of a target that is KEYED, has no cool-down, and does not look for its
// content first. Any other is prepared
// under a lease that is durable already.
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
	// Err is nil, ErrStale (moved on, lease lost, cancelled), ErrNotFound,
	// ErrIllegal, ErrWindowOver, ErrHeld, ErrGated or ErrCoolDown. Nothing was written then.
	Err error
	// Snapshot is the job after the arm. Of its request only what changes write is
	// sure to be there: ID, Project, Connection, HoldKey, Schedule and StartWindow.
	// Whoever asked has the rest (see Snapshot.Of).
	Snapshot job.Snapshot
	Attempt  job.Attempt
}

// Refusals of Arm beside the common errors.
var (
	// ErrWindowOver: the start deadline passed.
	ErrWindowOver = errors.New("start window over")
	// ErrHeld: the hold key is held.
	ErrHeld = errors.New("held")
	// ErrGated: another open intent has the same content. Engines return it as a
	// *GatedError.
	ErrGated = errors.New("gated")
)

// GatedError is ErrGated with the job whose open intent has the same content.
type GatedError struct{ By job.ID }

func (e *GatedError) Error() string { return ErrGated.Error() + ": by job " + e.By.String() }

// Is makes the error one of ErrGated.
func (e *GatedError) Is(target error) bool { return target == ErrGated }

// Change is one decision to write.
type Change struct {
	Job      job.ID
	Version  int64 // that was read; another version is ErrStale
	Decision job.Decision
	Actor    string
	Reason   string
	// Content, with a decision of cause UPDATED only, replaces what is to be sent.
	Content *Content
}

// Content is what may change of a job's request: what of it, and when, is for
// job.State.Updatable to say. The key and the fingerprint stay bound to the request that
// made the job.
type Content struct {
	// Payload, when not nil, replaces the payload; HoldKey and Recipients are the new one's.
	Payload    []byte
	HoldKey    string
	Recipients []string
	// OwnEffectKey, with a decision of cause RESOLVED only, is the effect key of the round
	// that begins, and EffectKey its digest, as NewJob has them.
	OwnEffectKey string
	EffectKey    [32]byte
	// Labels, when not nil, replace all labels.
	Labels map[string]string
	// Policy, when not 0, replaces the ambiguity policy; Retry, when not nil, the retry
	// policy without its AttemptTimeout, which is not read; AttemptTimeout, when not nil,
	// that; TimeZone, when not nil, the time zone.
	Policy         job.Policy
	Retry          *job.RetryPolicy
	AttemptTimeout *time.Duration
	TimeZone       *string
}

// Fields gives what a client's update changes.
func (c Content) Fields() job.Fields {
	var out job.Fields
	for _, part := range []struct {
		set   bool
		field job.Fields
	}{
		{c.Payload != nil, job.FieldPayload}, {c.Labels != nil, job.FieldLabels}, {c.Policy != 0, job.FieldPolicy},
		{c.Retry != nil, job.FieldRetry}, {c.AttemptTimeout != nil, job.FieldAttemptTimeout}, {c.TimeZone != nil, job.FieldTimeZone},
	} {
		if part.set {
			out |= part.field
		}
	}
	return out
}

// Apply returns a request with this content.
func (c Content) Apply(spec job.Spec) job.Spec {
	if c.Payload != nil {
		spec.Payload, spec.HoldKey = c.Payload, c.HoldKey
	}
	if c.OwnEffectKey != "" {
		spec.OwnEffectKey = c.OwnEffectKey
	}
	if c.Labels != nil {
		spec.Labels = c.Labels
	}
	if c.Policy != 0 {
		spec.Policy = c.Policy
	}
	if c.Retry != nil {
		timeout := spec.Retry.AttemptTimeout
		spec.Retry = *c.Retry
		spec.Retry.AttemptTimeout = timeout
	}
	if c.AttemptTimeout != nil {
		spec.Retry.AttemptTimeout = *c.AttemptTimeout
	}
	if c.TimeZone != nil {
		spec.TimeZone = *c.TimeZone
	}
	return spec
}

// Applied is Apply's verdict.
type Applied struct {
	Err error
	// Snapshot is the job after the change, with as much of its request as Armed has.
	Snapshot job.Snapshot
	// Told is the job that owns the object which this change's effect names, by a direct
	// answer. It stays SUCCEEDED and got an event of cause EFFECT_SHARED, and both
	// effects name the other job; zero: none.
	Told job.ID
	// Stolen says that Told lost the object, because only a look, a person or an
	// assumption had given it to that job.
	Stolen bool
}

// Meta describes a database.
type Meta struct {
	// Now is the time that counts as the present in the store.
	Now     time.Time
	StoreID job.ID
	// Engine is "sqlite" or "postgres".
	Engine  string
	Created time.Time
	// Quarantined says why claims are off; empty: they are on.
	Quarantined string
	// Incarnation rises, from 1, whenever the database is quarantined. Positions of
	// an earlier incarnation mean nothing in this one.
	Incarnation int64
	// Namespace is the installation's part of every effect key (see job.EffectKey).
	Namespace string
	// Identity is what was compared at the start: for people.
	Identity string
	// EventLag is how far the end of the log that may be read is behind the
	// clock: the age of the oldest transaction that may still write events. Zero
	// where there is only one writer.
	EventLag time.Duration
	// Clock is what this process doubts of the time.
	Clock ClockDoubt
}
