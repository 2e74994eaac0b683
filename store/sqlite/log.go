package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/fireonce/fireonce/gen/litedb"
)

// Rules of this file: the events of a group are written together, in their order,
// before its commit. An operation that reads the log within its group would not
// find them; none does. What many events have in common is given to SQLite once: a
// parameter costs as much as a column that is written.

// logRows are the numbers of events that one statement writes.
var logRows = []int{32, 4, 1}

// eventLog holds the events that are still to be written.
type eventLog struct {
	waiting []litedb.InsertEventParams
	// texts are the queries for so many events of any kind, usual those for the usual.
	texts, usual map[int]string
	args         []any
}

func newEventLog() *eventLog {
	l := &eventLog{texts: make(map[int]string), usual: make(map[int]string)}
	for _, n := range logRows {
		l.texts[n], l.usual[n] = insertEvents(n), insertUsual(n)
	}
	return l
}

const insertEventsText = `-- name: InsertEvents :exec
INSERT INTO events (
    project, job_id, connection_id, schedule_id, sequence, from_state, to_state,
    cause, attempt, actor, reason, detail, at
) VALUES `

// insertEvents is the query InsertEvent for n events.
func insertEvents(n int) string {
	row := "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	return insertEventsText + row + strings.Repeat(", "+row, n-1)
}

// insertUsual is the query for n usual events of one project and one actor, which are
// its parameters 1 and 9.
func insertUsual(n int) string {
	return insertEventsText + "(?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, '', '', ?)" +
		strings.Repeat(", (?1, ?, ?, NULL, ?, ?, ?, ?, ?, ?9, '', '', ?)", n-1)
}

// isUsual tells an event about which nothing more is said, and of no schedule.
func isUsual(e *litedb.InsertEventParams) bool {
	return e.ScheduleID == nil && e.Reason == "" && e.Detail == ""
}

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
	for rest := l.waiting; len(rest) > 0; {
		alike, usual := run(rest)
		for _, n := range logRows {
			for ; alike >= n; rest, alike = rest[n:], alike-n {
				if err := l.write(ctx, s, rest[:n], usual); err != nil {
					return fmt.Errorf("events: %w", err)
				}
			}
		}
	}
	l.forget()
	return nil
}

// run counts the events at the beginning that are written alike: usual ones that share
// what those share, or others.
func run(events []litedb.InsertEventParams) (n int, usual bool) {
	first := &events[0]
	usual = isUsual(first)
	for n = 1; n < len(events); n++ {
		e := &events[n]
		if isUsual(e) != usual || usual && (e.Project != first.Project || e.Actor != first.Actor) {
			break
		}
	}
	return n, usual
}

// write writes as many events as there is a query for.
func (l *eventLog) write(ctx context.Context, s *session, events []litedb.InsertEventParams, usual bool) error {
	l.args = l.args[:0]
	for i, e := range events {
		switch {
		case !usual:
			l.args = append(l.args,
				e.Project, e.JobID, e.ConnectionID, e.ScheduleID, e.Sequence, e.FromState, e.ToState,
				e.Cause, e.Attempt, e.Actor, e.Reason, e.Detail, e.At)
		case i == 0:
			l.args = append(l.args,
				e.Project, e.JobID, e.ConnectionID, e.Sequence, e.FromState, e.ToState, e.Cause, e.Attempt, e.Actor, e.At)
		default:
			l.args = append(l.args, e.JobID, e.ConnectionID, e.Sequence, e.FromState, e.ToState, e.Cause, e.Attempt, e.At)
		}
	}
	text := l.texts[len(events)]
	if usual {
		text = l.usual[len(events)]
	}
	_, err := s.ExecContext(ctx, text, l.args...)
	return err
}

// forget drops what waits.
func (l *eventLog) forget() {
	clear(l.waiting)
	l.waiting = l.waiting[:0]
}
