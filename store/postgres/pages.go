package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
)

// Rules of this file: a transaction adds its events as it writes the changes that they
// describe, in the order of their positions. The pages are built from these events at its
// commit, so they hold only what took place.

// log is a transaction's part of the event log.
type log struct {
	entries []logpage.Entry
	texts   pgdb.InsertTextsParams
}

// newest returns the position of the last event; 0: there is none.
func (l *log) newest() int64 {
	if n := len(l.entries); n > 0 {
		return l.entries[n-1].Position
	}
	return 0
}

// note sets an event's position and time, adds it to the log, and returns what it adds to the
// job's history.
func (t *tx) note(e logpage.Entry) ([]byte, error) {
	if err := t.place(&e); err != nil {
		return nil, err
	}
	t.add(e)
	return logpage.HistoryEntry(e.Event, e.Texts), nil
}

// place sets an event's position and time.
func (t *tx) place(e *logpage.Entry) error {
	if t.ordinal == maxOrdinal {
		return fmt.Errorf("%w: more than %d events in one transaction", store.ErrIllegal, maxOrdinal)
	}
	t.ordinal++
	e.Position, e.At, e.Texts = t.last(), t.now, e.Reason != "" || e.Detail != ""
	return nil
}

// last returns the position that was given last.
func (t *tx) last() int64 { return t.base + t.ordinal }

// add adds an event that has its position.
func (t *tx) add(e logpage.Entry) {
	if e.Texts {
		p := &t.log.texts
		p.Jobs, p.Sequences = append(p.Jobs, e.Job), append(p.Sequences, e.Sequence)
		p.Positions = append(p.Positions, e.Position)
		p.Reasons, p.Details = append(p.Reasons, e.Reason), append(p.Details, e.Detail)
	}
	t.log.entries = append(t.log.entries, e)
	t.hint[store.WatchEvents] = true
}

// writeLog queues the pages, and the texts of their events.
func (t *tx) writeLog(ctx context.Context) {
	if len(t.log.entries) == 0 {
		return
	}
	if !t.s.armed.Load() && slices.ContainsFunc(t.log.entries, func(e logpage.Entry) bool { return e.Start }) {
		// The last row that is locked: of concurrent first arms, all but one wait here.
		t.exec(ctx, func(ctx context.Context, db pgdb.DBTX) error { return named("first arm", pgdb.New(db).NoteArmed(ctx)) })
	}
	t.execRows(ctx, len(t.log.texts.Jobs), statement("texts of events", (*pgdb.Queries).InsertTexts, t.log.texts))
	p := pgdb.InsertPagesParams{Now: t.now}
	for _, entries := range logpage.ByProject(t.log.entries) {
		first, last := &entries[0], &entries[len(entries)-1]
		p.Positions, p.Firsts = append(p.Positions, last.Position), append(p.Firsts, first.Position)
		p.Projects, p.Events = append(p.Projects, first.Project), append(p.Events, int64(len(entries)))
		p.Starts, p.Bodies = append(p.Starts, logpage.EncodeStarts(entries)), append(p.Bodies, logpage.Encode(entries))
	}
	t.exec(ctx, statement("pages of the log", (*pgdb.Queries).InsertPages, p))
}

// eventOf returns an event of a job, before it has its position and its time.
func eventOf(j *job.Job, e job.Event) logpage.Entry {
	e.Project, e.Job, e.Connection, e.Schedule, e.Sequence, e.To = j.Project, j.ID, j.Connection, j.Schedule, j.Version, j.State
	return logpage.Entry{Event: e, Class: j.Class}
}

// armEvent returns the event of an arm that left a job like j.
func armEvent(j *job.Job, from job.State, now time.Time) logpage.Entry {
	e := eventOf(j, job.Event{From: from, Cause: job.CauseArmed, Attempt: j.Attempt, Actor: j.Worker})
	if e.Start = j.Attempt == 1; e.Start {
		e.Lag = now.Sub(j.ScheduleTime)
	}
	return e
}

// sorted returns the events after a position, from pages of whole transactions, in their
// order.
func sorted(entries []logpage.Entry, after int64) []logpage.Entry {
	entries = slices.DeleteFunc(entries, func(e logpage.Entry) bool { return e.Position <= after })
	slices.SortFunc(entries, func(x, y logpage.Entry) int { return cmp.Compare(x.Position, y.Position) })
	return entries
}
