package store

import (
	"context"
	"errors"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
)

// ErrCursorExpired: the position is older than the events that are kept.
var ErrCursorExpired = errors.New("cursor expired")

// EventLog is the log of what happened to jobs.
type EventLog interface {
	// Events reads a project's events after a position, in the log's order. A returned event
	// is durable, and no event with a lower position can appear later. With EventQuery.Job it
	// reads one job's events by sequence instead. ErrCursorExpired, also for a position of
	// another incarnation.
	Events(ctx context.Context, q EventQuery) (EventPage, error)
}

// EventQuery selects events after a position.
type EventQuery struct {
	Project string
	// After is the position, or for Job the sequence, of the last event seen.
	After int64
	// Incarnation is the one that After belongs to; 0: the present one.
	Incarnation int64
	// Job, when set, reads one job's events by sequence.
	Job         job.ID
	Jobs        []job.ID
	Connections []job.ID
	Schedule    job.ID
	// Labels must all be among the present labels of the job. A removed job has none.
	Labels map[string]string
	// Ended selects only changes from a state that is not terminal to a terminal one.
	Ended bool
	Limit int
}

// EventPage is a run of events. Next is the position to read on from, even if the filter
// excluded every event. More reports that another read may return more immediately.
type EventPage struct {
	Events []job.Event
	Next   int64
	More   bool
	// End is the log's present end: all events up to it can be read, and those that are
	// written from now on come after it.
	End int64
	// Begin is where the log begins: events up to it may have been removed.
	Begin int64
	// Incarnation is the database's (see Meta).
	Incarnation int64
}

// Selects reports whether the filter selects an event, as far as its labels do not decide.
func (q *EventQuery) Selects(e job.Event) bool {
	switch {
	case q.Project != "" && e.Project != q.Project,
		len(q.Jobs) > 0 && !slices.Contains(q.Jobs, e.Job),
		len(q.Connections) > 0 && !slices.Contains(q.Connections, e.Connection),
		!q.Schedule.IsZero() && e.Schedule != q.Schedule,
		q.Ended && (!e.To.Terminal() || e.To == e.From):
		return false
	default:
		return true
	}
}
