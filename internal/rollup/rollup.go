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

// Config says who counts.
type Config struct {
	Store store.Rollups
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
	// A step that leaves more to count and took less than quick is followed by one of
	// twice its size, up to store.MaxRollSize, because counts that several events share
	// are written once; one that took longer than slow by one of half of it.
	quick, slow = 100 * time.Millisecond, 300 * time.Millisecond
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
	late, size := time.Now().Add(behind), 1
	for {
		begun := time.Now()
		more, err := c.step(ctx, size)
		if err != nil || !more {
			return err
		}
		took := time.Since(begun)
		size = resized(size, took)
		pause := rest * took
		if begun.After(late) {
			pause = hurry * took
		}
		if !sleep(ctx, max(leastPause, pause)) {
			return ctx.Err()
		}
	}
}

// resized is the size of the step after one that took so long.
func resized(size int, took time.Duration) int {
	switch {
	case took < quick:
		return min(2*size, store.MaxRollSize)
	case took > slow:
		return max(size/2, 1)
	default:
		return size
	}
}

func (c Config) step(ctx context.Context, size int) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	r, err := c.Store.Roll(ctx, store.RollParams{Owner: c.Owner, Lease: lease, Size: size})
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
