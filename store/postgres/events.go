package postgres

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// insertEvents appends events, whose positions next has given, in one statement.
func (t *tx) insertEvents(ctx context.Context, events []job.Event) error {
	if len(events) == 0 {
		return nil
	}
	t.hint[store.WatchEvents] = true
	if err := t.q.InsertEvents(ctx, eventColumns(events)); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	return nil
}
