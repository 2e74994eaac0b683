// Package retention removes what is no longer kept: a slow loop beside the engine,
// in short steps of the store with pauses between them.
//
// Every server runs it, and the store lets one of them clean at a time; the others
// ask again later.
package retention

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Config says what is kept, and who removes the rest.
type Config struct {
	Store store.Retention
	Keep  store.Keep
	// Owner tells this server from others.
	Owner job.ID
	Log   *slog.Logger
}

const (
	// every is how often a pass begins.
	every = time.Minute
	// lease is for how long nobody else cleans when a server has died.
	lease = 3 * every
	// batch bounds the jobs of a step.
	batch = store.MaxBatch
	// A step is followed by a pause of rest times what it took: of a store that is
	// shared with the work no more than a quarter is used. leastPause lets what has
	// queued behind a short step go first.
	rest       = 3
	leastPause = 5 * time.Millisecond
	// stepTimeout bounds one call to the store.
	stepTimeout = 30 * time.Second
)

// Run removes what is no longer kept, until ctx ends. Where jobs and events are kept for
// ever, it still forgets the keys and objects of jobs that were erased.
func Run(ctx context.Context, c Config) {
	for sleep(ctx, every) {
		c.pass(ctx)
	}
}

// pass goes once over the database.
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
			c.tell(ctx, sum, err, time.Since(begun), worked)
			return
		}
		p.After = r.Next
		if !sleep(ctx, max(leastPause, rest*took)) {
			return
		}
	}
}

func (c Config) step(ctx context.Context, p store.RetainParams) (store.Retained, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return c.Store.Retain(ctx, p)
}

// tell logs how a pass ended. Under a quarantine, and while the clock is not believed,
// nothing is removed, and others have logged why.
func (c Config) tell(ctx context.Context, sum store.Retained, err error, took, worked time.Duration) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrQuarantined) && !errors.Is(err, store.ErrClockSuspect) {
		c.Log.Error("what is no longer kept could not be removed; it is tried again", "err", err)
	}
	if sum == (store.Retained{}) || sum == (store.Retained{Done: true}) {
		return
	}
	c.Log.Info("removed what is no longer kept", "jobs", sum.Jobs, "events", sum.Events, "keys", sum.Keys,
		"objects", sum.Objects, "firings", sum.Firings,
		"took", took.Round(time.Millisecond).String(), "worked", worked.Round(time.Millisecond).String())
}

// sleep waits, and tells whether ctx is still going on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
