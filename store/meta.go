package store

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Monitoring describes a database and measures it.
type Monitoring interface {
	// Meta describes the database.
	Meta(ctx context.Context) (Meta, error)

	// Vitals measures what an operator watches, within the bounds of VitalsWaiting,
	// VitalsCounted and VitalsRows.
	Vitals(ctx context.Context) (Vitals, error)
}

// Meta describes a database.
type Meta struct {
	// Now is the time that counts as the present in the store.
	Now time.Time
	// Steady is Now without the steps of the clock: what passes between two values is the time
	// that has passed, whatever the clock was set to meanwhile. Only differences count.
	Steady  time.Time
	StoreID job.ID
	// Engine is "sqlite" or "postgres".
	Engine  string
	Created time.Time
	// Quarantined is why claims are off; empty: they are on.
	Quarantined string
	// Stops counts the stops that may be in force now or later; 0: nothing is stopped.
	Stops int64
	// Incarnation rises, from 1, whenever the database is quarantined. Positions of an
	// earlier incarnation are invalid in this one.
	Incarnation int64
	// Namespace is the installation's part of every effect key (see job.EffectKey).
	Namespace string
	// Identity is what was compared at the start, in a form for people.
	Identity string
	// EventLag is how far the readable end of the log is behind the clock: the age of the
	// oldest transaction that may still write events. Zero where there is only one writer.
	EventLag time.Duration
	// Clock is this process's suspicion of the clock.
	Clock SuspectClock
}
