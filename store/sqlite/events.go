package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// maxScan bounds the events that one call reads, whatever its filter selects. The caller
// continues from where it ended.
const maxScan = 4 * store.MaxBatch

// Events implements store.Store. There is one writer, so the order of the positions is the
// order of the commits, and no event can appear behind a reader.
func (s *Store) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	return read(ctx, s, "events", func(ctx context.Context, v view) (store.EventPage, error) {
		p, err := v.LogEnd(ctx)
		if err != nil {
			return p, err
		}
		p.Next = q.After
		if q.Incarnation != 0 && q.Incarnation != p.Incarnation {
			return p, fmt.Errorf("%w: of incarnation %d, now %d", store.ErrCursorExpired, q.Incarnation, p.Incarnation)
		}
		if !q.Job.IsZero() {
			return v.jobEvents(ctx, q, p)
		}
		if q.After < p.Begin {
			return p, store.ErrCursorExpired
		}
		return v.events(ctx, q, p)
	})
}

func (v view) jobEvents(ctx context.Context, q store.EventQuery, p store.EventPage) (store.EventPage, error) {
	most := page(q.Limit)
	if _, err := v.shared().Own(ctx, store.Ref{Project: q.Project, ID: q.Job}); err != nil {
		return p, err
	}
	events, err := v.history(ctx, fromID(q.Job), q.After, int(most)+1)
	if err != nil {
		return p, err
	}
	p.More = int64(len(events)) > most
	for _, e := range events[:min(len(events), int(most))] {
		event, err := v.worded(ctx, e.Event, e.Texts)
		if err != nil {
			return p, err
		}
		p.Events, p.Next = append(p.Events, event), e.Sequence
	}
	return p, nil
}

func (v view) events(ctx context.Context, q store.EventQuery, p store.EventPage) (store.EventPage, error) {
	most, jobs := int(page(q.Limit)), labeled{view: v, known: make(map[job.ID]bool)}
	for scanned := 0; scanned < maxScan; {
		entries, more, err := v.entries(ctx, q.Project, p.Next, min(most, maxScan-scanned))
		if err != nil {
			return p, err
		}
		for _, e := range entries {
			p.Next = e.Position
			ok, err := q.Selects(e.Event), error(nil)
			if ok && len(q.Labels) > 0 {
				ok, err = jobs.have(ctx, q.Labels, e.Job)
			}
			if err != nil {
				return p, err
			}
			if ok {
				event, err := v.worded(ctx, e.Event, e.Texts)
				if err != nil {
					return p, err
				}
				p.Events = append(p.Events, event)
			}
			if len(p.Events) == most {
				p.More = p.Next < p.End
				return p, nil
			}
		}
		if !more {
			p.Next = max(p.Next, p.End)
			return p, nil
		}
		scanned += len(entries)
	}
	p.More = p.Next < p.End
	return p, nil
}

// LogEnd implements sqlstore.Reading. The end is the position of the newest event, even if all
// were dropped.
func (v view) LogEnd(ctx context.Context) (store.EventPage, error) {
	m, err := v.q.GetMeta(ctx)
	if err != nil {
		return store.EventPage{}, err
	}
	last, err := v.q.LastPosition(ctx)
	return store.EventPage{Begin: m.EventsFrom, End: max(last, m.EventsFrom), Incarnation: m.Incarnation}, err
}

// labeled finds the jobs that have the labels of one query.
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
	has, _, err := store.DecodeTerms(text, nil)
	if err != nil {
		return false, fmt.Errorf("job %s: %w", id, err)
	}
	ok := true
	for name, value := range labels {
		got, there := has[name]
		ok = ok && there && got == value
	}
	l.known[id] = ok
	return ok, nil
}
