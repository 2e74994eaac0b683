package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// List implements store.Store.
func (s *Store) List(ctx context.Context, q store.JobQuery) (store.JobPage, error) {
	return call(ctx, s, "list", func(t *tx) (store.JobPage, error) {
		order, err := placing(q.Order)
		if err != nil {
			return store.JobPage{}, err
		}
		p := store.JobPage{Position: int64(len(t.log)), Incarnation: t.meta.Incarnation}
		var list []*record
		for _, r := range t.all {
			behind := q.AfterTime.IsZero() || order(placeOf(r, q.Order), place{micros(q.AfterTime), q.AfterID}) > 0
			if behind && selected(q, r.job) {
				list = append(list, r)
			}
		}
		slices.SortFunc(list, func(a, b *record) int { return order(placeOf(a, q.Order), placeOf(b, q.Order)) })
		most := page(q.Limit)
		p.More = len(list) > most
		for _, r := range list[:min(len(list), most)] {
			snap := r.snapshot(t.now)
			snap.Payload = nil
			p.Jobs = append(p.Jobs, snap)
		}
		return p, nil
	})
}

// place is where a job is in a list.
type place struct {
	at time.Time
	id job.ID
}

func placeOf(r *record, o store.Order) place {
	if o == store.ByCreatedDesc {
		return place{r.job.Created, r.job.ID}
	}
	return place{r.job.ScheduledFor, r.job.ID}
}

// placing orders places. Ties in time go by id, in the same direction.
func placing(o store.Order) (func(a, b place) int, error) {
	up := func(a, b place) int { return cmp.Or(a.at.Compare(b.at), bytes.Compare(a.id[:], b.id[:])) }
	switch o {
	case store.ByScheduledAsc:
		return up, nil
	case store.ByScheduledDesc, store.ByCreatedDesc:
		return func(a, b place) int { return up(b, a) }, nil
	default:
		return nil, fmt.Errorf("%w: order %d", store.ErrIllegal, o)
	}
}

// selected tells whether a query asks for a job.
func selected(q store.JobQuery, j job.Job) bool {
	for k, v := range q.Labels {
		if got, ok := j.Labels[k]; !ok || got != v {
			return false
		}
	}
	switch {
	case j.Project != q.Project,
		len(q.States) > 0 && !slices.Contains(q.States, j.State),
		len(q.Connections) > 0 && !slices.Contains(q.Connections, j.Connection),
		len(q.Jobs) > 0 && !slices.Contains(q.Jobs, j.ID),
		!q.Schedule.IsZero() && j.Schedule != q.Schedule,
		!q.ScheduledFrom.IsZero() && j.ScheduledFor.Before(micros(q.ScheduledFrom)),
		!q.ScheduledBefore.IsZero() && !j.ScheduledFor.Before(micros(q.ScheduledBefore)):
		return false
	default:
		return true
	}
}
