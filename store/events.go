package store

import (
	"context"
	"errors"

	"github.com/fireonce/fireonce/internal/job"
)

// ErrCursorExpired: the position is older than the events that are kept.
var ErrCursorExpired = errors.New("cursor expired")

// EventLog is the log of what happened to jobs.
type EventLog interface {
	// Events reads a project's events after a position, in the log's order. An
	// event that is returned is durable, and no event with a lower position can
	// appear later. Query.Job reads one job's events by sequence instead.
	// ErrCursorExpired, also for a position of another incarnation.
	Events(ctx context.Context, q EventQuery) (EventPage, error)
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
