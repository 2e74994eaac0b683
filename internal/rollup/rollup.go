// Package rollup counts the event log in buckets of time. It is a slow loop beside the
// engine, in short steps of the store with pauses between them. No write of a job waits
// for it.
//
// Every server runs it. The store allows one of them to count at a time, and the others
// try again later.
package rollup

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/store"
)

// Config identifies the server that counts.
type Config struct {
	Store store.Rollups
	// Owner identifies this server.
	Owner job.ID
	Log   *slog.Logger
}

const (
	// every is the time between two reads of new events. Counts are behind by this time and
	// a step or two.
	every = 2 * time.Second
	// lease is how long no other server counts after the counting one has died.
	lease = 30 * time.Second
	// After a step the loop pauses for rest times the step's duration, so that it uses at
	// most a quarter of a store that jobs need too. The pause is at least leastPause, so
	// that work that has queued behind a short step runs first.
	rest       = 3
	leastPause = 5 * time.Millisecond
	// A loop that has not caught up for the time behind pauses for hurry times a step, and so
	// uses half of the store, to catch up.
	behind, hurry = 10 * time.Second, 1
	// A step that leaves more to count and took less than quick is followed by a step of
	// twice its size, up to store.MaxRollSize: counts that several events share are written
	// once. A step that took longer than slow is followed by a step of half its size.
	quick, slow = 100 * time.Millisecond, 300 * time.Millisecond
	// stepTimeout bounds one call to the store.
	stepTimeout = 30 * time.Second
)

// Run counts until ctx ends.
func Run(ctx context.Context, c Config) {
	failing := false
	for sleep.For(ctx, every) {
		err := c.catchUp(ctx)
		if failed := err != nil && ctx.Err() == nil; failed != failing {
			failing = failed
			switch {
			case failed:
				c.Log.Error("the event log could not be counted; trying again", "err", err)
			case err == nil:
				c.Log.Info("the event log is counted again")
			}
		}
	}
}

// catchUp counts until all events are counted.
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
		if !sleep.For(ctx, max(leastPause, pause)) {
			return ctx.Err()
		}
	}
}

// resized returns the size of the step after one that took this long.
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
		return true, nil // another server has counted these events
	}
	return r.More, err
}
