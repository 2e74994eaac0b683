package engine

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/store"
)

const (
	leastPause = 2 * time.Millisecond
	// leastRest is the least time between two rounds of a sweep or of the looks. Both are
	// about what has waited for seconds at least, while a hint comes with every submission:
	// their reads must not stand in the way of claims.
	leastRest = 50 * time.Millisecond
)

// pacer waits between two searches for due work. When the store reports that something is
// due but nothing could be taken (a limit is reached, another server was faster), it waits
// longer and longer, so that no loop is ever hot.
type pacer struct {
	*Config
	storeLog *storeLog
	next     time.Duration
	// freed, if set, ends a wait, too: there is room again for jobs that were left.
	freed <-chan struct{}
}

func (e *Engine) newPacer() *pacer {
	return &pacer{Config: &e.Config, storeLog: e.storeLog, next: leastPause}
}

// repeat calls do whenever something may be due, until ctx ends. do returns how much it
// did, and whether there is certainly more.
func (p *pacer) repeat(ctx context.Context, do func() (did int, more bool)) {
	work, stop := p.Store.Watch(store.WatchWork)
	defer stop()
	for ctx.Err() == nil {
		begun := time.Now()
		did, more := do()
		if more {
			continue
		}
		p.wait(ctx, work, did > 0)
		if rest := leastRest - time.Since(begun); rest > 0 {
			sleep.For(ctx, rest)
		}
	}
}

// wait waits for a hint, for the time at which the store has something due, or for the
// end of ctx. took is true where something was taken just now: usually more comes soon,
// with a hint, so the store is not asked yet. It reports whether freed alone ended the
// wait.
func (p *pacer) wait(ctx context.Context, hint <-chan struct{}, took bool) (freed bool) {
	if took {
		p.next = leastPause
		if ended, freed := p.pause(ctx, hint, leastPause); ended {
			return freed
		}
	}
	pause := p.nextDue(ctx)
	if !took && pause < p.next {
		pause = p.next
		p.next = min(2*p.next, p.Poll)
	}
	_, freed = p.pause(ctx, hint, max(pause, leastPause))
	return freed
}

// pause waits for d, and reports whether something else ended the wait, and whether that was
// freed alone. What has come meanwhile ends no other wait: one search finds all of it.
func (p *pacer) pause(ctx context.Context, hint <-chan struct{}, d time.Duration) (ended, freed bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false, false
	case <-ctx.Done():
		return true, false
	case <-hint:
		tryReceive(p.freed)
	case <-p.freed:
		freed = !tryReceive(hint)
	}
	p.next = leastPause
	return true, freed
}

// tryReceive takes a value if one is there, and reports whether one was.
func tryReceive(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// nextDue returns for how long nothing will be due.
func (p *pacer) nextDue(ctx context.Context) time.Duration {
	due, err := p.Store.NextDue(ctx, p.Poll)
	p.storeLog.note(ctx, opNextDue, err)
	if err != nil {
		return p.Poll
	}
	return due
}
