// Package inflight bounds the bytes of requests that a process handles at a time. Each
// request holds its size while it is read and handled. A request for which too few bytes
// are free waits in order, for a bounded time, in a bounded queue. No owner holds more than
// half of the bytes, so that other owners' requests can be handled too.
package inflight

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrBusy is returned if the bytes did not become free in time, or if too many requests wait.
var ErrBusy = errors.New("inflight: too many bytes are being worked on")

// MaxWaiting bounds the requests that wait for one Budget. Half of them may belong to one
// owner.
const MaxWaiting = 512

// Budget is a number of bytes that requests share.
type Budget struct {
	share int64 // the most that one owner may hold
	wait  time.Duration

	mu      sync.Mutex
	free    int64
	held    map[string]int64
	waiting []*waiter // oldest first
}

type waiter struct {
	owner   string
	size    int64
	granted chan struct{} // closed under the lock when the waiter gets the bytes
}

// New returns a budget of size bytes, for which a request waits at most for the time wait.
func New(size int64, wait time.Duration) *Budget {
	return &Budget{share: max(1, size/2), wait: wait, free: size, held: make(map[string]int64)}
}

// Hold is a request's part of a Budget. The zero Hold holds no bytes.
type Hold struct {
	budget *Budget
	owner  string
	size   int64
}

// Take waits for size bytes, but at most for half of the budget. It fails with ErrBusy or
// with the error of ctx; then the Hold holds no bytes.
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

// enter takes the bytes, or queues for them. Only admit decides which waiter is next.
func (b *Budget) enter(h Hold) (*waiter, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 && b.fits(h.owner, h.size) {
		b.grant(h.owner, h.size)
		return nil, nil
	}
	w := &waiter{owner: h.owner, size: h.size, granted: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.admit() // it may be next before older waiters
	select {
	case <-w.granted:
		return nil, nil
	default:
	}
	if len(b.waiting) > MaxWaiting || b.waitingOf(h.owner) > MaxWaiting/2 {
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

// leave removes a waiter from the queue. It returns false if the waiter has its bytes already.
func (b *Budget) leave(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.admit() // waiters behind it may fit
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

// admit grants bytes to the waiters that are next. No waiter passes one that waits only for
// the whole budget, so that a large request does not starve. Waiters of other owners pass
// one that waits for its owner's share.
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

// Shrink returns the bytes above size to the budget.
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

// Release returns all bytes to the budget. It may be called again.
func (h *Hold) Release() { h.Shrink(0) }
