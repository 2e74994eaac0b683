package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// List implements store.Store.
func (s *Store) List(ctx context.Context, q store.JobQuery) (store.JobPage, error) {
	return call(ctx, s, "list", func(t *tx) (store.JobPage, error) {
		if q.Order < store.ByScheduledDesc || q.Order > store.ByCreatedAsc {
			return store.JobPage{}, fmt.Errorf("%w: order %d", store.ErrIllegal, q.Order)
		}
		p := store.JobPage{Position: int64(len(t.log)), Incarnation: t.meta.Incarnation}
		var list []*record
		for _, r := range t.all {
			behind := q.AfterTime.IsZero() || q.Order.Compare(placeOf(r, q.Order), store.Place{At: micros(q.AfterTime), ID: q.AfterID}) > 0
			if behind && t.selected(q, r) {
				list = append(list, r)
			}
		}
		slices.SortFunc(list, func(a, b *record) int { return q.Order.Compare(placeOf(a, q.Order), placeOf(b, q.Order)) })
		most := rules.Page(q.Limit)
		p.More = len(list) > most
		for _, r := range list[:min(len(list), most)] {
			snap := r.snapshot(t.now)
			snap.Payload = nil
			p.Jobs = append(p.Jobs, snap)
		}
		if p.More {
			p.Next = placeOf(list[most-1], q.Order)
		}
		return p, nil
	})
}

func placeOf(r *record, o store.Order) store.Place {
	if o.ByCreated() {
		return store.Place{At: r.job.Created, ID: r.job.ID}
	}
	return store.Place{At: r.job.ScheduleTime, ID: r.job.ID}
}

func errorKind(r *record) job.FailureKind {
	if r.job.LastError == nil {
		return 0
	}
	return r.job.LastError.Kind
}

// selected reports whether a query selects a job.
func (t *tx) selected(q store.JobQuery, r *record) bool {
	j := &r.job
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
		len(q.ErrorKinds) > 0 && !slices.Contains(q.ErrorKinds, errorKind(r)),
		len(q.Classes) > 0 && !slices.Contains(q.Classes, j.Class),
		len(q.Destinations) > 0 && !slices.Contains(q.Destinations, j.HoldKey),
		!strings.HasPrefix(j.Key, q.KeyPrefix), !strings.Contains(j.Key, q.KeyText),
		q.ExternalID != "" && (j.State != job.Succeeded || r.effect == nil || r.effect.ExternalID != q.ExternalID),
		q.Recipient != "" && !slices.Contains(r.recipients, q.Recipient),
		q.OnlyLeftBehind && j.State == job.Canceled && !j.LeftBehind(),
		!q.Schedule.IsZero() && j.Schedule != q.Schedule,
		!within(j.ScheduleTime, q.ScheduleTimeFrom, q.ScheduleTimeBefore),
		!within(j.Created, q.CreatedFrom, q.CreatedBefore),
		!within(j.Ended, q.EndedFrom, q.EndedBefore),
		q.InState > 0 && t.now.Sub(r.inStateSince()) < q.InState:
		return false
	default:
		return true
	}
}

// within reports whether a time is in a span. The zero time is in none.
func within(at, from, before time.Time) bool {
	if from.IsZero() && before.IsZero() {
		return true
	}
	return !at.IsZero() && (from.IsZero() || !at.Before(micros(from))) && (before.IsZero() || at.Before(micros(before)))
}

// inStateSince returns when the job entered its state.
func (r *record) inStateSince() time.Time {
	for _, e := range slices.Backward(r.events) {
		if e.From != e.To {
			return e.At
		}
	}
	return r.job.Created
}
