package cache

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrFull is the error of Load while as many keys as the cache may hold are being loaded.
var ErrFull = errors.New("cache: too many loads")

// load is one load under way. value and err are set before done is closed.
type load[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// Load is Get, and calls fetch where Get finds nothing. Concurrent calls for one key share
// one call of fetch. That runs in a goroutine of its own and does not end with a
// caller's context, so that a caller that leaves fails no other. An error is not stored.
// A stored value is as old as the beginning of its load.
func (c *TTL[K, V]) Load(ctx context.Context, key K, fetch func(context.Context) (V, error)) (V, error) {
	l, v, err := c.lookup(ctx, key, fetch)
	if l == nil {
		return v, err
	}
	select {
	case <-l.done:
		return l.value, l.err
	case <-ctx.Done():
		return v, ctx.Err()
	}
}

// lookup returns the load to wait for; nil: the value or error that is known already.
func (c *TTL[K, V]) lookup(ctx context.Context, key K, fetch func(context.Context) (V, error)) (l *load[V], v V, err error) {
	if v, ok := c.usable(key); ok {
		return nil, v, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, el := c.now(), c.entries[key]
	value, ok := c.read(el)
	l = c.loads[key]
	switch {
	case ok && (l != nil || within(c.options.Refresh, unwrap[K, V](el).at, now)):
		return nil, value, nil
	case l != nil:
		return l, v, nil
	case len(c.loads) >= c.options.Max:
		return nil, v, ErrFull
	}
	l = &load[V]{done: make(chan struct{})}
	c.loads[key] = l
	go c.run(context.WithoutCancel(ctx), key, l, now, fetch)
	return l, v, nil
}

// usable is the common case: there is a value that needs no refresh.
func (c *TTL[K, V]) usable(key K) (V, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	el := c.entries[key]
	v, ok := c.read(el)
	return v, ok && within(c.options.Refresh, unwrap[K, V](el).at, c.now())
}

func (c *TTL[K, V]) run(ctx context.Context, key K, l *load[V], began time.Time, fetch func(context.Context) (V, error)) {
	l.value, l.err = c.call(ctx, fetch)
	c.mu.Lock()
	if c.loads[key] == l { // else Delete was called meanwhile
		delete(c.loads, key)
		if l.err == nil {
			c.put(key, l.value, began)
		} else {
			c.remove(c.entries[key])
		}
	}
	c.mu.Unlock()
	close(l.done)
}

// call turns a panic into an error: in this goroutine it would end the process.
func (c *TTL[K, V]) call(ctx context.Context, fetch func(context.Context) (V, error)) (v V, err error) {
	if c.options.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.options.Timeout)
		defer cancel()
	}
	select {
	case c.permits <- struct{}{}:
		defer func() { <-c.permits }()
	case <-ctx.Done():
		return v, ctx.Err()
	}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return fetch(ctx)
}
