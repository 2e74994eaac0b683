package store

import "sync"

// kinds is how many kinds of Watch there are.
const kinds = 3

// WatchKinds are the kinds that are set.
type WatchKinds [kinds]bool

// Hints wakes those of this process who Watch. The zero Hints is ready.
type Hints struct {
	mu   sync.Mutex
	subs [kinds]map[chan struct{}]struct{}
}

// Watch is Store.Watch for an engine.
func (h *Hints) Watch(kind WatchKind) (<-chan struct{}, func()) {
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

// Give wakes the watchers of each kind that is set. A watcher that has a token
// already needs no other one.
func (h *Hints) Give(given WatchKinds) {
	if given == (WatchKinds{}) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for kind, set := range given {
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
