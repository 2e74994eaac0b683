package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/gen/litedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// maxScan bounds the events that one call reads, whatever its filter lets
// through; the caller goes on from where it ended.
const maxScan = 4 * store.MaxBatch

// Events implements store.Store. There is one writer, so the order of the
// positions is the order of the commits, and nothing can appear behind a reader.
func (s *Store) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	return read(ctx, s, "events", func(ctx context.Context, v view) (store.EventPage, error) {
		m, err := v.q.GetMeta(ctx)
		if err != nil {
			return store.EventPage{}, err
		}
		if q.Incarnation != 0 && q.Incarnation != m.Incarnation {
			return store.EventPage{}, fmt.Errorf("%w: of incarnation %d, now %d", store.ErrCursorExpired, q.Incarnation, m.Incarnation)
		}
		p := store.EventPage{Next: q.After, Begin: m.EventsFrom, Incarnation: m.Incarnation}
		if p.End, err = v.end(ctx, m); err != nil {
			return p, err
		}
		if !q.Job.IsZero() {
			return v.jobEvents(ctx, q, p)
		}
		if q.After < m.EventsFrom {
			return p, store.ErrCursorExpired
		}
		return v.events(ctx, q, p)
	})
}

func (v view) jobEvents(ctx context.Context, q store.EventQuery, p store.EventPage) (store.EventPage, error) {
	most := page(q.Limit)
	if _, err := v.own(ctx, store.Ref{Project: q.Project, ID: q.Job}); err != nil {
		return p, err
	}
	rows, err := v.q.JobEventsAfter(ctx, litedb.JobEventsAfterParams{
		JobID: fromID(q.Job), After: q.After, MaxRows: most + 1,
	})
	if err != nil {
		return p, err
	}
	p.More = int64(len(rows)) > most
	for _, r := range rows[:min(len(rows), int(most))] {
		p.Events = append(p.Events, toEvent(r))
		p.Next = r.Sequence
	}
	return p, nil
}

func (v view) events(ctx context.Context, q store.EventQuery, p store.EventPage) (store.EventPage, error) {
	most, jobs := int(page(q.Limit)), labeled{view: v, known: make(map[job.ID]bool)}
	for scanned := 0; scanned < maxScan; {
		rows, err := v.q.EventsAfter(ctx, litedb.EventsAfterParams{After: p.Next, MaxRows: store.MaxBatch})
		if err != nil {
			return p, err
		}
		for _, r := range rows {
			p.Next = r.Position
			e := toEvent(r)
			ok, err := wanted(q, e), error(nil)
			if ok && len(q.Labels) > 0 {
				ok, err = jobs.have(ctx, q.Labels, e.Job)
			}
			if err != nil {
				return p, err
			}
			if ok {
				p.Events = append(p.Events, e)
			}
			if len(p.Events) == most {
				p.More = p.Next < p.End
				return p, nil
			}
		}
		if len(rows) < store.MaxBatch {
			p.Next = max(p.Next, p.End)
			return p, nil
		}
		scanned += len(rows)
	}
	p.More = p.Next < p.End
	return p, nil
}

// end is the position of the newest event, also when all were dropped.
func (v view) end(ctx context.Context, m litedb.Meta) (int64, error) {
	last, err := v.q.LastPosition(ctx)
	return max(last, m.EventsFrom), err
}

// labeled finds out which jobs have the labels of one query.
type labeled struct {
	view
	known map[job.ID]bool
}

// have reports whether a job has all these labels now.
func (l labeled) have(ctx context.Context, labels map[string]string, id job.ID) (bool, error) {
	if ok, known := l.known[id]; known {
		return ok, nil
	}
	text, err := l.q.JobLabels(ctx, fromID(id))
	if errors.Is(err, sql.ErrNoRows) {
		l.known[id] = false
		return false, nil
	}
	if err != nil {
		return false, err
	}
	has, err := toLabels(text)
	if err != nil {
		return false, fmt.Errorf("job %s: labels: %w", id, err)
	}
	ok := true
	for name, value := range labels {
		got, there := has[name]
		ok = ok && there && got == value
	}
	l.known[id] = ok
	return ok, nil
}

func wanted(q store.EventQuery, e job.Event) bool {
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
