package store

import (
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

// VitalsSoon is how long before its end a credential counts as expiring.
const VitalsSoon = 7 * 24 * time.Hour

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
	// OldestQuestion is how long the oldest NEEDS_RESOLUTION job has waited unchanged.
	OldestQuestion time.Duration
	// Holds count the connections that are held now.
	Holds map[HeldBy]int64
	// OldestFiring is how long the schedule that waits longest for its next decision has been
	// due; zero: none waits.
	OldestFiring time.Duration
	// RefusedSchedules are those of which at least two decisions in a row were refused: see
	// Schedule.RefusedDecisions.
	RefusedSchedules int64
	// Schedules are those that go on and those that are paused; at most VitalsWaiting.
	Schedules int64
	// PausedSchedules count those that paused themselves, by the cause.
	PausedSchedules map[PauseCause]int64
	// Subscriptions are those that are not deleted, those for callbacks included; at most VitalsWaiting.
	// FailingSubscriptions are ACTIVE and have a notice whose jobs have failed; PausedSubscriptions
	// paused themselves for that.
	Subscriptions, FailingSubscriptions, PausedSubscriptions int64
	// OldestNotice is how long the subscription that waits longest for its next step has been due:
	// an event is to be reported, or it is time. Zero: none waits. A notice under way does not count.
	OldestNotice time.Duration
	// Connections count the connections that are not deleted, by connector; at most
	// VitalsWaiting of each.
	Connections map[string]int64
	// Expiring count, by connector, the credentials that end within VitalsSoon and that nothing
	// renews.
	Expiring map[string]int64
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
	// HoldBreaker: the circuit breaker of one of its destinations is open.
	HoldBreaker HoldCause = "breaker"
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
