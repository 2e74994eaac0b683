// Package logthrottle bounds what a failure that lasts writes to the log.
package logthrottle

import (
	"log/slog"
	"sync"
	"time"
)

// Every is how often a failure that lasts is logged.
const Every = time.Minute

// Throttle lets one log line through in each Every. The zero Throttle lets the next line
// through.
type Throttle struct {
	mu   sync.Mutex
	last time.Time // zero: no line yet
}

// Allow reports whether a line may be logged now. Of concurrent callers one may. Where now
// comes from time.Now, a wall clock that is set back silences nothing.
func (t *Throttle) Allow(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.last.IsZero() && now.Sub(t.last) < Every {
		return false
	}
	t.last = now
	return true
}

// reset lets the next line through.
func (t *Throttle) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = time.Time{}
}

// Failures logs the failures of something that several operations depend on: when the
// first operation fails, once in each Every while any of them fails, and when all of them
// work again.
type Failures struct {
	Log *slog.Logger
	// Fails and Works are the messages at the beginning and at the end.
	Fails, Works string

	mu       sync.Mutex
	failing  map[string]bool // operations whose last call failed
	since    time.Time
	throttle Throttle
}

// Failed notes that a call failed.
func (f *Failures) Failed(op string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.failing == nil {
		f.failing = make(map[string]bool)
	}
	if len(f.failing) == 0 {
		f.since = now
		f.throttle.reset()
	}
	f.failing[op] = true
	if f.throttle.Allow(now) {
		f.Log.Error(f.Fails, "op", op, "err", err, "for", now.Sub(f.since).Round(time.Second).String())
	}
}

// Worked notes that a call succeeded.
func (f *Failures) Worked(op string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.failing[op] {
		return
	}
	delete(f.failing, op)
	if len(f.failing) == 0 {
		f.Log.Info(f.Works, "failed_for", time.Since(f.since).Round(time.Second).String())
	}
}
