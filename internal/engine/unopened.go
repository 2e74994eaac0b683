package engine

import (
	"sync"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// mostUnopened bounds the connections that are remembered.
const mostUnopened = 1024

// unopened remembers the connections whose credential did not open, so that each is
// logged once and not with each of its jobs.
type unopened struct {
	mu    sync.Mutex
	known map[job.ID]bool
}

// first notes that a connection's credential did not open. It reports whether that is
// news.
func (u *unopened) first(c *store.Connection) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known[c.ID] {
		return false
	}
	if u.known == nil || len(u.known) >= mostUnopened {
		u.known = make(map[job.ID]bool)
	}
	u.known[c.ID] = true
	return true
}

// forget notes that a connection's credential opened.
func (u *unopened) forget(c *store.Connection) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.known, c.ID)
}
