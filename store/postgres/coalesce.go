package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - calls of one kind that come during a transaction of that kind share the next one; a
//     single call does not wait;
//   - a call's items stay together in one flush, unless the database refuses its data: then
//     the flush is run again in halves, until the refused item is alone and has its verdict;
//   - a call whose caller gave up while it was queued never runs. The caller of a call that
//     was flushed waits for its verdict.

// maxQueued bounds the calls of one kind that wait; further callers wait outside.
const maxQueued = 1024

// The states of a queued call.
const (
	callQueued int32 = iota
	callBegun
	callAbandoned
)

// call is one caller's items, and then their results.
type call[I, R any] struct {
	items   []I
	state   atomic.Int32
	results []R
	err     error
	done    chan struct{}
}

// coalescer runs calls of one kind together.
type coalescer[I, R any] struct {
	// run writes up to store.MaxBatch items in one transaction.
	run func(context.Context, []I) ([]R, error)
	// refused is the verdict on an item that the database itself refuses.
	refused func(error) R
	queue   chan *call[I, R]
	quit    chan struct{}
	once    sync.Once
	workers sync.WaitGroup
	// ended is closed when no worker runs any more.
	ended chan struct{}
}

// newCoalescer starts one worker for each concurrent transaction of the kind. They run until
// close, in ctx.
func newCoalescer[I, R any](
	ctx context.Context, lanes int, run func(context.Context, []I) ([]R, error), refused func(error) R,
) *coalescer[I, R] {
	c := &coalescer[I, R]{
		run: run, refused: refused, queue: make(chan *call[I, R], maxQueued),
		quit: make(chan struct{}), ended: make(chan struct{}),
	}
	for range max(1, lanes) {
		c.workers.Go(func() { c.work(ctx) })
	}
	go func() {
		c.workers.Wait()
		close(c.ended)
	}()
	return c
}

// close ends the workers after the flushes in progress, and waits for them. Calls that are
// still queued fail with ErrUnavailable.
func (c *coalescer[I, R]) close() {
	c.once.Do(func() { close(c.quit) })
	<-c.ended
}

// do runs the items with those of other callers and returns their verdicts in order. It
// refuses more than store.MaxBatch items as a whole.
func (c *coalescer[I, R]) do(ctx context.Context, items []I) ([]R, error) {
	if len(items) > store.MaxBatch {
		return nil, fmt.Errorf("%w: %d items, at most %d", store.ErrIllegal, len(items), store.MaxBatch)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-c.quit:
		return nil, errClosed
	default:
	}
	if len(items) == 0 {
		return nil, nil
	}
	o := &call[I, R]{items: items, done: make(chan struct{})}
	select {
	case c.queue <- o:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.quit:
		return nil, errClosed
	}
	select {
	case <-o.done:
		return o.results, o.err
	case <-ctx.Done():
		if o.state.CompareAndSwap(callQueued, callAbandoned) {
			return nil, ctx.Err()
		}
		<-o.done
		return o.results, o.err
	case <-c.ended:
		// A worker may have answered just before it ended.
		select {
		case <-o.done:
			return o.results, o.err
		default:
			return nil, errClosed
		}
	}
}

var errClosed = fmt.Errorf("%w: closed", store.ErrUnavailable)

// work flushes queued calls whenever it is idle.
func (c *coalescer[I, R]) work(ctx context.Context) {
	var first *call[I, R] // did not fit into the flush before
	for {
		select {
		case <-c.quit:
			return
		default:
		}
		if first == nil {
			select {
			case <-c.quit:
				return
			case first = <-c.queue:
			}
		}
		var calls []*call[I, R]
		calls, first = c.gather(first)
		c.flush(ctx, calls)
	}
}

// gather takes the first call and those queued behind it that fit into one
// batch; left is one that did not.
func (c *coalescer[I, R]) gather(first *call[I, R]) (calls []*call[I, R], left *call[I, R]) {
	n := 0
	for o := first; ; {
		if n+len(o.items) > store.MaxBatch {
			return calls, o
		}
		if o.state.CompareAndSwap(callQueued, callBegun) {
			calls = append(calls, o)
			n += len(o.items)
		}
		select {
		case o = <-c.queue:
		default:
			return calls, nil
		}
	}
}

// flush runs the calls and answers them.
func (c *coalescer[I, R]) flush(ctx context.Context, calls []*call[I, R]) {
	items := itemsOf(calls)
	if len(items) == 0 {
		return
	}
	errs := make([]error, len(items))
	results, err := c.run(ctx, items)
	if err != nil {
		results = make([]R, len(items))
		c.failed(ctx, err, items, results, errs)
	}
	at := 0
	for _, o := range calls {
		end := at + len(o.items)
		if o.err = together(errs[at:end]); o.err == nil {
			o.results = results[at:end:end]
		}
		at = end
		close(o.done)
	}
}

// itemsOf returns the items of calls. Those of a single call are not copied, because no code
// writes to them.
func itemsOf[I, R any](calls []*call[I, R]) []I {
	if len(calls) == 1 {
		return calls[0].items
	}
	n := 0
	for _, o := range calls {
		n += len(o.items)
	}
	items := make([]I, 0, n)
	for _, o := range calls {
		items = append(items, o.items...)
	}
	return items
}

// split runs the items.
func (c *coalescer[I, R]) split(ctx context.Context, items []I, results []R, errs []error) {
	if out, err := c.run(ctx, items); err == nil {
		copy(results, out)
	} else {
		c.failed(ctx, err, items, results, errs)
	}
}

// failed sets the error of a run's items or, after a refusal, runs the halves of the items,
// so that the refused items end up alone.
func (c *coalescer[I, R]) failed(ctx context.Context, err error, items []I, results []R, errs []error) {
	switch {
	case !isRefusal(err):
		for i := range errs {
			errs[i] = err
		}
	case len(items) == 1:
		results[0] = c.refused(err)
	default:
		half := len(items) / 2
		c.split(ctx, items[:half], results[:half], errs[:half])
		c.split(ctx, items[half:], results[half:], errs[half:])
	}
}

// isRefusal reports whether a batch failed because of its items, with nothing written: other
// items may be fine.
func isRefusal(err error) bool { return errors.Is(err, store.ErrIllegal) }

// together returns the error of a call whose items ended with errs. If a part was written,
// the call is unconfirmed.
func together(errs []error) error {
	var failed error
	written := false
	for _, err := range errs {
		switch {
		case err == nil:
			written = true
		case failed == nil || errors.Is(err, store.ErrUnconfirmed):
			failed = err
		}
	}
	if failed != nil && written && !errors.Is(failed, store.ErrUnconfirmed) {
		return fmt.Errorf("%w: a part was written: %w", store.ErrUnconfirmed, failed)
	}
	return failed
}
