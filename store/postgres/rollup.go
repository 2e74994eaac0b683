package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
)

// Rules of this file:
//   - the log is read in a transaction without an id, so that no reader's horizon waits for
//     it. Another transaction writes the sums, if the position has not changed;
//   - one server rolls at a time: the one that wrote last, as long as its lease lasts. A
//     second one that tries writes nothing, because the position has moved.

// Roll implements store.Store.
func (s *Store) Roll(ctx context.Context, p store.RollParams) (store.Rolled, error) {
	next, err := read(ctx, s, "roll", func(ctx context.Context, v view) (*rollStep, error) { return v.roll(ctx, p) })
	if err != nil {
		return store.Rolled{}, err
	}
	if next.busy {
		return store.Rolled{Busy: true}, nil
	}
	if next.to == next.from && len(next.old) == 0 {
		return store.Rolled{}, nil
	}
	return write(ctx, s, "roll", func(ctx context.Context, t *tx) (store.Rolled, error) { return t.roll(ctx, p, next) })
}

// rollStep is the part of the log that one step counts, and what it removes.
type rollStep struct {
	busy     bool
	roll     *store.Roll
	from, to int64
	at       time.Time
	events   int
	more     bool
	old      []pgdb.RemoveRollupsParams
}

func (v view) roll(ctx context.Context, p store.RollParams) (*rollStep, error) {
	place, err := v.q.RollPlace(ctx)
	if err != nil {
		return nil, fmt.Errorf("place: %w", err)
	}
	r := &rollStep{roll: store.NewRoll(), from: place.Position, to: place.Position, at: place.At}
	if place.Owner.Valid && toID(place.Owner) != p.Owner && place.LeaseUntil.After(v.now) {
		r.busy = true
		return r, nil
	}
	if err := v.oldRollups(ctx, r); err != nil {
		return nil, err
	}
	if place.Last <= place.Position {
		return r, nil
	}
	events, counts := p.Bounds()
	for r.more = true; r.more && r.events < events && r.roll.Len() < counts; {
		asked := min(store.RollRead, events-r.events)
		log, err := v.log(ctx, "", r.to, asked)
		if err != nil {
			return nil, fmt.Errorf("events: %w", err)
		}
		rows, err := v.rollEvents(ctx, log.entries)
		if err != nil {
			return nil, err
		}
		past, err := v.past(ctx, rows)
		if err != nil {
			return nil, err
		}
		read := r.events + len(rows)
		for i, row := range rows {
			if r.roll.Len() >= counts {
				break
			}
			r.roll.Add(row, past[i])
			r.to, r.at, r.events = row.Position, row.At, r.events+1
		}
		r.more = r.events < read || log.to < log.end
	}
	return r, nil
}

// rollEvents adds the connectors of those events that can count.
func (v view) rollEvents(ctx context.Context, entries []logpage.Entry) ([]store.RollEvent, error) {
	var ids []job.ID
	for i := range entries {
		if e := &entries[i]; store.Moved(e.From, e.To) {
			ids = append(ids, e.Connection)
		}
	}
	rows, err := v.q.Connectors(ctx, fromIDs(distinct(ids)))
	if err != nil {
		return nil, fmt.Errorf("connectors: %w", err)
	}
	connectors := make(map[job.ID]string, len(rows))
	for _, r := range rows {
		connectors[toID(r.ID)] = r.Connector
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

// past reads the earlier events of the jobs of those events that need them.
func (v view) past(ctx context.Context, rows []store.RollEvent) (map[int][]store.PastEvent, error) {
	type asked struct {
		job    job.ID
		before int64
	}
	at := make(map[asked]int)
	params := pgdb.HistoriesParams{Most: store.MaxPast}
	for i, e := range rows {
		if e.AsksPast() {
			at[asked{e.Job, e.Sequence}] = i
			params.Ids, params.Befores = append(params.Ids, fromID(e.Job)), append(params.Befores, e.Sequence)
		}
	}
	if len(at) == 0 {
		return nil, nil
	}
	found, err := v.q.Histories(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("earlier events: %w", err)
	}
	past := make(map[int][]store.PastEvent)
	for _, f := range found {
		part, err := logpage.DecodeHistory(job.Event{Job: toID(f.ID)}, f.LastSequence, f.Body)
		if err != nil {
			return nil, fmt.Errorf("history of job %s: %w", toID(f.ID), err)
		}
		i := at[asked{toID(f.ID), f.Before}]
		for _, e := range part {
			if e.Sequence < f.Before && e.Sequence >= f.Before-store.MaxPast {
				past[i] = append(past[i], store.PastEvent{Job: e.Job, Sequence: e.Sequence, To: e.To, At: e.At})
			}
		}
	}
	return past, nil
}

// oldRollups finds the widths that have buckets to remove.
func (v view) oldRollups(ctx context.Context, r *rollStep) error {
	if v.suspect.Suspends {
		return nil
	}
	for _, w := range store.Widths {
		before := w.Start(v.now.Add(-w.Keep()))
		has, err := v.q.HasRollups(ctx, pgdb.HasRollupsParams{Width: int16(w), Before: before})
		if err != nil {
			return fmt.Errorf("old counts: %w", err)
		}
		if has {
			r.old = append(r.old, pgdb.RemoveRollupsParams{Width: int16(w), Before: before, MaxRows: store.RollRemoves})
		}
	}
	return nil
}

func (t *tx) roll(ctx context.Context, p store.RollParams, next *rollStep) (store.Rolled, error) {
	n, err := t.q.MoveRoll(ctx, pgdb.MoveRollParams{
		Position: next.to, At: next.at, Owner: fromID(p.Owner), LeaseUntil: soon(t.now, p.Lease), Was: next.from, Now: t.now,
	})
	if err != nil {
		return store.Rolled{}, fmt.Errorf("place: %w", err)
	}
	if n == 0 {
		return store.Rolled{Busy: true}, nil
	}
	out := store.Rolled{Events: next.events, More: next.more}
	if len(next.old) > 0 {
		n, err := t.q.RemoveRollups(ctx, next.old[0])
		if err != nil {
			return store.Rolled{}, fmt.Errorf("old counts: %w", err)
		}
		out.Removed, out.More = int(n), out.More || n == store.RollRemoves || len(next.old) > 1
	}
	var add pgdb.AddRollupsParams
	for _, c := range next.roll.Counts() {
		add.Projects, add.Connections = append(add.Projects, c.Project), append(add.Connections, fromID(c.Connection))
		add.Widths, add.Starts = append(add.Widths, int16(c.Width)), append(add.Starts, time.UnixMicro(c.Start))
		add.Connectors, add.Classes = append(add.Connectors, c.Connector), append(add.Classes, int16(c.Class))
		add.Measures, add.Bins = append(add.Measures, int16(c.Measure)), append(add.Bins, int16(c.Bin))
		add.Counts = append(add.Counts, c.Count)
	}
	if len(add.Counts) > 0 {
		if err := t.q.AddRollups(ctx, add); err != nil {
			return store.Rolled{}, fmt.Errorf("counts: %w", err)
		}
	}
	return out, nil
}

// Series implements store.Store.
func (s *Store) Series(ctx context.Context, q store.SeriesQuery) (store.Series, error) {
	if err := q.Check(); err != nil {
		return store.Series{}, fmt.Errorf("series: %w", err)
	}
	return read(ctx, s, "series", func(ctx context.Context, v view) (store.Series, error) {
		place, err := v.q.RollPlace(ctx)
		if err != nil {
			return store.Series{}, fmt.Errorf("place: %w", err)
		}
		out := store.Series{Now: v.now, AsOf: v.now}
		if place.Position < place.Newest {
			out.AsOf = place.At.UTC()
		}
		conns := fromIDs(q.Connections)
		if len(conns) == 0 {
			conns = []pgtype.UUID{fromID(job.ID{})}
		}
		rows, err := v.q.Rollups(ctx, pgdb.RollupsParams{
			Project: q.Project, Connections: conns, Width: int16(q.Width), Since: q.From, Before: q.Before,
		})
		if err != nil {
			return out, err
		}
		sum := store.NewSeriesSum(q)
		for _, row := range rows {
			sum.Add(store.RollCount{Count: row.Count, RollKey: store.RollKey{
				Project: q.Project, Connection: toID(row.ConnectionID), Width: q.Width, Start: row.StartAt.UnixMicro(),
				Connector: row.Connector, Class: job.Class(row.Class), Measure: store.Measure(row.Measure), Bin: int(row.Bin),
			}})
		}
		out.Rows = sum.Rows()
		return out, nil
	})
}
