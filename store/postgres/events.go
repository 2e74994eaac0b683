package postgres

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file:
//   - a position is above the positions of all transactions with a lower id; so
//     readers of the whole log stop at the horizon, before the oldest transaction
//     under way, in the same statement;
//   - the log's end, and what a reader goes on from, is always an event's position
//     and never the horizon itself. Ids of transactions that left nothing durable
//     are given again after a crash of the server: a reader who had gone on from
//     there would miss what comes then. An event that was read is durable, and the
//     ids that the server gives after a crash are above its own;
//   - a job's own events are in order by its row's lock, and need no horizon.

// maxScan bounds the events that one call reads, whatever its filter lets
// through; the caller goes on from where it ended.
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
	p, err := v.end(ctx)
	if err != nil {
		return p, err
	}
	if err := ofIncarnation(q, p.Incarnation); err != nil {
		return p, err
	}
	if _, err := v.own(ctx, store.Ref{Project: q.Project, ID: q.Job}); err != nil {
		return p, err
	}
	rows, err := v.q.JobEventsAfter(ctx, pgdb.JobEventsAfterParams{
		JobID: fromID(q.Job), After: q.After, MaxRows: int32(most + 1),
	})
	if err != nil {
		return p, err
	}
	p.Next, p.More = q.After, len(rows) > most
	for _, r := range rows[:min(len(rows), most)] {
		p.Events = append(p.Events, toEvent(r))
		p.Next = r.Sequence
	}
	return p, nil
}

// end gives an empty page at the log's end.
func (v view) end(ctx context.Context) (store.EventPage, error) {
	r, err := v.q.LogEnd(ctx)
	if err != nil {
		return store.EventPage{}, fmt.Errorf("end of the log: %w", err)
	}
	return store.EventPage{End: max(r.Last, r.EventsFrom), Begin: r.EventsFrom, Incarnation: r.Incarnation}, nil
}

func (v view) events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	most, scan := rules.Page(q.Limit), maxScan
	if len(q.Jobs) == 0 && len(q.Connections) == 0 && q.Schedule.IsZero() && len(q.Labels) == 0 && !q.Ended {
		scan = most // nearly all pass
	}
	labels, err := fromLabels(q.Labels)
	if err != nil {
		return store.EventPage{}, fmt.Errorf("labels: %w", err)
	}
	rows, err := v.q.EventsAfter(ctx, pgdb.EventsAfterParams{
		After: q.After, Scan: int32(scan), Project: q.Project, Jobs: fromIDs(q.Jobs),
		Connections: fromIDs(q.Connections), Schedule: optionalID(q.Schedule), Ended: q.Ended, Labels: labels, MaxRows: int32(most),
	})
	if err != nil {
		return store.EventPage{}, err
	}
	if len(rows) == 0 {
		return store.EventPage{}, fmt.Errorf("%w: meta is missing", store.ErrUnavailable)
	}
	log := rows[0]
	p := store.EventPage{
		Next: q.After, End: max(log.Last, log.EventsFrom), Begin: log.EventsFrom, Incarnation: log.Incarnation,
	}
	if err := ofIncarnation(q, p.Incarnation); err != nil {
		return p, err
	}
	if q.After < log.EventsFrom {
		return p, store.ErrCursorExpired
	}
	for _, r := range rows {
		if e, ok := toEventOf(r); ok {
			p.Events = append(p.Events, e)
		}
	}
	switch {
	case len(p.Events) == most:
		p.Next = p.Events[most-1].Position
	case log.Scanned == int64(scan):
		p.Next = log.ScannedTo
	default:
		p.Next = max(q.After, p.End)
	}
	p.More = p.Next < p.End
	return p, nil
}
