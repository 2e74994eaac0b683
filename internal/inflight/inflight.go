// Package inflight bounds the bytes of requests that a process works on at a time. Each
// request holds its size while it is read and handled; what finds no room waits in
// order, for a bounded time, in a bounded queue. No owner holds more than half, so that
// one owner's requests leave room for those of the others.
package inflight

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrBusy says that there was no room in time, or too many wait already.
var ErrBusy = errors.New("inflight: too many bytes are being worked on")

// MostWaiting bounds the requests that wait for one Budget. Half of them may be one
// owner's.
const MostWaiting = 512

// Budget is a number of bytes that requests share.
type Budget struct {
	share int64 // of one owner
	wait  time.Duration

	mu      sync.Mutex
	free    int64
	held    map[string]int64
	waiting []*waiter // the oldest first
}

type waiter struct {
	owner   string
	size    int64
	granted chan struct{} // closed under the lock, when the bytes are the waiter's
}

// New makes a budget of size bytes, for which a request waits no longer than wait.
func New(size int64, wait time.Duration) *Budget {
	return &Budget{share: max(1, size/2), wait: wait, free: size, held: make(map[string]int64)}
}

// Hold is what one request holds. The zero Hold holds nothing.
type Hold struct {
	budget *Budget
	owner  string
	size   int64
}

// Take waits for size bytes. A size above an owner's half is taken for that half. It
// fails with ErrBusy, or with the error of ctx, and then the Hold holds nothing.
func (b *Budget) Take(ctx context.Context, owner string, size int64) (Hold, error) {
	h := Hold{budget: b, owner: owner, size: min(max(size, 1), b.share)}
	w, err := b.enter(h)
	switch {
	case err != nil:
		return Hold{}, err
	case w == nil:
		return h, nil
	}
	timer := time.NewTimer(b.wait)
	defer timer.Stop()
	select {
	case <-w.granted:
		return h, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = ErrBusy
	}
	if b.leave(w) {
		return Hold{}, err
	}
	return h, nil // granted meanwhile
}

// enter takes the bytes, or queues for them. Whose turn it is, admit alone says.
func (b *Budget) enter(h Hold) (*waiter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 && b.fits(h.owner, h.size) {
		b.grant(h.owner, h.size)
		return nil, nil
	}
	w := &waiter{owner: h.owner, size: h.size, granted: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.admit() // its turn may come before that of those who wait
	select {
	case <-w.granted:
		return nil, nil
	default:
	}
	if len(b.waiting) > MostWaiting || b.waitingOf(h.owner) > MostWaiting/2 {
		last := len(b.waiting) - 1 // the newcomer
		b.waiting[last] = nil
		b.waiting = b.waiting[:last]
		return nil, ErrBusy
	}
	return w, nil
}

func (b *Budget) waitingOf(owner string) (n int) {
	for _, w := range b.waiting {
		if w.owner == owner {
			n++
		}
	}
	return n
}

// leave takes a waiter out of the queue. It reports false when its turn has come.
func (b *Budget) leave(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.admit() // those behind it may fit
			return true
		}
	}
	return false
}

func (b *Budget) fits(owner string, size int64) bool {
	return size <= b.free && b.held[owner]+size <= b.share
}

func (b *Budget) grant(owner string, size int64) {
	b.free -= size
	b.held[owner] += size
}

// admit lets in whose turn has come. A waiter that only lacks room of the whole budget is
// passed by nobody, so that a large request does not starve; one that lacks its owner's
// own share is passed by other owners.
func (b *Budget) admit() {
	stopped := make(map[string]bool)
	kept := b.waiting[:0]
	full := false
	for _, w := range b.waiting {
		switch {
		case full || stopped[w.owner]:
			kept = append(kept, w)
		case b.fits(w.owner, w.size):
			b.grant(w.owner, w.size)
			close(w.granted)
		default:
			full = b.held[w.owner]+w.size <= b.share
			stopped[w.owner] = true
			kept = append(kept, w)
		}
	}
	clear(b.waiting[len(kept):])
	b.waiting = kept
}

// Shrink gives back what is above size.
func (h *Hold) Shrink(size int64) {
	if size = max(size, 0); h.budget == nil || size >= h.size {
		return
	}
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	back := h.size - size
	h.size = size
	b.free += back
	if b.held[h.owner] -= back; b.held[h.owner] == 0 {
		delete(b.held, h.owner)
	}
	if len(b.waiting) > 0 {
		b.admit()
	}
}

// Release gives everything back. It may be called again.
func (h *Hold) Release() { h.Shrink(0) }
