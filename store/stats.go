package store

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Statistics counts and measures what jobs did.
type Statistics interface {
	// Stats counts and measures a project's jobs.
	Stats(ctx context.Context, q StatsQuery) (Stats, error)

	// Series reads counts. ErrIllegal for what SeriesQuery.Check refuses.
	Series(ctx context.Context, q SeriesQuery) (Series, error)
}

// StatsQuery selects what Stats counts.
type StatsQuery struct {
	Project string
	// Connection, when set, limits everything to its jobs.
	Connection job.ID
	// Window, back from now, bounds ends, starts and recoveries.
	Window time.Duration
}

// Stats is measured on the rows themselves; nothing in it is an estimate.
type Stats struct {
	Now time.Time
	// Counts are jobs by state: those alive, and those that ended in the window.
	Counts map[job.State]int64
	// OldestDue is how long the job that waits longest has been due, among those
	// that nothing holds; zero: none waits.
	OldestDue time.Duration
	// OldestUnresolved is how long the longest unknown outcome (AMBIGUOUS or
	// NEEDS_RESOLUTION) has been so: since its last attempt was armed, or since
	// the job last changed when it has none.
	OldestUnresolved time.Duration
	// Started counts first attempts that were armed in the window, as far as the log
	// reaches back. StartLagP50 and P99 are percentiles, by nearest rank, of their arm's time less schedule_time
	// as it was then.
	Started                  int64
	StartLagP50, StartLagP99 time.Duration
	// Recovered counts the jobs whose effect was confirmed in the window, by a
	// look or by a repeat under the same key: a retry that does not
	// look first, and has no key, may do such a job twice.
	Recovered int64
}
