package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
)

// Stats implements store.Store.
func (s *Store) Stats(ctx context.Context, q store.StatsQuery) (store.Stats, error) {
	return read(ctx, s, "stats", func(ctx context.Context, v view) (store.Stats, error) {
		m := measure{view: v, project: q.Project, connection: optionalID(q.Connection), since: job.Micros(v.now.Add(-q.Window))}
		out := store.Stats{Now: v.now, Counts: make(map[job.State]int64)}
		for _, fill := range []func(context.Context, *store.Stats) error{m.counts, m.waits, m.starts} {
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
	connection pgtype.UUID
	since      time.Time
}

func (m measure) counts(ctx context.Context, out *store.Stats) error {
	alive, err := m.q.CountAlive(ctx, pgdb.CountAliveParams{Project: m.project, Connection: m.connection})
	if err != nil {
		return fmt.Errorf("jobs alive: %w", err)
	}
	for _, r := range alive {
		out.Counts[job.State(r.State)] = r.Jobs
	}
	ended, err := m.q.CountEnded(ctx, pgdb.CountEndedParams{Project: m.project, Since: &m.since, Connection: m.connection})
	if err != nil {
		return fmt.Errorf("ended jobs: %w", err)
	}
	for _, r := range ended {
		out.Counts[job.State(r.State)] = r.Jobs
	}
	return nil
}

func (m measure) waits(ctx context.Context, out *store.Stats) error {
	due, err := m.q.OldestDue(ctx, pgdb.OldestDueParams{Project: m.project, Connection: m.connection, Now: m.now})
	if err != nil {
		return fmt.Errorf("oldest due job: %w", err)
	}
	out.OldestDue = m.age(due)
	open, err := m.q.OldestUnresolved(ctx, pgdb.OldestUnresolvedParams{Project: m.project, Connection: m.connection})
	if err != nil {
		return fmt.Errorf("oldest unknown outcome: %w", err)
	}
	out.OldestUnresolved = m.age(open)
	return nil
}

// age returns how long ago a moment was; the epoch is no moment.
func (m measure) age(at time.Time) time.Duration {
	if at = sinceEpoch(at); at.IsZero() {
		return 0
	}
	return max(0, m.now.Sub(at))
}

func (m measure) starts(ctx context.Context, out *store.Stats) error {
	pages, err := m.q.Starts(ctx, pgdb.StartsParams{Project: m.project, Since: m.since})
	if err != nil {
		return fmt.Errorf("starts: %w", err)
	}
	var lags []time.Duration
	for _, body := range pages {
		starts, err := logpage.DecodeStarts(body)
		if err != nil {
			return fmt.Errorf("starts: %w", err)
		}
		for _, s := range starts {
			if !m.connection.Valid || s.Connection == toID(m.connection) {
				lags = append(lags, s.Lag)
			}
		}
	}
	slices.Sort(lags)
	out.Started, out.StartLagP50, out.StartLagP99 = int64(len(lags)), percentile(lags, 50), percentile(lags, 99)
	out.Recovered, err = m.q.CountRecovered(ctx, pgdb.CountRecoveredParams{
		Since: m.since, Project: m.project, Connection: m.connection,
	})
	return named("recovered jobs", err)
}

// percentile returns a percentile of sorted values by the nearest rank; 0: there are none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*p+99)/100-1]
}
