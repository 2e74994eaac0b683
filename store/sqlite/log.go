package sqlite

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
)

// Rules of this file:
//   - an operation adds its events as it writes the changes that they describe, in the order
//     of their positions. A refused or rolled back change removes its events;
//   - the pages are built from these events right before the commit, so they hold only what
//     took place. An operation that reads the log within its group would not find them; none
//     does.

// unknownPosition is the end of the log after a commit with an unknown outcome.
const unknownPosition = -1

// eventLog holds the events of the transaction in progress.
type eventLog struct {
	// base is the position of the newest committed event.
	base    int64
	entries []logpage.Entry
}

// note sets an event's position and time, and returns what the event adds to the history of
// its job. j is the job after the event; e has the cause and the details.
func (t *tx) note(j *job.Job, e job.Event) []byte {
	entry := t.noted(j, e)
	return logpage.HistoryEntry(entry.Event, entry.Texts)
}

// noteArm is note for an arm, from a state of the job.
func (t *tx) noteArm(j *job.Job, from job.State) []byte {
	entry := t.noted(j, job.Event{From: from, Cause: job.CauseArmed, Attempt: j.Attempt, Actor: j.Worker})
	if entry.Start = j.Attempt == 1; entry.Start {
		entry.Lag = t.now.Sub(j.ScheduleTime)
	}
	return logpage.HistoryEntry(entry.Event, entry.Texts)
}

func (t *tx) noted(j *job.Job, e job.Event) *logpage.Entry {
	l := t.w.log
	e.Position, e.At = l.base+int64(len(l.entries))+1, t.now
	e.Project, e.Job, e.Connection, e.Schedule = j.Project, j.ID, j.Connection, j.Schedule
	e.Sequence, e.To = j.Version, j.State
	l.entries = append(l.entries, logpage.Entry{Event: e, Texts: e.Reason != "" || e.Detail != "", Class: j.Class})
	t.hint[store.WatchEvents] = true
	return &l.entries[len(l.entries)-1]
}

// mark returns the point to which cut removes events.
func (l *eventLog) mark() int { return len(l.entries) }

func (l *eventLog) cut(mark int) {
	clear(l.entries[mark:])
	l.entries = l.entries[:mark]
}

// forget removes all events of the transaction.
func (l *eventLog) forget() { l.cut(0) }

// committed makes the events of the transaction the base for later ones.
func (l *eventLog) committed() {
	l.base += int64(len(l.entries))
	l.forget()
}

// write writes the pages, and the texts of their events.
func (l *eventLog) write(ctx context.Context, q *sqlitedb.Queries) error {
	for i := range l.entries {
		e := &l.entries[i]
		if !e.Texts {
			continue
		}
		err := q.InsertText(ctx, sqlitedb.InsertTextParams{
			JobID: e.Job, Sequence: e.Sequence, Position: e.Position, Reason: e.Reason, Detail: e.Detail,
		})
		if err != nil {
			return fmt.Errorf("texts of events: %w", err)
		}
	}
	for _, entries := range logpage.ByProject(l.entries) {
		first, last := &entries[0], &entries[len(entries)-1]
		err := q.InsertPage(ctx, sqlitedb.InsertPageParams{
			Position: last.Position, First: first.Position, Project: first.Project, At: last.At,
			Events: int64(len(entries)), Starts: logpage.EncodeStarts(entries), Body: logpage.Encode(entries),
		})
		if err != nil {
			return fmt.Errorf("page of the log: %w", err)
		}
	}
	return nil
}
