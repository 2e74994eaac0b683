package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/logpage"
)

// Stats implements store.Store.
func (r *Roles) Stats(ctx context.Context, q store.StatsQuery) (store.Stats, error) {
	return read(ctx, r, "stats", func(ctx context.Context, v View) (store.Stats, error) {
		connection, since := column.OptionalID(q.Connection), job.Micros(v.Now.Add(-q.Window))
		out := store.Stats{Now: v.Now, Counts: make(map[job.State]int64, len(job.States))}
		for _, state := range job.States {
			out.Counts[state] = 0
		}
		if err := v.countAlive(ctx, q, &out); err != nil {
			return out, fmt.Errorf("jobs alive: %w", err)
		}
		ended, err := v.Q.CountEnded(ctx, shareddb.CountEndedParams{Project: q.Project, Since: since, Connection: connection})
		if err != nil {
			return out, fmt.Errorf("ended jobs: %w", err)
		}
		for _, r := range ended {
			out.Counts[r.State] = r.Jobs
		}
		due, err := v.Q.OldestDue(ctx, shareddb.OldestDueParams{Project: q.Project, Connection: connection, Now: v.Now})
		if err != nil {
			return out, fmt.Errorf("oldest due job: %w", err)
		}
		out.OldestDue = v.age(due)
		lags, err := v.startLags(ctx, q, since)
		if err != nil {
			return out, fmt.Errorf("starts: %w", err)
		}
		out.Started, out.StartLagP50, out.StartLagP99 = int64(len(lags)), percentile(lags, 50), percentile(lags, 99)
		out.Recovered, err = v.Q.CountRecovered(ctx, shareddb.CountRecoveredParams{Since: since, Project: q.Project, Connection: connection})
		return out, named("recovered jobs", err)
	})
}

// countAlive counts the jobs of each state that have not ended, by the index of lists.
func (v View) countAlive(ctx context.Context, q store.StatsQuery, out *store.Stats) error {
	var parts []string
	for _, state := range job.States {
		out.Counts[state] = 0
		if state.Terminal() {
			continue
		}
		since := "NULL::timestamptz"
		if state.Unresolved() {
			since = "min(coalesce(s.armed_at, s.updated_at))"
		}
		p := partOf(state)
		parts = append(parts, fmt.Sprintf(`SELECT %d::smallint, count(*), %s FROM %s
			WHERE s.project = $1::text AND ($2::uuid IS NULL OR s.connection_id = $2::uuid) AND %s`, state, since, p.table, p.cond))
	}
	rows, err := v.DB.Query(ctx, strings.Join(parts, " UNION ALL "), q.Project, column.OptionalID(q.Connection))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var state job.State
		var jobs int64
		var since time.Time
		if err := rows.Scan(&state, &jobs, &since); err != nil {
			return err
		}
		out.Counts[state] = jobs
		out.OldestUnresolved = max(out.OldestUnresolved, v.age(since))
	}
	return rows.Err()
}

// age returns how long ago a moment was; the zero time is no moment.
func (v View) age(at time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(0, v.Now.Sub(at))
}

// startLags returns how late the first attempts since a time were, in order. Times rise with
// positions, so only the first page may have starts from before.
func (v View) startLags(ctx context.Context, q store.StatsQuery, since time.Time) ([]time.Duration, error) {
	pages, err := v.Q.StartPages(ctx, shareddb.StartPagesParams{Project: q.Project, Since: since})
	if err != nil || len(pages) == 0 {
		return nil, err
	}
	var lags []time.Duration
	add := func(connection job.ID, lag time.Duration) {
		if q.Connection.IsZero() || connection == q.Connection {
			lags = append(lags, lag)
		}
	}
	first, err := v.Q.GetPage(ctx, pages[0].Position)
	if err != nil {
		return nil, err
	}
	entries, err := logpage.Decode(q.Project, first)
	if err != nil {
		return nil, fmt.Errorf("page %d of the log: %w", pages[0].Position, err)
	}
	for _, e := range entries {
		if e.Start && !e.At.Before(since) {
			add(e.Connection, e.Lag)
		}
	}
	for _, p := range pages[1:] {
		starts, err := logpage.DecodeStarts(p.Starts)
		if err != nil {
			return nil, fmt.Errorf("page %d of the log: %w", p.Position, err)
		}
		for _, s := range starts {
			add(s.Connection, s.Lag)
		}
	}
	slices.Sort(lags)
	return lags, nil
}

// percentile returns a percentile of sorted values by the nearest rank; 0: there are none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[(len(sorted)*p+99)/100-1]
}
