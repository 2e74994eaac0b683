package store

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Statistics counts and measures jobs.
type Statistics interface {
	// Stats counts and measures a project's jobs.
	Stats(ctx context.Context, q StatsQuery) (Stats, error)

	// Series reads counts. ErrIllegal for what SeriesQuery.Check refuses.
	Series(ctx context.Context, q SeriesQuery) (Series, error)
}

// StatsQuery selects the jobs and the period of Stats.
type StatsQuery struct {
	Project string
	// Connection, when set, limits everything to its jobs.
	Connection job.ID
	// Window, counted back from now, bounds ends, starts and recoveries.
	Window time.Duration
}

// Stats is measured on the rows themselves; nothing in it is an estimate.
type Stats struct {
	Now time.Time
	// Counts are jobs by state: those that have not ended, and those that ended in the
	// window.
	Counts map[job.State]int64
	// OldestDue is how long the job that waits longest has been due, among jobs that no hold
	// stops; zero: none waits.
	OldestDue time.Duration
	// OldestUnresolved is how long the oldest unknown outcome (AMBIGUOUS or NEEDS_RESOLUTION)
	// has been unknown: since the job's last attempt was armed, or, without an attempt, since
	// the job last changed.
	OldestUnresolved time.Duration
	// Started counts first attempts that were armed in the window, as far as the log reaches
	// back. StartLagP50 and StartLagP99 are percentiles, by nearest rank, of the arm's time
	// minus the job's schedule_time at that moment.
	Started                  int64
	StartLagP50, StartLagP99 time.Duration
	// Recovered counts the jobs whose effect was confirmed in the window by a look or by a
	// repeat under the same key. A retry without a look and without a key may perform such a
	// job twice.
	Recovered int64
}
