package engine_test

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/store"
)

// longestIdle is how long an engine with nothing due waits in a world of hours and days.
const longestIdle = 5 * time.Minute

// patient lets an idle engine wait longer than store.HintAhead, so that a day of a
// bubble's time is not thousands of reads of a real database. In exchange every event
// wakes it: a store sends no hint for work that is due later than that.
//
// A test that sets a shorter poll than the world's gets it.
type patient struct{ engine.Store }

func (p patient) NextDue(ctx context.Context, limit time.Duration) (time.Duration, error) {
	if limit == store.HintAhead {
		limit = longestIdle
	}
	return p.Store.NextDue(ctx, limit)
}

// Watch passes on the hints of both kinds.
func (p patient) Watch(store.WatchKind) (<-chan struct{}, func()) {
	work, stopWork := p.Store.Watch(store.WatchWork)
	events, stopEvents := p.Store.Watch(store.WatchEvents)
	either, end := make(chan struct{}, 1), make(chan struct{})
	go func() {
		for {
			select {
			case <-work:
			case <-events:
			case <-end:
				return
			}
			select {
			case either <- struct{}{}:
			default:
			}
		}
	}()
	return either, func() {
		stopWork()
		stopEvents()
		close(end)
	}
}
