package engine

import (
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// maxNotBefore bounds the jobs that notBefore remembers: as many as can become unknown by
// this process's own doing within some minutes, and what it is sending.
const maxNotBefore = 8192

// notBefore remembers when a job may be looked at again, on this process's own
// monotonic clock. The store's clock has it too, but may be set, and a look
// that comes too early takes a write under way for an absence. For a job that is forgotten
// (there were too many) or another process's, the store's clock alone decides, unless the
// job was armed before this process began (see wait).
type notBefore struct {
	*Config
	// begun is when this process had opened its store.
	begun time.Time

	mu sync.Mutex
	at map[job.ID]time.Time
}

// set notes that the job is not to be looked at before the time. Both times
// carry a monotonic reading.
func (n *notBefore) set(id job.ID, at, now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at == nil {
		n.at = make(map[job.ID]time.Time)
	}
	if len(n.at) >= maxNotBefore {
		for other, t := range n.at {
			if !t.After(now) {
				delete(n.at, other)
			}
		}
	}
	if _, known := n.at[id]; known || len(n.at) < maxNotBefore {
		n.at[id] = at
	}
}

// forget notes that the job's last attempt has an outcome that no look waits for.
func (n *notBefore) forget(id job.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.at, id)
}

// wait returns for how long a job that is due for a look must still be left alone, by
// this process's own clock; zero: no longer. A job that is not remembered may have been
// armed by a process that ended before this one began. If no other server runs, that is the
// only way, and the database's clock may have been set meanwhile. So it waits for as long
// after this process's beginning as such an attempt may act.
func (n *notBefore) wait(l *store.Leased) time.Duration {
	now := n.Clock.Read().Time
	t := n.traits(&l.Connection, l.Class)
	since := n.begun.Add(t.ActsFor(job.SendTimeout, l.Retry.Timeout()) + n.Grace + t.ReadLag)
	return max(n.left(l.ID, now), since.Sub(now))
}

// left returns for how long the job must still be left alone; zero: no longer.
func (n *notBefore) left(id job.ID, now time.Time) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, known := n.at[id]
	if known && !at.After(now) {
		delete(n.at, id)
	}
	return max(0, at.Sub(now))
}
