package sqlstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/fireonce/fireonce/store"
)

// ErrClosed is the error of calls to a store that is closed.
var ErrClosed = fmt.Errorf("%w: closed", store.ErrUnavailable)

// maxQueued bounds the calls that wait; further callers wait outside.
const maxQueued = 1024

// Queue has calls that share transactions with those that come at the same time. A call whose
// caller gave up while it was queued never runs. The caller of a call that has begun waits for
// its answer.
type Queue[T any] struct {
	calls chan *Call[T]
	// Quit is closed when no more calls begin, and Ended when no worker runs any more.
	Quit, Ended chan struct{}
	once        sync.Once
}

// Call is a queued call.
type Call[T any] struct {
	Of T
	// Done gets the answer.
	Done chan error
	// taken reports that it has begun, or that its caller gave up.
	taken atomic.Bool
}

// NewCall returns a call that is not queued yet.
func NewCall[T any](of T) *Call[T] { return &Call[T]{Of: of, Done: make(chan error, 1)} }

// NewQueue returns an empty queue.
func NewQueue[T any]() *Queue[T] {
	return &Queue[T]{calls: make(chan *Call[T], maxQueued), Quit: make(chan struct{}), Ended: make(chan struct{})}
}

// Add queues a call. It waits for room.
func (q *Queue[T]) Add(ctx context.Context, c *Call[T]) error {
	if err := q.Check(ctx); err != nil {
		return err
	}
	select {
	case q.calls <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-q.Quit:
		return ErrClosed
	}
}

// Check returns why no call can be queued.
func (q *Queue[T]) Check(ctx context.Context) error {
	if err := ctx.Err(); err != nil || !q.closed() {
		return err
	}
	return ErrClosed
}

func (q *Queue[T]) closed() bool {
	select {
	case <-q.Quit:
		return true
	default:
		return false
	}
}

// Do queues a call and waits for its answer.
func (q *Queue[T]) Do(ctx context.Context, c *Call[T]) error {
	if err := q.Add(ctx, c); err != nil {
		return err
	}
	for gaveUp := ctx.Done(); ; {
		select {
		case err := <-c.Done:
			return err
		case <-gaveUp:
			if c.taken.CompareAndSwap(false, true) {
				return ctx.Err()
			}
			gaveUp = nil
		case <-q.Ended:
			select {
			case err := <-c.Done: // a worker may have answered just before it ended
				return err
			default:
				return ErrClosed
			}
		}
	}
}

// Next begins the next call, and waits for one.
func (q *Queue[T]) Next() *Call[T] {
	for !q.closed() {
		select {
		case c := <-q.calls:
			if c.taken.CompareAndSwap(false, true) {
				return c
			}
		case <-q.Quit:
		}
	}
	return nil
}

// NextQueued is Next for a call that is queued already; nil: there is none.
func (q *Queue[T]) NextQueued() *Call[T] {
	for !q.closed() {
		select {
		case c := <-q.calls:
			if c.taken.CompareAndSwap(false, true) {
				return c
			}
		default:
			return nil
		}
	}
	return nil
}

// Length returns how many calls wait, and how many may.
func (q *Queue[T]) Length() (waiting, limit int) { return len(q.calls), cap(q.calls) }

// Close lets no more calls begin, and waits for the workers.
func (q *Queue[T]) Close() {
	q.once.Do(func() { close(q.Quit) })
	<-q.Ended
}

// End records that all workers have ended. What they did not answer fails with ErrClosed.
func (q *Queue[T]) End() { close(q.Ended) }
