package engine

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/store"
)

// quietPoll is the longest time between two checks whether the work is done: what ends
// without an event causes no hint.
const quietPoll = 50 * time.Millisecond

// Quiet waits until the store has nothing due and this engine has nothing under way. It
// returns how long nothing will be due, at most limit. It fails with the store's error, or
// that of ctx when it ends first.
func (e *Engine) Quiet(ctx context.Context, limit time.Duration) (time.Duration, error) {
	events, stop := e.Store.Watch(store.WatchEvents)
	defer stop()
	for calm := false; ; {
		due, err := e.Store.NextDue(ctx, limit)
		if err != nil {
			return 0, err
		}
		// A job that was claimed before this answer holds its permit until it is settled. Work
		// that it made due shows in the next answer.
		was := calm
		if calm = due > 0 && len(e.permits.inFlight) == 0 && len(e.lookers.permits) == 0; calm {
			if was {
				return due, nil
			}
			continue
		}
		timer := time.NewTimer(quietPoll)
		select {
		case <-ctx.Done():
		case <-events:
		case <-timer.C:
		}
		timer.Stop()
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
}
