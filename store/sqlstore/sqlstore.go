// Package sqlstore has what both SQL engines do at human pace, written once: one body over
// one SQL, and the queue of calls that share transactions. What is hot (create, claim, arm,
// apply, the log) each engine has of its own, but for the parts that few changes have.
//
// Rules of this package:
//
//   - The SQL is PostgreSQL's. sqlc compiles it against PostgreSQL's schema (gen/shareddb);
//     SQLite runs it through a dialect (store/sqlite/dialect.go), and a test prepares each
//     query there. A query that needs more than the dialect has belongs to the engines.
//   - No list is nil where a query excludes it (<> ALL): PostgreSQL reads nil as NULL.
//   - Where locks, isolation or steps differ, the body calls a method of Writing or Reading.
//     Its comment has the reason. The engines implement it.
//   - A body may run more than once (PostgreSQL repeats a transaction that lost), so it starts
//     afresh each time: it returns values, and changes nothing outside.
package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
)

// View is what a reading call sees: one state of the whole database.
type View struct {
	Q *shareddb.Queries
	// DB runs statements that are put together at run time. They are not kept prepared.
	DB shareddb.DBTX
	// Now counts as the present for the whole call.
	Now time.Time
	// Suspect describes a clock that is not believed.
	Suspect store.SuspectClock
	Reading
}

// Reading is what an engine reads its own way.
type Reading interface {
	// Gone returns those of the workers that count as gone (see store.Store.Orphans).
	// PostgreSQL: those whose server has held no lock for a while. SQLite: the absent ones.
	Gone(ctx context.Context, workers []string) ([]string, error)
	// Absent returns those of the workers that are not enlisted now. PostgreSQL: those whose
	// server holds no lock. SQLite: all that are not of this process, which has the file for
	// itself.
	Absent(ctx context.Context, workers []string) ([]string, error)
	// At returns the present, of which server is the database's own clock. PostgreSQL: a call of
	// ReadOne learns it from the statement. SQLite: Now.
	At(server time.Time) time.Time
	// Log reads the next events of a project after a position, in their order and most at most;
	// an empty project is all. The page has no events: it is the state of the log at that time,
	// with the position to read on from. PostgreSQL: one statement, as far as no transaction may
	// still commit an earlier event. SQLite: by pages, whose positions may interleave.
	Log(ctx context.Context, project string, after int64, most int) ([]logpage.Entry, store.EventPage, error)
	// OtherRolls reports whether another server counts events, by its lease. SQLite has none.
	OtherRolls(ctx context.Context, owner job.ID) (bool, error)
	// LogEnd returns the end of the log and the incarnation, as a page without events. PostgreSQL:
	// the end is before the oldest transaction in progress.
	LogEnd(ctx context.Context) (store.EventPage, error)
	// CreatedByState reports whether the index of jobs by creation has each state apart, as the
	// one by time has. PostgreSQL: it has not, and is of the table jobs. SQLite: it has, of job_state.
	CreatedByState() bool
	// BoundPlans makes the planner use indexes in their order until the transaction ends, so
	// that a LIMIT bounds the work. PostgreSQL: it would build bitmaps of all matching rows. SQLite:
	// it does anyway.
	BoundPlans(ctx context.Context) error
	// CountByLabels runs a count of the jobs that an index of labels names. Too many are more
	// than store.SearchCandidates. PostgreSQL: the index supports only a bitmap of all matching
	// rows, so the search has a time limit. SQLite: it has no such index.
	CountByLabels(ctx context.Context, count string, args []any) (int, error)
}

// Tx is a writing transaction: all of it is durable when the call returns, or nothing.
type Tx struct {
	View
	Writing
}

// Writing is what an engine's transaction does its own way.
type Writing interface {
	// LockCount keeps the project's objects of a kind from growing by other transactions until
	// this one ends, so that what it counts stays true. It must be the first lock that the
	// transaction takes. PostgreSQL: an advisory lock of the project and the kind. SQLite:
	// nothing, because one transaction writes at a time.
	LockCount(ctx context.Context, kind CountedKind, project string) error
	// RefuseQuarantined fails with store.ErrQuarantined while claims are off: another copy of
	// the database may make the same call.
	RefuseQuarantined(ctx context.Context) error
	// RefuseClosed is RefuseQuarantined for what ends or removes something because its time is
	// over: it fails with store.ErrClockSuspect too.
	RefuseClosed(ctx context.Context) error
	// OpenStops returns how many stops may be in force now or later, as of the transaction's
	// begin. PostgreSQL reads it with the BEGIN, SQLite caches it.
	OpenStops(ctx context.Context) (int64, error)
	// CountUse adds to the jobs and bytes that the project stores. PostgreSQL: a row, so that
	// transactions of one project do not wait for each other. SQLite: the sum of the writer's
	// group.
	CountUse(ctx context.Context, project string, jobs, bytes int64) error
	// FoldUse replaces rows of the project's use by their sum. SQLite has one row.
	FoldUse(ctx context.Context, project string) error
	// Overwriting runs fn, which removes what must not be readable from the database's files
	// afterwards. PostgreSQL: nothing more; its vacuum does so in time. SQLite: secure_delete.
	Overwriting(ctx context.Context, fn func() error) error
	// MakeJobs makes jobs, as Create does, in the transaction. The engines create in their own
	// way: PostgreSQL all together, SQLite one by one.
	MakeJobs(ctx context.Context, items []store.NewJob) ([]store.Created, error)
	// MoveRoll moves the position up to which events are counted, unless it has moved from there
	// or another server counts. PostgreSQL: it renews the caller's lease too.
	MoveRoll(ctx context.Context, p store.RollParams, from, to int64, at time.Time) (moved bool, err error)
	// TakeRetention makes the caller the one that cleans, unless another one does (busy), and
	// returns up to where the log was dropped. PostgreSQL: the row of retention is locked for
	// the step, and leased for longer. SQLite: there is one process.
	TakeRetention(ctx context.Context, owner job.ID, lease time.Duration) (droppedTo int64, busy bool, err error)
	// ShareRetention keeps steps of retention away until the transaction ends. PostgreSQL: by
	// the same row; erasures do not wait for each other.
	ShareRetention(ctx context.Context) (droppedTo int64, err error)
	// SetDroppedTo sets up to where the log was dropped. PostgreSQL has it in the row of
	// retention, because one that changes often collects dead versions, SQLite in meta.
	SetDroppedTo(ctx context.Context, to int64) error
	// LockConnection serializes a change of a connection with all work on its jobs, and returns
	// its token bucket (store.Bucket.At). It fails with sql.ErrNoRows if there is none.
	// PostgreSQL: locks of its claims, its row and its runnable rows. SQLite: only reads.
	LockConnection(ctx context.Context, id job.ID) (bucketAt int64, err error)
	// SetBucket writes the token bucket of a connection. PostgreSQL has it in a row of its own,
	// the connection's claim lock, which it adds for a new connection.
	SetBucket(ctx context.Context, connection job.ID, at int64) error
	// LabelConnection runs write, which writes a connection's labels, and keeps the rows by
	// which they are found in step. PostgreSQL: its triggers do. SQLite: drops the rows of the
	// old labels before, and adds those of the new ones.
	LabelConnection(ctx context.Context, id job.ID, write func(context.Context) error) error
	// Wake wakes those that watch a kind, after the commit.
	Wake(kind store.WatchKind)
}

// Engine runs bodies.
type Engine struct {
	// Enlist announces a worker. PostgreSQL: it waits until the session has its lock. SQLite:
	// the process remembers it.
	Enlist func(ctx context.Context, worker string) error
	// Read runs fn on one state of the database. PostgreSQL: REPEATABLE READ, READ ONLY.
	Read func(ctx context.Context, name string, fn func(context.Context, View) error) error
	// ReadOne runs fn, whose statements need no common state of the database and no time: Now
	// is not set. PostgreSQL saves the transaction's round trips.
	ReadOne func(ctx context.Context, name string, fn func(context.Context, View) error) error
	// Write runs fn in one transaction. PostgreSQL: READ COMMITTED, again if it lost to another
	// one. SQLite: in the writer's group.
	Write func(ctx context.Context, name string, fn func(context.Context, Tx) error) error
	// StepRows bounds the jobs and the like of a step that removes, and of one of Fire. SQLite: all other writes
	// wait for a step.
	StepRows int
	// FireTime is how long a call of Fire decides. PostgreSQL: its schedules are locked, and the
	// caller waits for a bounded time. SQLite: all other writes wait for it.
	FireTime time.Duration
	// FiresOnce makes a call of Fire write once. PostgreSQL: making jobs locks runnable rows, the
	// last in the order of its locks. SQLite: a write is a part of the call.
	FiresOnce bool
}

// Roles implements the roles of store.Store that both engines share. An engine embeds it.
type Roles struct{ engine Engine }

// New returns the roles over an engine.
func New(e Engine) Roles { return Roles{engine: e} }

func read[T any](ctx context.Context, r *Roles, name string, fn func(context.Context, View) (T, error)) (T, error) {
	return result(ctx, r.engine.Read, name, fn)
}

func readOne[T any](ctx context.Context, r *Roles, name string, fn func(context.Context, View) (T, error)) (T, error) {
	return result(ctx, r.engine.ReadOne, name, fn)
}

func write[T any](ctx context.Context, r *Roles, name string, fn func(context.Context, Tx) (T, error)) (T, error) {
	return result(ctx, r.engine.Write, name, fn)
}

// result runs a body that returns a value. The value of a failed call is the zero one.
func result[S, T any](
	ctx context.Context, run func(context.Context, string, func(context.Context, S) error) error, name string,
	fn func(context.Context, S) (T, error),
) (T, error) {
	var v, zero T
	err := run(ctx, name, func(ctx context.Context, s S) (err error) {
		v, err = fn(ctx, s)
		return err
	})
	if err != nil {
		return zero, err
	}
	return v, nil
}

// writeOnly is write for a body without a value.
func writeOnly(ctx context.Context, r *Roles, name string, fn func(context.Context, Tx) error) error {
	return r.engine.Write(ctx, name, fn)
}

// inBatch runs the statements of a batch, which PostgreSQL gets in one round trip, and returns
// the first error.
func inBatch(run func(each func(int, error))) (first error) {
	run(func(_ int, err error) { first = cmp.Or(first, err) })
	return first
}

// named adds to an error what failed.
func named(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// orNotFound converts the lack of a row. Other drivers' errors wrap database/sql's.
func orNotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrNotFound
	}
	return err
}

// Listed returns a list that is not nil. PostgreSQL's driver writes a nil list as NULL, and
// with NULL `<> ALL` and cardinality are NULL themselves.
func Listed[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// filled keeps empty bytes apart from NULL.
func filled(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// bytesOf returns nil for empty bytes.
func bytesOf(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}
