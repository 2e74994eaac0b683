package memory

import (
	"context"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Stats implements store.Store.
func (s *Store) Stats(ctx context.Context, q store.StatsQuery) (store.Stats, error) {
	return call(ctx, s, "stats", func(t *tx) (store.Stats, error) {
		m := measure{tx: t, since: t.now.Add(-q.Window), out: store.Stats{Now: t.now, Counts: make(map[job.State]int64)}}
		for _, state := range job.States {
			m.out.Counts[state] = 0
		}
		for _, r := range t.all {
			one := q.Connection.IsZero() || r.job.Connection == q.Connection
			if r.job.Project == q.Project && one {
				m.add(r)
			}
		}
		m.starts(q)
		slices.Sort(m.late)
		m.out.Started = int64(len(m.late))
		m.out.StartLagP50, m.out.StartLagP99 = rank(m.late, 50), rank(m.late, 99)
		return m.out, nil
	})
}

// measure is one StatsQuery in progress.
type measure struct {
	*tx
	since time.Time
	late  []time.Duration
	out   store.Stats
}

func (m *measure) add(r *record) {
	j := &r.job
	if !j.State.Terminal() || !j.Ended.Before(m.since) {
		m.out.Counts[j.State]++
	}
	if j.State.Runnable() && j.WaitsFor.IsZero() && !m.held(runnableKey{j.Connection, j.HoldKey}) {
		m.out.OldestDue = max(m.out.OldestDue, m.now.Sub(j.NextAt))
	}
	m.out.OldestUnresolved = max(m.out.OldestUnresolved, m.unknownFor(r))
	if e := r.effect; e != nil && (e.Proof == job.ProofObserved || e.Proof == job.ProofKeyReplay) && !e.At.Before(m.since) {
		m.out.Recovered++
	}
}

// starts adds the first attempts that are in the log.
func (m *measure) starts(q store.StatsQuery) {
	for _, e := range m.log[m.logFrom:] {
		one := e.Project == q.Project && (q.Connection.IsZero() || e.Connection == q.Connection)
		if one && e.Cause == job.CauseArmed && e.Attempt == 1 && !e.At.Before(m.since) {
			m.late = append(m.late, m.lags[e.Job])
		}
	}
}

// unknownFor returns how long the outcome of a job has been unknown; zero: it is known.
func (t *tx) unknownFor(r *record) time.Duration {
	switch n := len(r.attempts); {
	case r.job.State != job.Ambiguous && r.job.State != job.NeedsResolution:
		return 0
	case n > 0:
		return t.now.Sub(r.attempts[n-1].ArmedAt)
	default:
		return t.now.Sub(r.job.Updated)
	}
}

// rank returns a percentile by the nearest rank.
func rank(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*percent+99)/100-1]
}
