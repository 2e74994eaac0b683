package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file:
//   - calls of one kind that come during a transaction of that kind share the next one; a
//     single call does not wait;
//   - a call's items stay together in one flush, unless the database refuses its data: then
//     the flush is run again in halves, until the refused item is alone and has its verdict;
//   - a call whose caller gave up while it was queued never runs. The caller of a call that
//     was flushed waits for its verdict.

// call is one caller's items, and then their results.
type call[I, R any] struct {
	items   []I
	results []R
}

// coalescer runs calls of one kind together.
type coalescer[I, R any] struct {
	// run writes up to store.MaxBatch items in one transaction.
	run func(context.Context, []I) ([]R, error)
	// refused is the verdict on an item that the database itself refuses.
	refused func(error) R
	queue   *sqlstore.Queue[call[I, R]]
}

// newCoalescer starts one worker for each concurrent transaction of the kind. They run until
// close, in ctx.
func newCoalescer[I, R any](
	ctx context.Context, lanes int, run func(context.Context, []I) ([]R, error), refused func(error) R,
) *coalescer[I, R] {
	c := &coalescer[I, R]{run: run, refused: refused, queue: sqlstore.NewQueue[call[I, R]]()}
	var workers sync.WaitGroup
	for range max(1, lanes) {
		workers.Go(func() { c.work(ctx) })
	}
	go func() {
		workers.Wait()
		c.queue.End()
	}()
	return c
}

// close ends the workers after the flushes in progress, and waits for them. Calls that are
// still queued fail with ErrUnavailable.
func (c *coalescer[I, R]) close() { c.queue.Close() }

// do runs the items with those of other callers and returns their verdicts in order. It
// refuses more than store.MaxBatch items as a whole.
func (c *coalescer[I, R]) do(ctx context.Context, items []I) ([]R, error) {
	if err := cmp.Or(rules.Bounded(len(items)), c.queue.Check(ctx)); err != nil || len(items) == 0 {
		return nil, err
	}
	o := sqlstore.NewCall(call[I, R]{items: items})
	err := c.queue.Do(ctx, o)
	return o.Of.results, err
}

// work flushes queued calls whenever it is idle.
func (c *coalescer[I, R]) work(ctx context.Context) {
	for first := c.queue.Next(); first != nil; {
		var calls []*sqlstore.Call[call[I, R]]
		n := 0
		for first != nil && n+len(first.Of.items) <= store.MaxBatch {
			calls, n = append(calls, first), n+len(first.Of.items)
			first = c.queue.NextQueued()
		}
		c.flush(ctx, calls)
		if first == nil {
			first = c.queue.Next()
		}
	}
}

// flush runs the calls and answers them.
func (c *coalescer[I, R]) flush(ctx context.Context, calls []*sqlstore.Call[call[I, R]]) {
	items := itemsOf(calls)
	errs := make([]error, len(items))
	results, err := c.run(ctx, items)
	if err != nil {
		results = make([]R, len(items))
		c.failed(ctx, err, items, results, errs)
	}
	at := 0
	for _, o := range calls {
		end := at + len(o.Of.items)
		err := together(errs[at:end])
		if err == nil {
			o.Of.results = results[at:end:end]
		}
		at = end
		o.Done <- err
	}
}

// itemsOf returns the items of calls. Those of a single call are not copied, because no code
// writes to them.
func itemsOf[I, R any](calls []*sqlstore.Call[call[I, R]]) []I {
	if len(calls) == 1 {
		return calls[0].Of.items
	}
	n := 0
	for _, o := range calls {
		n += len(o.Of.items)
	}
	items := make([]I, 0, n)
	for _, o := range calls {
		items = append(items, o.Of.items...)
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
