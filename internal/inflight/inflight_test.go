package inflight_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/inflight"
)

const wait = 3 * time.Second

// taken is the result of a Take in another goroutine.
type taken struct {
	hold inflight.Hold
	err  error
}

// begin calls Take in another goroutine, and returns when that call has ended or waits.
func begin(t *testing.T, b *inflight.Budget, owner string, size int64) chan taken {
	t.Helper()
	out := make(chan taken, 1)
	go func() {
		h, err := b.Take(t.Context(), owner, size)
		out <- taken{h, err}
	}()
	synctest.Wait()
	return out
}

func must(t *testing.T, b *inflight.Budget, owner string, size int64) inflight.Hold {
	t.Helper()
	h, err := b.Take(t.Context(), owner, size)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func done(c chan taken) bool { return len(c) == 1 }

func TestOwnersShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inflight.New(100, wait)
		first := must(t, b, "a", 1000) // half of it
		second := begin(t, b, "a", 1)
		if done(second) {
			t.Error("one owner holds more than half")
		}
		other := must(t, b, "b", 50)
		other.Release()
		first.Shrink(49)
		synctest.Wait()
		if !done(second) {
			t.Error("released bytes were not granted")
		}
		first.Release()
		first.Release()
		got := <-second
		got.hold.Release()
		must(t, b, "a", 50)
		must(t, b, "b", 50)
	})
}

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inflight.New(100, wait)
		x, y := must(t, b, "x", 50), must(t, b, "y", 40)
		large := begin(t, b, "a", 30)
		small := begin(t, b, "b", 5) // would fit, but must not pass the large one
		if done(large) || done(small) {
			t.Fatal("a new request passed a waiting one")
		}
		own := begin(t, b, "x", 1)
		y.Release()
		synctest.Wait()
		if !done(large) || !done(small) || done(own) {
			t.Errorf("large %v, small %v, above the share %v", done(large), done(small), done(own))
		}
		x.Release()
		synctest.Wait()
		if !done(own) {
			t.Error("the owner's share is free, but its request waits")
		}
	})
}

// TestOwnQueueIsInNoOthersWay checks that a request that waits behind its owner's own requests
// does not block other owners, whatever its size.
func TestOwnQueueIsInNoOthersWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inflight.New(100, wait)
		must(t, b, "a", 30)
		large, small := begin(t, b, "a", 40), begin(t, b, "a", 10)
		if done(large) || done(small) {
			t.Fatal("more than the share, or out of order")
		}
		if other := begin(t, b, "b", 10); !done(other) {
			t.Error("another owner waits, but there are bytes for it")
		}
	})
}

// TestWaitingPlaces checks that one owner's requests do not fill the whole queue.
func TestWaitingPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inflight.New(100, wait)
		must(t, b, "a", 50)
		last := must(t, b, "b", 50)
		for range inflight.MaxWaiting {
			begin(t, b, "a", 1)
		}
		other := begin(t, b, "c", 10)
		last.Release()
		synctest.Wait()
		if !done(other) {
			t.Fatal("it waits although bytes are free")
		}
		if got := <-other; got.err != nil {
			t.Errorf("another owner's request could not wait: %v", got.err)
		}
	})
}

// TestRefusedHoldsNothing checks that a request that could not wait returns no bytes to the
// budget that it never had.
func TestRefusedHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inflight.New(100, wait)
		must(t, b, "a", 50)
		first := begin(t, b, "a", 10)
		for range inflight.MaxWaiting/2 - 1 {
			begin(t, b, "a", 10)
		}
		refused, err := b.Take(t.Context(), "a", 50)
		if !errors.Is(err, inflight.ErrBusy) {
			t.Fatalf("one more than may wait: %v", err)
		}
		refused.Release()
		synctest.Wait()
		if done(first) {
			t.Error("its release let another one in")
		}
	})
}

func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inflight.New(100, wait)
		h := must(t, b, "a", 50)
		begun := time.Now()
		if _, err := b.Take(t.Context(), "a", 1); !errors.Is(err, inflight.ErrBusy) || time.Since(begun) != wait {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.Take(ctx, "a", 1); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		waiting := begin(t, b, "a", 10)
		for range inflight.MaxWaiting/2 - 1 {
			begin(t, b, "a", 1)
		}
		before := time.Now()
		if _, err := b.Take(t.Context(), "a", 1); !errors.Is(err, inflight.ErrBusy) || time.Since(before) != 0 {
			t.Errorf("one more than may wait: %v after %s", err, time.Since(before))
		}
		must(t, b, "b", 1)
		h.Release()
		if got := <-waiting; got.err != nil {
			t.Error(got.err)
		}
	})
}
