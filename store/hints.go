package store

import (
	"sync"
	"time"
)

// Notifier wakes those that wait for something to do.
type Notifier interface {
	// Watch returns a channel that gets a token, dropped when one is waiting,
	// after writes of the kind by this process and, where the engine can, by
	// others. A hint: polling is the truth. A job that comes to wait for longer than
	// HintAhead gives none for its time. The function ends it.
	Watch(kind WatchKind) (<-chan struct{}, func())
}

// HintAhead is how far ahead work is hinted at: who waits for hints looks again by
// himself more often than that, and the many jobs of a later day wake nobody.
const HintAhead = 5 * time.Second

// WatchKind tells the hints of Watch apart.
type WatchKind int

const (
	// WatchWork: something may have become due.
	WatchWork WatchKind = iota
	// WatchEvents: events were written.
	WatchEvents
	// WatchSchedules: a schedule may have become due.
	WatchSchedules
)

// kinds is how many kinds of Watch there are.
const kinds = 3

// WatchKinds are the kinds that are set.
type WatchKinds [kinds]bool

// Hints wakes those of this process who Watch. The zero Hints is ready.
type Hints struct {
	mu   sync.Mutex
	subs [kinds]map[chan struct{}]struct{}
}

// Watch implements Notifier.
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
