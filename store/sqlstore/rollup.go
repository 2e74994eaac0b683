package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
)

// Rules of this file: the log is read in a call that only reads. On PostgreSQL it has no
// transaction id, for which readers of the log would wait. Another transaction writes the
// sums, if the position has not changed.

// Roll implements store.Store.
func (r *Roles) Roll(ctx context.Context, p store.RollParams) (store.Rolled, error) {
	next, err := read(ctx, r, "roll", func(ctx context.Context, v View) (*rollStep, error) { return v.roll(ctx, p) })
	if err != nil {
		return store.Rolled{}, err
	}
	if next.to == next.from && len(next.old) == 0 {
		return next.out, nil
	}
	return write(ctx, r, "roll", func(ctx context.Context, t Tx) (store.Rolled, error) { return t.roll(ctx, p, next) })
}

// rollStep is the part of the log that one step counts, and what it removes.
type rollStep struct {
	out      store.Rolled
	roll     *store.Roll
	from, to int64
	at       time.Time
	old      []shareddb.RemoveRollupsParams
}

func (v View) roll(ctx context.Context, p store.RollParams) (*rollStep, error) {
	place, err := v.Q.RollPlace(ctx)
	if err != nil {
		return nil, fmt.Errorf("place: %w", err)
	}
	r := &rollStep{roll: store.NewRoll(), from: place.Position, to: place.Position, at: place.At}
	if r.out.Busy, err = v.OtherRolls(ctx, p.Owner); err != nil || r.out.Busy {
		return r, named("place", err)
	}
	if err := v.oldRollups(ctx, r); err != nil {
		return nil, err
	}
	events, counts := p.Bounds()
	for r.out.More = true; r.out.More && r.out.Events < events && r.roll.Len() < counts; {
		entries, log, err := v.Log(ctx, "", r.to, min(store.RollRead, events-r.out.Events))
		if err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
		rows, err := v.rollEvents(ctx, entries)
		if err != nil {
			return nil, err
		}
		past, err := v.past(ctx, rows)
		if err != nil {
			return nil, err
		}
		read := r.out.Events + len(rows)
		for i, row := range rows {
			if r.roll.Len() >= counts {
				break
			}
			r.roll.Add(row, past[i])
			r.to, r.at = row.Position, row.At
			r.out.Events++
		}
		r.out.More = r.out.Events < read || log.More
	}
	return r, nil
}

// rollEvents adds the connectors of those events that can count.
func (v View) rollEvents(ctx context.Context, entries []logpage.Entry) ([]store.RollEvent, error) {
	connectors := make(map[job.ID]string)
	var ids []job.ID
	for i := range entries {
		e := &entries[i]
		if _, known := connectors[e.Connection]; !known && store.Moved(e.From, e.To) {
			connectors[e.Connection], ids = "", append(ids, e.Connection)
		}
	}
	rows, err := v.Q.Connectors(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("connectors: %w", err)
	}
	for _, r := range rows {
		connectors[r.ID] = r.Connector
	}
	out := make([]store.RollEvent, len(entries))
	for i, e := range entries {
		out[i] = store.RollEvent{Event: e.Event, Connector: connectors[e.Connection], Class: e.Class, Lag: -1}
		if e.Start {
			out[i].Lag = e.Lag
		}
	}
	return out, nil
}

// past reads the earlier events of the jobs of those events that need them. A removed job has
// none.
func (v View) past(ctx context.Context, rows []store.RollEvent) (map[int][]store.PastEvent, error) {
	var asking []int
	var params []shareddb.PastParams
	for i := range rows {
		if e := &rows[i]; e.AsksPast() {
			asking = append(asking, i)
			params = append(params, shareddb.PastParams{JobID: e.Job, Least: e.Sequence - store.MaxPast, Enough: e.Sequence - 1})
		}
	}
	past := make(map[int][]store.PastEvent)
	add := func(i int, parts []shareddb.PastRow) error {
		of := &rows[i]
		for _, part := range parts {
			events, err := logpage.DecodeHistory(job.Event{Job: of.Job}, part.LastSequence, part.Body)
			if err != nil {
				return fmt.Errorf("history of job %s: %w", of.Job, err)
			}
			for _, e := range events {
				if e.Sequence < of.Sequence && e.Sequence >= of.Sequence-store.MaxPast {
					past[i] = append(past[i], store.PastEvent{Job: e.Job, Sequence: e.Sequence, To: e.To, At: e.At})
				}
			}
		}
		return nil
	}
	err := inBatch(func(each func(int, error)) {
		v.Q.Past(ctx, params).Query(func(n int, parts []shareddb.PastRow, err error) {
			if err == nil {
				err = add(asking[n], parts)
			}
			each(n, err)
		})
	})
	return past, named("earlier events", err)
}

// oldRollups finds the widths that have buckets to remove. None are removed while the clock
// is suspect.
func (v View) oldRollups(ctx context.Context, r *rollStep) error {
	if v.Suspect.Suspends {
		return nil
	}
	for _, w := range store.Widths {
		before := w.Start(v.Now.Add(-w.Keep()))
		has, err := v.Q.HasRollups(ctx, shareddb.HasRollupsParams{Width: w, Before: before})
		if err != nil {
			return fmt.Errorf("old counts: %w", err)
		}
		if has {
			r.old = append(r.old, shareddb.RemoveRollupsParams{Width: w, Before: before, MaxRows: store.RollRemoves})
		}
	}
	return nil
}

func (t Tx) roll(ctx context.Context, p store.RollParams, next *rollStep) (store.Rolled, error) {
	moved, err := t.MoveRoll(ctx, p, next.from, next.to, next.at)
	if err != nil {
		return store.Rolled{}, fmt.Errorf("place: %w", err)
	}
	if !moved {
		return store.Rolled{Busy: true}, nil
	}
	out := next.out
	if len(next.old) > 0 {
		n, err := t.Q.RemoveRollups(ctx, next.old[0])
		if err != nil {
			return store.Rolled{}, fmt.Errorf("old counts: %w", err)
		}
		out.Removed, out.More = int(n), out.More || n == store.RollRemoves || len(next.old) > 1
	}
	var add []shareddb.AddRollupParams
	for _, c := range next.roll.Counts() {
		add = append(add, shareddb.AddRollupParams{
			Project: c.Project, ConnectionID: c.Connection, Width: c.Width, StartAt: time.UnixMicro(c.Start),
			Connector: c.Connector, Class: c.Class, Measure: c.Measure, Bin: c.Bin, Count: c.Count,
		})
	}
	return out, named("counts", inBatch(t.Q.AddRollup(ctx, add).Exec))
}

// Series implements store.Store.
func (r *Roles) Series(ctx context.Context, q store.SeriesQuery) (store.Series, error) {
	if err := q.Check(); err != nil {
		return store.Series{}, fmt.Errorf("series: %w", err)
	}
	return read(ctx, r, "series", func(ctx context.Context, v View) (store.Series, error) {
		place, err := v.Q.RollPlace(ctx)
		if err != nil {
			return store.Series{}, fmt.Errorf("place: %w", err)
		}
		out := store.Series{Now: v.Now, AsOf: v.Now}
		if place.Position < place.Newest {
			out.AsOf = place.At
		}
		conns := q.Connections
		if len(conns) == 0 {
			conns = []job.ID{{}}
		}
		since := q.From
		if since.IsZero() {
			since = time.Unix(0, 0) // the zero time is NULL, and no row is later
		}
		rows, err := v.Q.Rollups(ctx, shareddb.RollupsParams{
			Project: q.Project, Connections: conns, Width: q.Width, Since: since, Before: q.Before,
		})
		if err != nil {
			return out, err
		}
		sum := store.NewSeriesSum(q)
		for _, row := range rows {
			sum.Add(store.RollCount{Count: row.Count, RollKey: store.RollKey{
				Project: row.Project, Connection: row.ConnectionID, Width: row.Width, Start: row.StartAt.UnixMicro(),
				Connector: row.Connector, Class: row.Class, Measure: row.Measure, Bin: row.Bin,
			}})
		}
		out.Rows = sum.Rows()
		return out, nil
	})
}
