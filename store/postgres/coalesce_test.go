package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/fireonce/fireonce/store"
)

// verdict is the result of the test's runs for an item.
type verdict struct {
	item int
	err  error
}

// recorder is a run that keeps its batches, waits for the test before each, and fails on
// request.
type recorder struct {
	mu      sync.Mutex
	batches [][]int
	gate    chan struct{} // nil: never waits
	fail    func(items []int) error
}

func (r *recorder) run(_ context.Context, items []int) ([]verdict, error) {
	r.mu.Lock()
	r.batches = append(r.batches, slices.Clone(items))
	r.mu.Unlock()
	if r.gate != nil {
		<-r.gate
	}
	if r.fail != nil {
		if err := r.fail(items); err != nil {
			return nil, err
		}
	}
	out := make([]verdict, len(items))
	for i, item := range items {
		out[i] = verdict{item: item}
	}
	return out, nil
}

func (r *recorder) start(lanes int) *coalescer[int, verdict] {
	return newCoalescer(context.Background(), lanes, r.run, func(err error) verdict { return verdict{err: err} })
}

// callAnswer is what a caller got.
type callAnswer struct {
	out []verdict
	err error
}

// call starts a caller and returns the channel of its answer.
func (r *recorder) call(ctx context.Context, c *coalescer[int, verdict], items ...int) <-chan callAnswer {
	ch := make(chan callAnswer, 1)
	go func() {
		out, err := c.do(ctx, items)
		ch <- callAnswer{out, err}
	}()
	synctest.Wait()
	return ch
}

func TestCoalescerSharesTheNextFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		c := r.start(1)
		defer c.close()
		var answers []<-chan callAnswer
		for i := range 4 {
			answers = append(answers, r.call(t.Context(), c, 10*i, 10*i+1))
		}
		close(r.gate)
		for i, ch := range answers {
			a := <-ch
			if a.err != nil || !slices.Equal(a.out, []verdict{{item: 10 * i}, {item: 10*i + 1}}) {
				t.Errorf("caller %d: %v", i, a)
			}
		}
		want := [][]int{{0, 1}, {10, 11, 20, 21, 30, 31}}
		if !slices.EqualFunc(r.batches, want, slices.Equal[[]int]) {
			t.Errorf("batches %v, want %v", r.batches, want)
		}
	})
}

func TestCoalescerBoundsAFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		c := r.start(1)
		defer c.close()
		answers := []<-chan callAnswer{r.call(t.Context(), c, 1)}
		for range 3 {
			answers = append(answers, r.call(t.Context(), c, make([]int, store.MaxBatch/2+1)...))
		}
		answers = append(answers, r.call(t.Context(), c, 2))
		close(r.gate)
		for _, ch := range answers {
			if a := <-ch; a.err != nil {
				t.Error(a.err)
			}
		}
		var sizes []int
		for _, b := range r.batches {
			sizes = append(sizes, len(b))
		}
		if want := []int{1, 251, 251, 252}; !slices.Equal(sizes, want) {
			t.Errorf("sizes of the flushes %v, want %v", sizes, want)
		}
		if _, err := c.do(t.Context(), make([]int, store.MaxBatch+1)); !errors.Is(err, store.ErrIllegal) {
			t.Errorf("a call above the limit: %v", err)
		}
		if out, err := c.do(t.Context(), nil); len(out) != 0 || err != nil {
			t.Errorf("a call without items: %v, %v", out, err)
		}
	})
}

func TestCoalescerRunsNoAbandonedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		c := r.start(1)
		defer c.close()
		begunCtx, endBegun := context.WithCancel(t.Context())
		queuedCtx, endQueued := context.WithCancel(t.Context())
		begun := r.call(begunCtx, c, 1)
		queued := r.call(queuedCtx, c, 2)
		other := r.call(t.Context(), c, 3)
		endQueued()
		endBegun()
		if a := <-queued; !errors.Is(a.err, context.Canceled) {
			t.Errorf("the abandoned call: %v", a)
		}
		synctest.Wait()
		select {
		case a := <-begun:
			t.Errorf("a flushed call was answered before its verdict: %v", a)
		default:
		}
		close(r.gate)
		for _, ch := range []<-chan callAnswer{begun, other} {
			if a := <-ch; a.err != nil || len(a.out) != 1 {
				t.Errorf("got %v", a)
			}
		}
		if want := [][]int{{1}, {3}}; !slices.EqualFunc(r.batches, want, slices.Equal[[]int]) {
			t.Errorf("batches %v, want %v", r.batches, want)
		}
		if _, err := c.do(queuedCtx, []int{4}); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that had given up before: %v", err)
		}
	})
}

func TestCoalescerSplitsWhatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		r.fail = func(items []int) error {
			if slices.Contains(items, 13) {
				return fmt.Errorf("%w: thirteen", store.ErrIllegal)
			}
			return nil
		}
		c := r.start(1)
		defer c.close()
		first := r.call(t.Context(), c, 0)
		good := r.call(t.Context(), c, 1, 2, 3)
		bad := r.call(t.Context(), c, 4, 13, 5)
		close(r.gate)
		<-first
		if a := <-good; a.err != nil || !slices.Equal(a.out, []verdict{{item: 1}, {item: 2}, {item: 3}}) {
			t.Errorf("the good call: %v", a)
		}
		a := <-bad
		if a.err != nil || a.out[0] != (verdict{item: 4}) || a.out[2] != (verdict{item: 5}) {
			t.Fatalf("the bad call's good items: %v", a)
		}
		if !errors.Is(a.out[1].err, store.ErrIllegal) {
			t.Errorf("the bad item: %v", a.out[1])
		}
	})
}

func TestCoalescerErrorsOfAFlush(t *testing.T) {
	for _, whole := range []error{store.ErrUnavailable, store.ErrUnconfirmed} {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{gate: make(chan struct{}), fail: func([]int) error { return whole }}
			c := r.start(1)
			defer c.close()
			answers := []<-chan callAnswer{r.call(t.Context(), c, 1), r.call(t.Context(), c, 2), r.call(t.Context(), c, 3)}
			close(r.gate)
			for _, ch := range answers {
				if a := <-ch; !errors.Is(a.err, whole) || a.out != nil {
					t.Errorf("got %v, want %v", a, whole)
				}
			}
			if len(r.batches) != 2 {
				t.Errorf("a whole failure was run again: %v", r.batches)
			}
		})
	}
}

// The caller of a call that was split by a refusal, and of which only a part was written,
// must not get an error that means that nothing was written.
func TestCoalescerTornCall(t *testing.T) {
	r := &recorder{fail: func(items []int) error {
		switch {
		case len(items) > 1:
			return store.ErrIllegal
		case items[0] == 2:
			return store.ErrUnavailable
		default:
			return nil
		}
	}}
	c := r.start(1)
	defer c.close()
	_, err := c.do(t.Context(), []int{1, 2})
	if !errors.Is(err, store.ErrUnconfirmed) {
		t.Errorf("got %v, want %v", err, store.ErrUnconfirmed)
	}
}

func TestCoalescerClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{gate: make(chan struct{})}
		c := r.start(2)
		begun := []<-chan callAnswer{r.call(t.Context(), c, 1), r.call(t.Context(), c, 2)}
		queued := r.call(t.Context(), c, 3)
		if len(r.batches) != 2 {
			t.Fatalf("flushes under way in two lanes: %v", r.batches)
		}
		go c.close()
		synctest.Wait()
		close(r.gate)
		for _, ch := range begun {
			if a := <-ch; a.err != nil {
				t.Errorf("a flush under way: %v", a)
			}
		}
		if a := <-queued; !errors.Is(a.err, store.ErrUnavailable) {
			t.Errorf("a queued call: %v", a)
		}
		if _, err := c.do(t.Context(), []int{4}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a call after the end: %v", err)
		}
		c.close()
	})
}
