package postgres

import (
	"sync"

	"github.com/fireonce/fireonce/store"
)

// hints wakes the watchers of this process.
type hints struct {
	mu   sync.Mutex
	subs [2]map[chan struct{}]struct{}
}

// Watch implements store.Store.
func (s *Store) Watch(kind store.WatchKind) (<-chan struct{}, func()) {
	h := &s.hints
	ch := make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs[kind] == nil {
		h.subs[kind] = make(map[chan struct{}]struct{})
	}
	h.subs[kind][ch] = struct{}{}
	return ch, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs[kind], ch)
	}
}

// give wakes the watchers of each kind that is set. A watcher that has a token
// already needs no other one.
func (h *hints) give(kinds [2]bool) {
	if !kinds[store.WatchWork] && !kinds[store.WatchEvents] {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for kind, set := range kinds {
		if !set {
			continue
		}
		for ch := range h.subs[kind] {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}
}
