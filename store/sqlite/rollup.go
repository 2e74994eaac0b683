package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
)

// Rules of this file: the log is read without the writer, which only writes the sums. There
// is one process, so no other one rolls; the write compares the position all the same.

// Roll implements store.Store.
func (s *Store) Roll(ctx context.Context, p store.RollParams) (store.Rolled, error) {
	next, err := read(ctx, s, "roll", func(ctx context.Context, v view) (*rollStep, error) { return v.roll(ctx, p) })
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
		n, err := t.q.MoveRoll(ctx, sqlitedb.MoveRollParams{Position: next.to, At: next.roll.Last().UnixMicro(), Was: next.from})
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

// rollStep is the part of the log that one step counts, and what it removes.
type rollStep struct {
	roll     *store.Roll
	from, to int64
	events   int
	more     bool
	old      []sqlitedb.RemoveRollupsParams
	// connectors has the connectors of the connections that occurred.
	connectors map[job.ID]string
}

func (v view) roll(ctx context.Context, p store.RollParams) (*rollStep, error) {
	place, err := v.q.RollPlace(ctx)
	if err != nil {
		return nil, err
	}
	r := &rollStep{roll: store.NewRoll(), from: place.Position, to: place.Position, connectors: make(map[job.ID]string)}
	if err := v.oldRollups(ctx, r); err != nil {
		return nil, err
	}
	events, counts := p.Bounds()
	m, err := v.q.GetMeta(ctx)
	if err != nil {
		return nil, err
	}
	// Events that the log no longer returns are not counted.
	r.to = max(r.to, m.EventsFrom)
	for r.more = true; r.more && r.events < events && r.roll.Len() < counts; {
		asked := min(store.RollRead, events-r.events)
		entries, more, err := v.allEntries(ctx, r.to, asked)
		if err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
		if len(entries) > asked {
			entries, more = entries[:asked], true
		}
		read := r.events + len(entries)
		if err := v.add(ctx, r, entries, counts); err != nil {
			return nil, err
		}
		r.more = r.events < read || more
	}
	return r, nil
}

// add counts the next events, up to the bounds of the step.
func (v view) add(ctx context.Context, r *rollStep, entries []logpage.Entry, counts int) error {
	for _, entry := range entries {
		if r.roll.Len() >= counts {
			return nil
		}
		e := store.RollEvent{Event: entry.Event, Class: entry.Class, Lag: -1}
		if entry.Start {
			e.Lag = entry.Lag
		}
		if store.Moved(e.From, e.To) {
			connector, err := r.connector(ctx, v, e.Connection)
			if err != nil {
				return err
			}
			e.Connector = connector
		}
		var past []store.PastEvent
		if e.AsksPast() {
			var err error
			if past, err = v.past(ctx, e); err != nil {
				return err
			}
		}
		r.roll.Add(e, past)
		r.to, r.events = e.Position, r.events+1
	}
	return nil
}

// connector returns the connector of a connection, empty if it is gone.
func (r *rollStep) connector(ctx context.Context, v view, id job.ID) (string, error) {
	if name, ok := r.connectors[id]; ok {
		return name, nil
	}
	c, err := v.q.GetConnection(ctx, fromID(id))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", fmt.Errorf("connection: %w", err)
	}
	r.connectors[id] = c.Connector
	return c.Connector, nil
}

// oldRollups finds the widths that have buckets to remove. None are removed while the clock
// is suspect.
func (v view) oldRollups(ctx context.Context, r *rollStep) error {
	if v.suspect.Suspends {
		return nil
	}
	for _, w := range store.Widths {
		before := w.Start(fromMicros(v.now).Add(-w.Keep())).UnixMicro()
		n, err := v.q.HasRollups(ctx, sqlitedb.HasRollupsParams{Width: int64(w), Before: before})
		if err != nil {
			return fmt.Errorf("old counts: %w", err)
		}
		if n == 1 {
			r.old = append(r.old, sqlitedb.RemoveRollupsParams{Width: int64(w), Before: before, MaxRows: store.RollRemoves})
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
			rows, err := v.q.Rollups(ctx, sqlitedb.RollupsParams{
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

// rolledTo returns the time up to which events are counted.
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

func addRollup(c store.RollCount) sqlitedb.AddRollupParams {
	return sqlitedb.AddRollupParams{
		Project: c.Project, ConnectionID: fromID(c.Connection), Width: int64(c.Width), StartAt: c.Start,
		Connector: c.Connector, Class: int64(c.Class), Measure: int64(c.Measure), Bin: int64(c.Bin), Count: c.Count,
	}
}
