package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file:
//   - a position is above the positions of all transactions with a lower id, so readers of
//     the whole log stop at the horizon, before the oldest transaction in progress, in the
//     same statement;
//   - the log's end, and the position from which a reader continues, is always an event's
//     position and never the horizon itself. The server reuses ids of transactions that left
//     nothing durable after a crash: a reader that had continued from such an id would miss
//     the events of its next use. An event that was read is durable, and the ids after a
//     crash are above its own;
//   - the lock of a job's row orders its events, so they need no horizon.

// maxScan bounds the events that one call reads, whatever its filter selects. The caller
// continues from where it ended.
const maxScan = 4 * store.MaxBatch

// Events implements store.Store.
func (s *Store) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	if !q.Job.IsZero() {
		return read(ctx, s, "events", func(ctx context.Context, v view) (store.EventPage, error) {
			return v.jobEvents(ctx, q)
		})
	}
	return readOne(ctx, s, "events", func(ctx context.Context, v view) (store.EventPage, error) {
		return v.events(ctx, q)
	})
}

// ofIncarnation refuses a position of another incarnation.
func ofIncarnation(q store.EventQuery, now int64) error {
	if q.Incarnation != 0 && q.Incarnation != now {
		return fmt.Errorf("%w: of incarnation %d, now %d", store.ErrCursorExpired, q.Incarnation, now)
	}
	return nil
}

func (v view) jobEvents(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	most := rules.Page(q.Limit)
	p, err := v.LogEnd(ctx)
	if err != nil {
		return p, err
	}
	if err := ofIncarnation(q, p.Incarnation); err != nil {
		return p, err
	}
	if _, err := v.shared().Own(ctx, store.Ref{Project: q.Project, ID: q.Job}); err != nil {
		return p, err
	}
	upTo := q.After + int64(most)
	rows, err := v.q.JobHistories(ctx, pgdb.JobHistoriesParams{JobID: q.Job, After: q.After, UpTo: upTo + 1})
	if err != nil {
		return p, err
	}
	p.Next = q.After
	texts := false
	for _, r := range rows {
		of := job.Event{Project: r.Project, Job: q.Job, Connection: r.ConnectionID, Schedule: job.ID(r.ScheduleID)}
		part, err := logpage.DecodeHistory(of, r.LastSequence, r.Body)
		if err != nil {
			return p, fmt.Errorf("history of job %s: %w", q.Job, err)
		}
		for _, e := range part {
			switch {
			case e.Sequence <= q.After:
			case e.Sequence > upTo:
				p.More = true
			default:
				p.Events, p.Next, texts = append(p.Events, e.Event), e.Sequence, texts || e.Texts
			}
		}
	}
	if !texts {
		return p, nil
	}
	found, err := v.q.JobTexts(ctx, pgdb.JobTextsParams{JobID: q.Job, After: q.After, UpTo: upTo})
	if err != nil {
		return p, fmt.Errorf("texts: %w", err)
	}
	for _, t := range found {
		e := &p.Events[t.Sequence-q.After-1]
		e.Reason, e.Detail = t.Reason, t.Detail
	}
	return p, nil
}

// LogEnd implements sqlstore.Reading.
func (v view) LogEnd(ctx context.Context) (store.EventPage, error) {
	r, err := v.q.LogEnd(ctx)
	if err != nil {
		return store.EventPage{}, fmt.Errorf("end of the log: %w", err)
	}
	return store.EventPage{End: max(r.Last, r.EventsFrom), Begin: r.EventsFrom, Incarnation: r.Incarnation}, nil
}

func (v view) events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	most, scan := rules.Page(q.Limit), maxScan
	if len(q.Jobs) == 0 && len(q.Connections) == 0 && q.Schedule.IsZero() && len(q.Labels) == 0 && !q.Ended {
		scan = most // all pass
	}
	log, err := v.log(ctx, q.Project, q.After, scan)
	if err != nil {
		return store.EventPage{}, err
	}
	p := store.EventPage{Next: q.After, End: log.end, Begin: log.begin, Incarnation: log.incarnation}
	if err := ofIncarnation(q, p.Incarnation); err != nil {
		return p, err
	}
	if q.After < log.begin {
		return p, store.ErrCursorExpired
	}
	wanted := slices.DeleteFunc(log.entries, func(e logpage.Entry) bool { return !q.Selects(e.Event) })
	if wanted, err = v.labeled(ctx, wanted, q.Labels); err != nil {
		return p, err
	}
	if p.Next = log.to; len(wanted) >= most {
		wanted = wanted[:most]
		p.Next = wanted[most-1].Position
	}
	p.More = p.Next < p.End
	p.Events, err = v.withTexts(ctx, wanted)
	return p, err
}

// run is a part of the log.
type run struct {
	entries []logpage.Entry
	// begin and end are the log's. to is the position to read on from.
	begin, end, to int64
	incarnation    int64
}

// log reads up to scan events of a project after a position; of all projects, if the project
// is empty.
func (v view) log(ctx context.Context, project string, after int64, scan int) (run, error) {
	var rows []pgdb.PagesAfterRow
	var err error
	if project != "" {
		rows, err = v.q.PagesAfter(ctx, pgdb.PagesAfterParams{Project: project, After: after, Scan: int32(scan)})
	} else {
		var all []pgdb.TransactionsAfterRow
		all, err = v.q.TransactionsAfter(ctx, pgdb.TransactionsAfterParams{After: after, Scan: int32(scan)})
		for _, r := range all {
			rows = append(rows, pgdb.PagesAfterRow(r))
		}
	}
	if err != nil {
		return run{}, err
	}
	if len(rows) == 0 {
		return run{}, fmt.Errorf("%w: meta is missing", store.ErrUnavailable)
	}
	first := rows[0]
	out := run{begin: first.EventsFrom, end: max(first.Last, first.EventsFrom), incarnation: first.Incarnation}
	read := int64(0)
	for _, r := range rows {
		if r.Body == nil {
			continue
		}
		entries, err := logpage.Decode(r.Project, r.Body)
		if err != nil {
			return out, fmt.Errorf("events of project %s: %w", r.Project, err)
		}
		out.entries, read = append(out.entries, entries...), read+r.Events
	}
	out.entries = sorted(out.entries, after)
	switch out.to = max(after, out.end); {
	case len(out.entries) > scan:
		out.entries = out.entries[:scan]
		out.to = out.entries[scan-1].Position
	case read >= int64(scan): // there may be more
		if n := len(out.entries); n > 0 {
			out.to = out.entries[n-1].Position
		}
	}
	return out, nil
}

// labeled keeps the events of jobs that have all these labels.
func (v view) labeled(ctx context.Context, entries []logpage.Entry, labels map[string]string) ([]logpage.Entry, error) {
	if len(labels) == 0 || len(entries) == 0 {
		return entries, nil
	}
	ids := make([]job.ID, len(entries))
	for i := range entries {
		ids[i] = entries[i].Job
	}
	rows, err := v.q.LabeledJobs(ctx, pgdb.LabeledJobsParams{Ids: distinct(ids), Labels: store.EncodeLabels(labels)})
	if err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	has := setOf(rows)
	return slices.DeleteFunc(entries, func(e logpage.Entry) bool { return !has[e.Job] }), nil
}

// withTexts returns events with their texts.
func (v view) withTexts(ctx context.Context, entries []logpage.Entry) ([]job.Event, error) {
	out := make([]job.Event, len(entries))
	at := make(map[int64]*job.Event)
	var positions []int64
	for i := range entries {
		out[i] = entries[i].Event
		if entries[i].Texts {
			at[out[i].Position], positions = &out[i], append(positions, out[i].Position)
		}
	}
	if len(positions) == 0 {
		return out, nil
	}
	rows, err := v.q.TextsAt(ctx, positions)
	if err != nil {
		return nil, fmt.Errorf("texts: %w", err)
	}
	for _, r := range rows {
		e := at[r.Position]
		e.Reason, e.Detail = r.Reason, r.Detail
	}
	return out, nil
}
