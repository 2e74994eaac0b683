package store

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: vitals are read every few seconds for as long as a server runs, so no
// count walks more than a bounded part of an index, however many jobs, projects and
// connections there are. A count that has reached its bound stops there.

// Bounds of Vitals: the jobs that are counted as waiting, those (and the holds) that every
// other number counts, and the runnable rows that are searched for due jobs.
const (
	VitalsWaiting = 100_000
	VitalsCounted = 10_000
	VitalsRows    = 1_000
)

// Vitals are an operator's measurements of a database, over all projects.
type Vitals struct {
	Now time.Time
	// Waiting are SCHEDULED and RETRYING jobs, due or not; at most VitalsWaiting.
	Waiting int64
	// Due are those of them that only a free sender keeps waiting: they are due, and no other
	// job, no hold and no limit of their connection holds them back. OldestDue is how long
	// the one that waits longest has been due; zero: none waits.
	Due       int64
	OldestDue time.Duration
	// InFlight are CLAIMED and SENDING jobs.
	InFlight int64
	// Accepted, Ambiguous and NeedsResolution are jobs in these states.
	Accepted, Ambiguous, NeedsResolution int64
	// OldestUnknown is Stats.OldestUnresolved over all projects.
	OldestUnknown time.Duration
	// Holds count the connections that are held now.
	Holds map[HeldBy]int64
	// OldestFiring is how long the schedule that waits longest for its next decision has been
	// due; zero: none waits.
	OldestFiring time.Duration
	// RefusedSchedules are those of which at least two decisions in a row were refused: see
	// Schedule.RefusedDecisions.
	RefusedSchedules int64
}

// HeldBy groups held connections.
type HeldBy struct {
	Connector string
	Cause     HoldCause
}

// HoldCause is why a connection is held.
type HoldCause string

// The causes. A connection may be held for several of them.
const (
	// HoldAuth: the platform refuses its credential.
	HoldAuth HoldCause = "auth"
	// HoldRateLimit: the platform has limited its rate, and the limit has not ended.
	HoldRateLimit HoldCause = "rate_limit"
	// HoldPaused: a person has paused it.
	HoldPaused HoldCause = "paused"
)

// Held is a connection that is held under one of its hold keys.
type Held struct {
	HeldBy
	Connection job.ID
}

// CountHolds counts connections by the causes of their holds, each once.
func CountHolds(held []Held) map[HeldBy]int64 {
	out, seen := make(map[HeldBy]int64), make(map[Held]bool, len(held))
	for _, h := range held {
		if !seen[h] {
			seen[h] = true
			out[h.HeldBy]++
		}
	}
	return out
}

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
