package store

import (
	"sync"
	"time"
)

// Notifier wakes goroutines that wait for work.
type Notifier interface {
	// Watch returns a channel that receives a token after writes of the kind by this process
	// and, where the engine can, by others. A token is dropped when one is waiting. Tokens
	// are hints, and polling finds what they miss: a job that is due later than HintAhead
	// from now causes none when its time comes. The returned function ends the watch.
	Watch(kind WatchKind) (<-chan struct{}, func())
}

// HintAhead is how far ahead of its time a job causes a hint. A watcher polls more often than
// that, so the many jobs of a later day need no hint.
const HintAhead = 5 * time.Second

// WatchKind is what a watcher waits for.
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

// Hints wakes the watchers of this process. The zero Hints is ready.
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

// Notify wakes the watchers of each kind that is set. A watcher whose channel has a token
// already gets no other one.
func (h *Hints) Notify(given WatchKinds) {
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
