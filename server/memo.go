package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

// Rules of this file: what is dear to measure is measured once for everybody
// who asks within a short while. Callers that come meanwhile wait for the one
// measurement under way; it ends with no caller, so that one who leaves fails
// nobody else. A failure is not kept.

// memo keeps measurements by what was asked for.
type memo[K comparable, V any] struct {
	now     func() time.Time
	keep    time.Duration // how old an answer may be
	limit   time.Duration // the time for one measurement
	most    int           // bounds the entries
	permits chan struct{} // bounds the measurements at one time
	mu      sync.Mutex
	entries map[K]*measured[V]
}

// measured is one measurement; done is closed when it has ended.
type measured[V any] struct {
	done  chan struct{}
	begun time.Time
	value V
	err   error
}

func (m *measured[V]) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

func newMemo[K comparable, V any](now func() time.Time, keep, limit time.Duration, most, atOnce int) *memo[K, V] {
	return &memo[K, V]{
		now: now, keep: keep, limit: limit, most: most,
		permits: make(chan struct{}, atOnce), entries: make(map[K]*measured[V]),
	}
}

// get gives what measure gave for the key a short while ago, or gives now.
func (m *memo[K, V]) get(ctx context.Context, key K, measure func(context.Context) (V, error)) (V, error) {
	e, err := m.entry(ctx, key, measure)
	if err != nil {
		var none V
		return none, err
	}
	return e.wait(ctx)
}

// forget drops what is kept for a key. A measurement under way is not used by later
// callers.
func (m *memo[K, V]) forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}

// wait gives what was measured, as soon as it is.
func (m *measured[V]) wait(ctx context.Context) (V, error) {
	select {
	case <-m.done:
		return m.value, m.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// entry finds a fresh measurement or begins one.
func (m *memo[K, V]) entry(ctx context.Context, key K, measure func(context.Context) (V, error)) (*measured[V], error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if e, ok := m.entries[key]; ok && !m.stale(e, now) {
		return e, nil
	}
	delete(m.entries, key)
	if !m.makeRoom(now) {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_QUOTA_EXCEEDED,
			"too many different measurements are asked for at once")
	}
	e := &measured[V]{done: make(chan struct{}), begun: now}
	m.entries[key] = e
	go m.fill(context.WithoutCancel(ctx), e, measure)
	return e, nil
}

// stale tells whether an answer must not be given again. One that was begun
// later than now was begun before the clock was set back.
func (m *memo[K, V]) stale(e *measured[V], now time.Time) bool {
	age := now.Sub(e.begun)
	return e.ended() && (e.err != nil || age < 0 || age >= m.keep)
}

// makeRoom drops what is stale and, when that is not enough, what is oldest. It
// fails when everything is still being measured.
func (m *memo[K, V]) makeRoom(now time.Time) bool {
	if len(m.entries) < m.most {
		return true
	}
	var oldest K
	var at time.Time
	found := false
	for key, e := range m.entries {
		switch {
		case m.stale(e, now):
			delete(m.entries, key)
		case e.ended() && (!found || e.begun.Before(at)):
			oldest, at, found = key, e.begun, true
		}
	}
	if len(m.entries) >= m.most && found {
		delete(m.entries, oldest)
	}
	return len(m.entries) < m.most
}

func (m *memo[K, V]) fill(ctx context.Context, e *measured[V], measure func(context.Context) (V, error)) {
	ctx, cancel := context.WithTimeout(ctx, m.limit)
	defer cancel()
	defer close(e.done)
	select {
	case m.permits <- struct{}{}:
		defer func() { <-m.permits }()
	case <-ctx.Done():
		e.err = ctx.Err()
		return
	}
	// A panic here would be nobody's call: it must end neither the process nor
	// the wait of those who asked.
	defer func() {
		if cause := recover(); cause != nil {
			e.err = fmt.Errorf("panic: %v", cause)
		}
	}()
	e.value, e.err = measure(ctx)
}
