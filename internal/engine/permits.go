package engine

import (
	"context"
	"time"
)

// slots is a bounded number of places.
type slots chan struct{}

func newSlots(n int) slots { return make(slots, n) }

// acquire waits for one place, then takes those that are free, up to most. It
// gives 0 when ctx ends.
func (s slots) acquire(ctx context.Context, most int) int { return s.gather(ctx, most, 1, 0) }

// gather is acquire that goes on waiting for as many as least, but for no longer
// than patience.
func (s slots) gather(ctx context.Context, most, least int, patience time.Duration) int {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	n := 1 + s.more(most-1)
	if n >= min(least, most) {
		return n
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	for n < min(least, most) {
		select {
		case s <- struct{}{}:
			n++
		case <-over.C:
			return n
		case <-ctx.Done():
			return n
		}
	}
	return n + s.more(most-n)
}

// more takes free places, up to most.
func (s slots) more(most int) int {
	for n := range most {
		if !s.one() {
			return n
		}
	}
	return max(most, 0)
}

// one takes a place if one is free.
func (s slots) one() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) release(n int) {
	for range n {
		<-s
	}
}

// pacer waits between two looks for due work. When the store says "due now"
// but nothing could be taken (a limit is reached, somebody was faster), it
// waits longer and longer, so that no loop is ever hot.
type pacer struct {
	most time.Duration
	next time.Duration
}

const leastPause = 2 * time.Millisecond

func newPacer(most time.Duration) *pacer { return &pacer{most: most, next: leastPause} }

// wait waits for a hint, for the time that due tells, or for the end of ctx. took
// tells that something could be taken just now: more comes soon, as a rule, with a
// hint, and the store is not asked for what a hint tells.
func (p *pacer) wait(ctx context.Context, hint <-chan struct{}, due func(context.Context) time.Duration, took bool) {
	if took {
		p.next = leastPause
		if p.pause(ctx, hint, leastPause) {
			return
		}
	}
	pause := due(ctx)
	if !took && pause < p.next {
		pause = p.next
		p.next = min(2*p.next, p.most)
	}
	p.pause(ctx, hint, max(pause, leastPause))
}

// pause waits for d, and tells whether a hint or the end of ctx ended it.
func (p *pacer) pause(ctx context.Context, hint <-chan struct{}, d time.Duration) (ended bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-hint:
		p.next = leastPause
	case <-ctx.Done():
	}
	return true
}
