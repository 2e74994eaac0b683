package server

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/fireonce/fireonce/store"
)

// Rules of this file: while there are followers, one poll of the log's end serves every stream of
// this server. It runs at least every poll interval, and soon after each hint of the store. A
// stream reads for itself only when the log has grown, or after a hint, so a thousand idle
// streams cost the store what one does. The poll decides; a hint only makes it come sooner. A
// hint wakes streams also when the end has not moved: one job's events may be read before the end
// of the whole log has passed them.

// pollGap is the shortest time between two polls when hints are frequent.
const pollGap = 20 * time.Millisecond

// watchedLog is a log that sends a hint when it has grown.
type watchedLog interface {
	store.EventLog
	store.Notifier
}

// tail watches the end of the event log.
type tail struct {
	store watchedLog
	poll  time.Duration
	limit time.Duration // for one look

	mu        sync.Mutex
	followers int
	stop      context.CancelFunc
	grown     chan struct{} // closed when the log may have grown since it was made
}

func newTail(s watchedLog, poll, limit time.Duration) *tail {
	return &tail{store: s, poll: poll, limit: limit, grown: make(chan struct{})}
}

// follow keeps the polls running until leave is called.
func (t *tail) follow(ctx context.Context) (leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.followers++
	if t.followers == 1 {
		var own context.Context
		own, t.stop = context.WithCancel(context.WithoutCancel(ctx))
		go t.run(own)
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.followers--; t.followers == 0 {
			t.stop()
		}
	}
}

// next returns the channel that is closed when the log may have grown from now on. Call it before
// the log is read, so that no growth is missed between the two.
func (t *tail) next() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.grown
}

func (t *tail) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.grown)
	t.grown = make(chan struct{})
}

// run polls until the last follower leaves.
func (t *tail) run(ctx context.Context) {
	hints, unwatch := t.store.Watch(store.WatchEvents)
	defer unwatch()
	var end, incarnation int64 = -1, -1
	for hinted := false; ; {
		looked := time.Now()
		page, err := t.look(ctx)
		if ctx.Err() != nil {
			return
		}
		// A follower reads after a failure, too, and returns the error to its client.
		if err != nil || hinted || page.End != end || page.Incarnation != incarnation {
			t.wake()
		}
		end, incarnation = page.End, page.Incarnation
		var more bool
		if hinted, more = t.wait(ctx, hints, looked); !more {
			return
		}
	}
}

func (t *tail) look(ctx context.Context) (store.EventPage, error) {
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	return logEnd(ctx, t.store, DefaultProject)
}

// wait waits for the next poll, and reports whether it follows a hint. more is false when no
// poll follows.
func (t *tail) wait(ctx context.Context, hints <-chan struct{}, looked time.Time) (hinted, more bool) {
	poll := time.NewTimer(t.poll)
	defer poll.Stop()
	select {
	case <-ctx.Done():
		return false, false
	case <-poll.C:
		return false, true
	case <-hints:
	}
	poll.Reset(max(0, pollGap-time.Since(looked)))
	select {
	case <-ctx.Done():
		return true, false
	case <-poll.C:
		return true, true
	}
}

// logEnd reads no events, only the log's present end and its incarnation.
func logEnd(ctx context.Context, s store.EventLog, project string) (store.EventPage, error) {
	page, err := s.Events(ctx, store.EventQuery{Project: project, After: math.MaxInt64, Limit: 1})
	if err != nil {
		return page, fmt.Errorf("read the log's end: %w", err)
	}
	return page, nil
}
