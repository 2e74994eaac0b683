package memory

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// maxScan bounds the events that one call reads, whatever its filter selects. The caller
// continues from where it ended.
const maxScan = 4 * store.MaxBatch

// Events implements store.Store. Positions are places in the log, from 1.
func (s *Store) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	return call(ctx, s, "events", func(t *tx) (store.EventPage, error) {
		now := t.meta.Incarnation
		switch {
		case q.Incarnation != 0 && q.Incarnation != now:
			return store.EventPage{}, fmt.Errorf("%w: of incarnation %d, now %d", store.ErrCursorExpired, q.Incarnation, now)
		case q.Job.IsZero() && q.After < t.logFrom:
			return store.EventPage{}, store.ErrCursorExpired
		}
		p := store.EventPage{Next: q.After, End: int64(len(t.log)), Begin: t.logFrom, Incarnation: now}
		if !q.Job.IsZero() {
			return t.jobEvents(q, p)
		}
		return t.events(q, p), nil
	})
}

func (t *tx) jobEvents(q store.EventQuery, p store.EventPage) (store.EventPage, error) {
	r, err := t.find(store.Ref{Project: q.Project, ID: q.Job})
	if err != nil {
		return p, err
	}
	rest := r.events[min(max(0, q.After), int64(len(r.events))):]
	p.Events = append(p.Events, rest[:min(len(rest), rules.Page(q.Limit))]...)
	p.More = len(rest) > len(p.Events)
	if n := len(p.Events); n > 0 {
		p.Next = p.Events[n-1].Sequence
	}
	return p, nil
}

func (t *tx) events(q store.EventQuery, p store.EventPage) store.EventPage {
	rest := t.log[min(q.After, p.End):]
	for _, e := range rest[:min(len(rest), maxScan)] {
		if len(p.Events) == rules.Page(q.Limit) {
			break
		}
		p.Next = e.Position
		if q.Selects(e) && t.labeled(q.Labels, e.Job) {
			p.Events = append(p.Events, e)
		}
	}
	p.More = p.Next < p.End
	return p
}

// labeled reports whether a job has all these labels now.
func (t *tx) labeled(labels map[string]string, id job.ID) bool {
	if len(labels) == 0 {
		return true
	}
	r, err := t.find(store.Ref{ID: id})
	if err != nil {
		return false
	}
	for name, value := range labels {
		if got, ok := r.job.Labels[name]; !ok || got != value {
			return false
		}
	}
	return true
}
