// Package rollup counts the event log in buckets of time: a slow loop beside the engine,
// in short steps of the store with pauses between them. Nothing that writes a job waits
// for it.
//
// Every server runs it, and the store lets one of them count at a time; the others ask
// again later.
package rollup

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Store is what the loop needs of a store.Store.
type Store interface {
	Roll(ctx context.Context, p store.RollParams) (store.Rolled, error)
}

// Config says who counts.
type Config struct {
	Store Store
	// Owner tells this server from others.
	Owner job.ID
	Log   *slog.Logger
}

const (
	// every is how often the loop looks for new events: counts are so far behind, and the
	// time for a step or two.
	every = 2 * time.Second
	// lease is for how long nobody else counts when a server has died.
	lease = 30 * time.Second
	// A step is followed by a pause of rest times what it took: of a store that is
	// shared with the work no more than a quarter is used. leastPause lets what has
	// queued behind a short step go first.
	rest       = 3
	leastPause = 5 * time.Millisecond
	// A loop that has not caught up for behind takes a half, so that it does.
	behind, hurry = 10 * time.Second, 1
	// stepTimeout bounds one call to the store.
	stepTimeout = 30 * time.Second
)

// Run counts until ctx ends.
func Run(ctx context.Context, c Config) {
	failing := false
	for sleep(ctx, every) {
		err := c.catchUp(ctx)
		if failed := err != nil && ctx.Err() == nil; failed != failing {
			failing = failed
			switch {
			case failed:
				c.Log.Error("the event log could not be counted; it is tried again", "err", err)
			case err == nil:
				c.Log.Info("the event log is counted again")
			}
		}
	}
}

// catchUp counts until there is nothing more to count.
func (c Config) catchUp(ctx context.Context) error {
	late := time.Now().Add(behind)
	for {
		begun := time.Now()
		more, err := c.step(ctx)
		if err != nil || !more {
			return err
		}
		pause := rest * time.Since(begun)
		if begun.After(late) {
			pause = hurry * time.Since(begun)
		}
		if !sleep(ctx, max(leastPause, pause)) {
			return ctx.Err()
		}
	}
}

func (c Config) step(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	r, err := c.Store.Roll(ctx, store.RollParams{Owner: c.Owner, Lease: lease})
	if errors.Is(err, store.ErrStale) {
		return true, nil // somebody else has counted these events
	}
	return r.More, err
}

// sleep waits, and reports whether ctx is still going on.
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
