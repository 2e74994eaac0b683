// Package store is the contract between Fireonce and the databases that keep its jobs: roles
// such as Jobs and Work, their parameters and their errors, one role a file. Store is all of
// them together. Each engine is a package of its own below this one and passes the suite in
// storetest.
//
// # Rules for every engine
//
//   - One method is one transaction. When a method returns without error, what it wrote is
//     durable. When it returns an error, nothing of the call was written, unless the error is
//     ErrUnconfirmed.
//   - A change of a job and its event are one write. Version rises by one with each event and
//     equals the event's sequence. A renewed lease, a lease for a look, and a fence that
//     Release raises do not change it.
//   - The SQL guards the status machine: a write names the version it was decided on, and the
//     database itself refuses every move that job.Transitions does not list.
//   - Times are the database's, as far as its clock is believed (see Timeline): a clock that
//     jumps starts, ends and removes nothing, until a step follows it (ClockStep). A
//     parameter that sets when something is due is a duration, added to the database's clock
//     in the same transaction. Every time is stored in whole microseconds, in UTC.
//   - Batches return one verdict for each item, in the order of the items. A refused item
//     does not affect the others.
//   - Every list is bounded by its Limit, at most MaxBatch unless stated otherwise.
//   - All methods are safe for concurrent use.
package store

import (
	"errors"

	"github.com/fireonce/fireonce/internal/job"
)

// MaxBatch bounds the items of one batch call and of one page.
const MaxBatch = 500

// Errors that every engine returns, wrapped or bare; compare with errors.Is.
var (
	// ErrNotFound: no such job, connection, credential or schedule in the project.
	ErrNotFound = errors.New("not found")
	// ErrStale: the job has changed since the named version. Read and decide again.
	ErrStale = errors.New("stale version")
	// ErrIllegal: the database refused a transition. A bug in the caller.
	ErrIllegal = errors.New("illegal transition")
	// ErrBadText: a text has a character that this database cannot store; an ErrIllegal, too.
	ErrBadText = errors.New("a text that the database cannot store")
	// ErrUnconfirmed: the commit's own outcome is unknown. Read back.
	ErrUnconfirmed = errors.New("commit unconfirmed")
	// ErrUnavailable: the database could not be reached or is shutting down. Nothing was
	// written.
	ErrUnavailable = errors.New("store unavailable")
	// ErrQuarantined: the database may be a copy or an old state (see Meta). No job is
	// claimed until an operator releases it.
	ErrQuarantined = errors.New("quarantined")
)

// Store is everything that a database keeps, for code that opens one. Other code takes the
// roles that it needs, or names the few methods. Store has no methods of its own, and a role
// has at most nine.
type Store interface {
	Jobs
	EventLog
	Statistics
	Notifier

	Work
	Recovery
	Fleet

	Schedules
	ScheduleItems
	DueSchedules

	Subscriptions
	Noticing

	Connections
	Stops
	Breakers
	Sealing
	Logins
	Renewals

	APIKeys
	Quotas

	Retention
	Erasure
	Rollups

	Incidents
	Plans

	Monitoring
	Admin
}

// Ref names one job, connection or schedule of a project, by Key when it is set. An empty
// Project matches every project, works only without a Key, and is for the engine only.
type Ref struct {
	Project string
	ID      job.ID
	Key     string
}
