package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/gen/litedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the log is read beside the writer, and only what was added up is
// written by it. There is one process, so nobody else rolls; the write compares the place
// all the same.

// Roll implements store.Store.
func (s *Store) Roll(ctx context.Context, p store.RollParams) (store.Rolled, error) {
	next, err := read(ctx, s, "roll", func(ctx context.Context, v view) (*rolling, error) { return v.roll(ctx, p) })
	if err != nil {
		return store.Rolled{}, err
	}
	if next.to == next.from && len(next.old) == 0 {
		return store.Rolled{}, nil
	}
	return write(ctx, s, "roll", func(ctx context.Context, t *tx) (store.Rolled, error) {
		out := store.Rolled{Events: next.events, More: next.more}
		if len(next.old) > 0 {
			n, err := t.q.RemoveRollups(ctx, next.old[0])
			if err != nil {
				return store.Rolled{}, fmt.Errorf("old counts: %w", err)
			}
			out.Removed, out.More = int(n), out.More || n == store.RollRemoves || len(next.old) > 1
		}
		if next.to == next.from {
			return out, nil
		}
		n, err := t.q.MoveRoll(ctx, litedb.MoveRollParams{Position: next.to, At: next.roll.Last().UnixMicro(), Was: next.from})
		if err != nil {
			return store.Rolled{}, err
		}
		if n == 0 {
			return store.Rolled{}, fmt.Errorf("%w: the roll was moved meanwhile", store.ErrStale)
		}
		for _, c := range next.roll.Counts() {
			if err := t.q.AddRollup(ctx, addRollup(c)); err != nil {
				return store.Rolled{}, fmt.Errorf("counts: %w", err)
			}
		}
		return out, nil
	})
}

// rolling is the part of the log that one step counts, and what it removes.
type rolling struct {
	roll     *store.Roll
	from, to int64
	events   int
	more     bool
	old      []litedb.RemoveRollupsParams
}

func (v view) roll(ctx context.Context, p store.RollParams) (*rolling, error) {
	place, err := v.q.RollPlace(ctx)
	if err != nil {
		return nil, err
	}
	r := &rolling{roll: store.NewRoll(), from: place.Position, to: place.Position}
	if err := v.oldRollups(ctx, r); err != nil {
		return nil, err
	}
	events, counts := p.Bounds()
	for r.more = true; r.more && r.events < events && r.roll.Len() < counts; {
		asked := min(store.RollRead, events-r.events)
		rows, err := v.q.RollEvents(ctx, litedb.RollEventsParams{After: r.to, MaxRows: int64(asked)})
		if err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
		read := r.events + len(rows)
		if err := v.add(ctx, r, rows, counts); err != nil {
			return nil, err
		}
		r.more = r.events < read || len(rows) == asked
	}
	return r, nil
}

// add counts the next events, as far as the step goes.
func (v view) add(ctx context.Context, r *rolling, rows []litedb.RollEventsRow, counts int) (err error) {
	for _, row := range rows {
		if r.roll.Len() >= counts {
			return nil
		}
		e := toRollEvent(row)
		var past []store.PastEvent
		if e.AsksPast() {
			if past, err = v.past(ctx, e); err != nil {
				return err
			}
		}
		r.roll.Add(e, past)
		r.to, r.events = row.Position, r.events+1
	}
	return nil
}

// past reads the earlier events of a job, in their order.
func (v view) past(ctx context.Context, e store.RollEvent) ([]store.PastEvent, error) {
	rows, err := v.q.RollPast(ctx, litedb.RollPastParams{JobID: fromID(e.Job), Before: e.Sequence, MaxRows: store.MaxPast})
	if err != nil {
		return nil, fmt.Errorf("earlier events: %w", err)
	}
	var past []store.PastEvent
	for _, row := range slices.Backward(rows) {
		past = append(past, store.PastEvent{
			Job: e.Job, Sequence: row.Sequence, To: job.State(row.ToState), At: fromMicros(row.At),
		})
	}
	return past, nil
}

// oldRollups finds the widths that have buckets to remove. None are removed while the
// clock is doubted.
func (v view) oldRollups(ctx context.Context, r *rolling) error {
	if v.doubt.Stands {
		return nil
	}
	for _, w := range store.Widths {
		before := w.Start(fromMicros(v.now).Add(-w.Keep())).UnixMicro()
		n, err := v.q.HasRollups(ctx, litedb.HasRollupsParams{Width: int64(w), Before: before})
		if err != nil {
			return fmt.Errorf("old counts: %w", err)
		}
		if n == 1 {
			r.old = append(r.old, litedb.RemoveRollupsParams{Width: int64(w), Before: before, MaxRows: store.RollRemoves})
		}
	}
	return nil
}

// Series implements store.Store.
func (s *Store) Series(ctx context.Context, q store.SeriesQuery) (store.Series, error) {
	if err := q.Check(); err != nil {
		return store.Series{}, fmt.Errorf("series: %w", err)
	}
	return read(ctx, s, "series", func(ctx context.Context, v view) (store.Series, error) {
		out := store.Series{Now: fromMicros(v.now)}
		var err error
		if out.AsOf, err = v.rolledTo(ctx); err != nil {
			return out, err
		}
		conns := slices.Clone(q.Connections)
		if len(conns) == 0 {
			conns = []job.ID{{}}
		}
		sum := store.NewSeriesSum(q)
		for _, conn := range conns {
			rows, err := v.q.Rollups(ctx, litedb.RollupsParams{
				Project: q.Project, ConnectionID: fromID(conn), Width: int64(q.Width),
				Since: q.From.UnixMicro(), Before: q.Before.UnixMicro(),
			})
			if err != nil {
				return out, err
			}
			for _, row := range rows {
				sum.Add(store.RollCount{Count: row.Count, RollKey: store.RollKey{
					Project: q.Project, Connection: conn, Width: q.Width, Start: row.StartAt, Connector: row.Connector,
					Class: job.Class(row.Class), Measure: store.Measure(row.Measure), Bin: int(row.Bin),
				}})
			}
		}
		out.Rows = sum.Rows()
		return out, nil
	})
}

// rolledTo is the time up to which events are counted.
func (v view) rolledTo(ctx context.Context) (time.Time, error) {
	place, err := v.q.RollPlace(ctx)
	if err != nil {
		return time.Time{}, err
	}
	last, err := v.q.LastPosition(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if place.Position >= last {
		return fromMicros(v.now), nil
	}
	return fromMicros(place.At), nil
}

func addRollup(c store.RollCount) litedb.AddRollupParams {
	return litedb.AddRollupParams{
		Project: c.Project, ConnectionID: fromID(c.Connection), Width: int64(c.Width), StartAt: c.Start, Connector: c.Connector,
		Class: int64(c.Class), Measure: int64(c.Measure), Bin: int64(c.Bin), Count: c.Count,
	}
}

func toRollEvent(r litedb.RollEventsRow) store.RollEvent {
	return store.RollEvent{
		Event: job.Event{
			Position: r.Position, Project: r.Project, Job: toID(r.JobID), Connection: toID(r.ConnectionID), Sequence: r.Sequence,
			From: job.State(r.FromState), To: job.State(r.ToState), Cause: job.Cause(r.Cause), Attempt: int(r.Attempt),
			At: fromMicros(r.At),
		},
		Connector: r.Connector, Class: job.Class(r.Class), Lag: fromDuration(r.StartLag),
	}
}
