package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Roll implements store.Store.
func (s *Store) Roll(ctx context.Context, p store.RollParams) (store.Rolled, error) {
	return call(ctx, s, "roll", func(t *tx) (store.Rolled, error) {
		out := t.removeRollups()
		if t.rolled == int64(len(t.log)) {
			return out, nil
		}
		roll := store.NewRoll()
		events, counts := p.Bounds()
		for roll.Len() < counts && out.Events < events && t.rolled < int64(len(t.log)) {
			e := t.rollEvent(t.log[t.rolled])
			var past []store.PastEvent
			for _, p := range t.log[:t.rolled] {
				if e.AsksPast() && p.Job == e.Job {
					past = append(past, store.PastEvent{Job: p.Job, Sequence: p.Sequence, To: p.To, At: p.At})
				}
			}
			roll.Add(e, past)
			t.rolled++
			out.Events++
		}
		t.rolledAt = roll.Last()
		for _, c := range roll.Counts() {
			t.rollups[c.RollKey] += c.Count
		}
		out.More = t.rolled < int64(len(t.log))
		return out, nil
	})
}

// rollEvent adds to an event what a roll needs.
func (t *tx) rollEvent(e job.Event) store.RollEvent {
	out := store.RollEvent{Event: e, Lag: -1}
	if c := t.conns[e.Connection]; c != nil {
		out.Connector, out.Class = c.Connector, c.Class
	}
	if r := t.jobs[e.Job]; r != nil {
		out.Class = r.job.Class
	}
	if lag, armed := t.lags[e.Job]; armed {
		out.Lag = lag
	}
	return out
}

func (t *tx) removeRollups() (out store.Rolled) {
	if t.suspect.Suspends {
		return out
	}
	for k := range t.rollups {
		if k.Start < k.Width.Start(t.now.Add(-k.Width.Keep())).UnixMicro() {
			delete(t.rollups, k)
			out.Removed++
		}
	}
	return out
}

// Series implements store.Store.
func (s *Store) Series(ctx context.Context, q store.SeriesQuery) (store.Series, error) {
	if err := q.Check(); err != nil {
		return store.Series{}, fmt.Errorf("series: %w", err)
	}
	return call(ctx, s, "series", func(t *tx) (store.Series, error) {
		out := store.Series{Now: t.now, AsOf: t.now}
		if t.rolled < int64(len(t.log)) {
			out.AsOf = t.rolledAt
			if out.AsOf.IsZero() {
				out.AsOf = time.Unix(0, 0).UTC()
			}
		}
		conns := q.Connections
		if len(conns) == 0 {
			conns = []job.ID{{}}
		}
		sum := store.NewSeriesSum(q)
		for k, n := range t.rollups {
			if k.Project == q.Project && k.Width == q.Width && slices.Contains(conns, k.Connection) &&
				k.Start >= q.From.UnixMicro() && k.Start < q.Before.UnixMicro() {
				sum.Add(store.RollCount{RollKey: k, Count: n})
			}
		}
		out.Rows = sum.Rows()
		return out, nil
	})
}
