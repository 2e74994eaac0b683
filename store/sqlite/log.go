package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/fireonce/fireonce/gen/litedb"
)

// Rules of this file: the events of a group are written together, in their order,
// before its commit. An operation that reads the log within its group would not
// find them; none does.

// logRows are the numbers of events that one statement writes.
var logRows = []int{32, 4, 1}

// eventLog holds the events that are still to be written.
type eventLog struct {
	waiting []litedb.InsertEventParams
	texts   map[int]string
	args    []any
}

func newEventLog() *eventLog {
	l := &eventLog{texts: make(map[int]string)}
	for _, n := range logRows {
		l.texts[n] = insertEvents(n)
	}
	return l
}

// insertEvents is the query InsertEvent for n events.
func insertEvents(n int) string {
	row := "(?" + strings.Repeat(", ?", eventColumns-1) + ")"
	return `-- name: InsertEvents :exec
INSERT INTO events (
    project, job_id, connection_id, schedule_id, sequence, from_state, to_state,
    cause, attempt, actor, reason, detail, at
) VALUES ` + row + strings.Repeat(", "+row, n-1)
}

const eventColumns = 13

// add takes an event. In a careful transaction it is written at once, so that
// what is wrong with it is the fault of its own item.
func (l *eventLog) add(ctx context.Context, t *tx, e litedb.InsertEventParams) error {
	if t.careful {
		return t.q.InsertEvent(ctx, e)
	}
	t.w.ses.dirty = true
	l.waiting = append(l.waiting, e)
	return nil
}

// flush writes what waits.
func (l *eventLog) flush(ctx context.Context, s *session) error {
	rest := l.waiting
	for _, n := range logRows {
		for ; len(rest) >= n; rest = rest[n:] {
			l.args = l.args[:0]
			for _, e := range rest[:n] {
				l.args = append(l.args,
					e.Project, e.JobID, e.ConnectionID, e.ScheduleID, e.Sequence, e.FromState, e.ToState,
					e.Cause, e.Attempt, e.Actor, e.Reason, e.Detail, e.At)
			}
			if _, err := s.ExecContext(ctx, l.texts[n], l.args...); err != nil {
				return fmt.Errorf("events: %w", err)
			}
		}
	}
	l.forget()
	return nil
}

// forget drops what waits.
func (l *eventLog) forget() {
	clear(l.waiting)
	l.waiting = l.waiting[:0]
}
