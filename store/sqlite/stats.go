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

// Stats implements store.Store.
func (s *Store) Stats(ctx context.Context, q store.StatsQuery) (store.Stats, error) {
	return read(ctx, s, "stats", func(ctx context.Context, v view) (store.Stats, error) {
		m := measure{
			view: v, project: q.Project, connection: fromID(q.Connection),
			one: toBool(!q.Connection.IsZero()), since: v.now - micros(q.Window),
		}
		out := store.Stats{Now: fromMicros(v.now), Counts: make(map[job.State]int64)}
		for _, fill := range []func(context.Context, *store.Stats) error{m.counts, m.waits, m.starts, m.recovered} {
			if err := fill(ctx, &out); err != nil {
				return store.Stats{}, err
			}
		}
		return out, nil
	})
}

// measure is one StatsQuery in the form that the queries take.
type measure struct {
	view
	project    string
	connection []byte
	one        int64
	since      int64
}

func (m measure) counts(ctx context.Context, out *store.Stats) error {
	moving, err := m.q.CountUnderWay(ctx, sqlitedb.CountUnderWayParams{
		Project: m.project, One: m.one, ConnectionID: m.connection,
	})
	if err != nil {
		return err
	}
	for _, state := range job.States {
		var n int64
		var err error
		switch {
		case state.InFlight():
		case state.Terminal():
			n, err = m.q.CountEnded(ctx, sqlitedb.CountEndedParams{
				Project: m.project, State: int64(state), Since: someMicros(m.since), One: m.one, ConnectionID: m.connection,
			})
		default:
			n, err = m.q.CountListed(ctx, sqlitedb.CountListedParams{
				Project: m.project, Listed: int64(state), One: m.one, ConnectionID: m.connection,
			})
		}
		if err != nil {
			return err
		}
		out.Counts[state] = n
	}
	for _, g := range moving {
		out.Counts[job.State(g.State)] += g.Jobs
		out.Counts[job.State(g.Listed)] -= g.Jobs
	}
	return nil
}

func (m measure) waits(ctx context.Context, out *store.Stats) error {
	due, err := m.q.OldestDue(ctx, sqlitedb.OldestDueParams{
		Project: m.project, One: m.one, ConnectionID: m.connection, Now: m.now,
	})
	if err != nil {
		return err
	}
	out.OldestDue = m.age(due)
	open, err := m.q.OldestUnresolved(ctx, sqlitedb.OldestUnresolvedParams{
		Project: m.project, One: m.one, ConnectionID: m.connection,
	})
	out.OldestUnresolved = m.age(open)
	return err
}

// age returns how long ago a moment was; 0 is no moment.
func (m measure) age(at int64) time.Duration {
	if at == 0 {
		return 0
	}
	return fromDuration(max(0, m.now-at))
}

// starts computes percentiles by the nearest rank. Times rise with positions, so only the
// first page may have starts from before the window.
func (m measure) starts(ctx context.Context, out *store.Stats) error {
	first, err := m.q.FirstStartPage(ctx, sqlitedb.FirstStartPageParams{Project: m.project, Since: m.since})
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	pages, err := m.q.StartPages(ctx, sqlitedb.StartPagesParams{Project: m.project, Since: m.since})
	if err != nil {
		return err
	}
	var lags []time.Duration
	add := func(connection job.ID, lag time.Duration) {
		if m.one == 0 || connection == toID(m.connection) {
			lags = append(lags, lag)
		}
	}
	entries, err := logpage.Decode(m.project, first.Body)
	if err != nil {
		return fmt.Errorf("page %d of the log: %w", first.Position, err)
	}
	for _, e := range entries {
		if e.Start && e.At.UnixMicro() >= m.since {
			add(e.Connection, e.Lag)
		}
	}
	for _, p := range pages[1:] {
		starts, err := logpage.DecodeStarts(p)
		if err != nil {
			return fmt.Errorf("starts of a page of the log: %w", err)
		}
		for _, s := range starts {
			add(s.Connection, s.Lag)
		}
	}
	slices.Sort(lags)
	if out.Started = int64(len(lags)); len(lags) > 0 {
		rank := func(percent int) time.Duration { return lags[(len(lags)*percent+99)/100-1] }
		out.StartLagP50, out.StartLagP99 = rank(50), rank(99)
	}
	return nil
}

func (m measure) recovered(ctx context.Context, out *store.Stats) error {
	var err error
	out.Recovered, err = m.q.CountRecovered(ctx, sqlitedb.CountRecoveredParams{
		Since: m.since, Project: m.project, One: m.one, ConnectionID: m.connection,
	})
	return err
}
