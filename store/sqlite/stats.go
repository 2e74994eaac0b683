package sqlite

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/gen/litedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
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

// measure is one StatsQuery as the queries take it.
type measure struct {
	view
	project    string
	connection []byte
	one        int64
	since      int64
}

func (m measure) counts(ctx context.Context, out *store.Stats) error {
	moving, err := m.q.CountUnderWay(ctx, litedb.CountUnderWayParams{
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
			n, err = m.q.CountEnded(ctx, litedb.CountEndedParams{
				Project: m.project, State: int64(state), Since: someMicros(m.since), One: m.one, ConnectionID: m.connection,
			})
		default:
			n, err = m.q.CountListed(ctx, litedb.CountListedParams{
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
	due, err := m.q.OldestDue(ctx, litedb.OldestDueParams{
		Project: m.project, One: m.one, ConnectionID: m.connection, Now: m.now,
	})
	if err != nil {
		return err
	}
	out.OldestDue = m.age(due)
	open, err := m.q.OldestUnresolved(ctx, litedb.OldestUnresolvedParams{
		Project: m.project, One: m.one, ConnectionID: m.connection,
	})
	out.OldestUnresolved = m.age(open)
	return err
}

// age is how long ago a moment was; 0 is no moment.
func (m measure) age(at int64) time.Duration {
	if at == 0 {
		return 0
	}
	return fromDuration(max(0, m.now-at))
}

// starts takes percentiles by the nearest rank.
func (m measure) starts(ctx context.Context, out *store.Stats) error {
	var err error
	out.Started, err = m.q.CountStarts(ctx, litedb.CountStartsParams{
		Project: m.project, Since: m.since, One: m.one, ConnectionID: m.connection,
	})
	if err != nil || out.Started == 0 {
		return err
	}
	for _, p := range []struct {
		percent int64
		to      *time.Duration
	}{{50, &out.StartLagP50}, {99, &out.StartLagP99}} {
		lag, err := m.q.StartLag(ctx, litedb.StartLagParams{
			Project: m.project, Since: m.since, One: m.one, ConnectionID: m.connection,
			Skip: (out.Started*p.percent+99)/100 - 1,
		})
		if err != nil {
			return err
		}
		*p.to = fromDuration(lag)
	}
	return nil
}

func (m measure) recovered(ctx context.Context, out *store.Stats) error {
	var err error
	out.Recovered, err = m.q.CountRecovered(ctx, litedb.CountRecoveredParams{
		Since: m.since, Project: m.project, One: m.one, ConnectionID: m.connection,
	})
	return err
}
