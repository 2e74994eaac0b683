// Package retention removes jobs and events that are no longer kept. It is a slow loop
// beside the engine, in short steps of the store with pauses between them.
//
// Every server runs it. The store allows one of them to clean at a time, and the others
// try again later.
package retention

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/store"
)

// Config configures what is kept, and identifies the server that removes the rest.
type Config struct {
	Store store.Retention
	Keep  store.Keep
	// Owner identifies this server.
	Owner job.ID
	Log   *slog.Logger
}

const (
	// every is the time between the beginnings of two passes.
	every = time.Minute
	// lease is how long no other server cleans after the cleaning one has died.
	lease = 3 * every
	// batch bounds the jobs of a step.
	batch = store.MaxBatch
	// After a step the loop pauses for rest times the step's duration, so that it uses at
	// most a quarter of a store that jobs need too. The pause is at least leastPause, so
	// that work that has queued behind a short step runs first.
	rest       = 3
	leastPause = 5 * time.Millisecond
	// stepTimeout bounds one call to the store.
	stepTimeout = 30 * time.Second
)

// Run removes jobs and events that are no longer kept, until ctx ends. If both are kept
// forever, it still removes the keys and objects of jobs that were erased.
func Run(ctx context.Context, c Config) {
	for sleep.For(ctx, every) {
		c.pass(ctx)
	}
}

// pass cleans the whole database once.
func (c Config) pass(ctx context.Context) {
	p := store.RetainParams{Keep: c.Keep, Owner: c.Owner, Lease: lease, Limit: batch}
	var sum store.Retained
	begun, worked := time.Now(), time.Duration(0)
	for {
		step := time.Now()
		r, err := c.step(ctx, p)
		took := time.Since(step)
		worked += took
		sum.Jobs, sum.Events = sum.Jobs+r.Jobs, sum.Events+r.Events
		sum.Keys, sum.Objects, sum.Firings = sum.Keys+r.Keys, sum.Objects+r.Objects, sum.Firings+r.Firings
		if err != nil || r.Busy || r.Done {
			c.log(ctx, sum, err, time.Since(begun), worked)
			return
		}
		p.After = r.Next
		if !sleep.For(ctx, max(leastPause, rest*took)) {
			return
		}
	}
}

func (c Config) step(ctx context.Context, p store.RetainParams) (store.Retained, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return c.Store.Retain(ctx, p)
}

// log logs how a pass ended. Under a quarantine and while the clock is suspect, a pass
// removes nothing, and the store has logged why.
func (c Config) log(ctx context.Context, sum store.Retained, err error, took, worked time.Duration) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrQuarantined) && !errors.Is(err, store.ErrClockSuspect) {
		c.Log.Error("jobs and events that are no longer kept could not be removed; trying again", "err", err)
	}
	if sum == (store.Retained{}) || sum == (store.Retained{Done: true}) {
		return
	}
	c.Log.Info("removed jobs and events that are no longer kept", "jobs", sum.Jobs, "events", sum.Events, "keys", sum.Keys,
		"objects", sum.Objects, "firings", sum.Firings,
		"took", took.Round(time.Millisecond).String(), "worked", worked.Round(time.Millisecond).String())
}
