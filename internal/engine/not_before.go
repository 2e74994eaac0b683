package engine

import (
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// mostEarly bounds what early remembers: as many jobs as can be unknown by this
// process's own doing within some minutes, and what it is sending.
const mostEarly = 8192

// early remembers when a job may be looked at again, on this process's own
// monotonic clock. The store's clock says so too; but it may be set, and a look
// that comes too early takes a write under way for an absence. What is forgotten
// (too many jobs) or another process's leaves the store's clock alone in charge, but
// for what was armed before this process began (see tooEarly).
type early struct {
	mu sync.Mutex
	at map[job.ID]time.Time
}

// set notes that the job is not to be looked at before the time. Both times
// carry a monotonic reading.
func (e *early) set(id job.ID, at, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at == nil {
		e.at = make(map[job.ID]time.Time)
	}
	if len(e.at) >= mostEarly {
		for other, t := range e.at {
			if !t.After(now) {
				delete(e.at, other)
			}
		}
	}
	if _, known := e.at[id]; known || len(e.at) < mostEarly {
		e.at[id] = at
	}
}

// forget notes that the job's last attempt has an outcome that no look waits for.
func (e *early) forget(id job.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.at, id)
}

// tooEarly tells how long a job that is due for a look must still be left alone, by
// this process's own clock; zero: no longer. Of a job that it knows nothing of, it
// knows that a process that has ended armed it before this one began, if no other
// server is at work: a restarted one, whose database's clock was set meanwhile, waits
// as long as such an attempt may act.
func (e *Engine) tooEarly(l *store.Leased) time.Duration {
	now := e.Clock.Read().Time
	since := e.begun.Add(l.Retry.Timeout() + e.Grace + e.traits(&l.Connection, l.Class).ReadLag)
	return max(e.early.left(l.ID, now), since.Sub(now))
}

// left tells how long the job must still be left alone; zero: no longer.
func (e *early) left(id job.ID, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, known := e.at[id]
	if known && !at.After(now) {
		delete(e.at, id)
	}
	return max(0, at.Sub(now))
}
