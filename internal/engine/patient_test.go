package engine_test

import (
	"context"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// longestIdle is how long an engine with nothing due waits in a world of hours and days.
const longestIdle = 5 * time.Minute

// patient lets an idle engine wait longer than store.HintAhead, so that a day of a
// bubble's time is not thousands of reads of a real database. In exchange every event
// wakes it: a store sends no hint for work that is due later than that.
//
// A test that sets a shorter poll than the world's gets it.
type patient struct {
	engine.Store
	orphans *noOrphans
}

// noOrphans remembers that there were none, until an event comes. It begins to a minute
// after the last one: a store may find out in steps that a worker is gone.
type noOrphans struct {
	hints <-chan struct{}

	mu    sync.Mutex
	event time.Time
	until time.Time
}

func newPatient(s engine.Store) patient {
	hints, _ := s.Watch(store.WatchEvents) // as long as the store is open
	return patient{s, &noOrphans{hints: hints, event: time.Now()}}
}

func (p patient) Orphans(ctx context.Context, after store.Place, limit int) ([]store.Leased, error) {
	none := p.orphans
	none.mu.Lock()
	defer none.mu.Unlock()
	now := time.Now()
	select {
	case <-none.hints:
		none.event, none.until = now, time.Time{}
	default:
	}
	if now.Before(none.until) {
		return nil, nil
	}
	found, err := p.Store.Orphans(ctx, after, limit)
	if len(found) == 0 && err == nil && now.Sub(none.event) > time.Minute {
		none.until = now.Add(longestIdle)
	}
	return found, err
}

func (p patient) NextDue(ctx context.Context, limit time.Duration) (time.Duration, error) {
	if limit == store.HintAhead {
		limit = longestIdle
	}
	return p.Store.NextDue(ctx, limit)
}

// patientSchedules lets an idle scheduler wait so long, too. Its hints are those of the store.
type patientSchedules struct{ schedule.Store }

func (p patientSchedules) NextFiring(ctx context.Context, limit time.Duration, except []job.ID) (time.Duration, error) {
	return p.Store.NextFiring(ctx, max(limit, longestIdle), except)
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
