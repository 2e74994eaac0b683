package cache_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/cache"
)

// counted returns a load that takes a second and returns how often it was called.
func counted(calls *atomic.Int64) func(context.Context) (int64, error) {
	return func(context.Context) (int64, error) {
		n := calls.Add(1)
		time.Sleep(time.Second)
		return n, nil
	}
}

func TestLoadIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, failed atomic.Int64
		c := cache.New[string, int64](cache.Options{Max: 10, Age: time.Minute})
		for range 20 {
			go func() {
				if v, err := c.Load(t.Context(), "a", counted(&calls)); err != nil || v != 1 {
					failed.Add(1)
				}
			}()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if calls.Load() != 1 || failed.Load() != 0 {
			t.Fatalf("%d loads, %d callers without the value", calls.Load(), failed.Load())
		}
		time.Sleep(57 * time.Second) // 59 s after the load began
		if v, err := c.Load(t.Context(), "a", counted(&calls)); err != nil || v != 1 {
			t.Fatalf("within its age: %d, %v", v, err)
		}
		time.Sleep(time.Second)
		if v, err := c.Load(t.Context(), "a", counted(&calls)); err != nil || v != 2 {
			t.Fatalf("a minute after its load began: %d, %v", v, err)
		}
	})
}

func TestLoadOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		c := cache.New[string, int64](cache.Options{Max: 10})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := c.Load(ctx, "a", counted(&calls)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a caller that left: %v", err)
		}
		if v, err := c.Load(t.Context(), "a", counted(&calls)); err != nil || v != 1 {
			t.Fatalf("a caller that stayed: %d, %v", v, err)
		}
	})
}

func TestLoadErrorsAreNotStored(t *testing.T) {
	broken := errors.New("broken")
	c := cache.New[string, int](cache.Options{Max: 10})
	for name, fetch := range map[string]func(context.Context) (int, error){
		"broken": func(context.Context) (int, error) { return 0, broken },
		"panic":  func(context.Context) (int, error) { panic("oops") },
	} {
		if _, err := c.Load(t.Context(), name, fetch); err == nil || !strings.Contains(err.Error(), strings.Replace(name, "panic", "oops", 1)) {
			t.Errorf("%s: %v", name, err)
		}
		if v, err := c.Load(t.Context(), name, func(context.Context) (int, error) { return 7, nil }); err != nil || v != 7 {
			t.Errorf("%s, loaded again: %d, %v", name, v, err)
		}
	}
}

func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		c := cache.New[string, int64](cache.Options{Max: 10, Age: time.Minute, Refresh: 30 * time.Second})
		load := func() int64 {
			v, err := c.Load(t.Context(), "a", counted(&calls))
			if err != nil {
				t.Error(err)
			}
			return v
		}
		load()
		time.Sleep(29 * time.Second)
		first := make(chan int64, 1)
		go func() { first <- load() }()
		synctest.Wait()
		if v := load(); v != 1 {
			t.Errorf("while it is refreshed: %d, want the old value", v)
		}
		if v := <-first; v != 2 {
			t.Errorf("the caller that refreshes it got %d, want the new value", v)
		}
		if v := load(); v != 2 {
			t.Errorf("after the refresh: %d", v)
		}
	})
}

func TestFailedRefreshRemoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache.New[string, int](cache.Options{Max: 10, Age: time.Minute, Refresh: 30 * time.Second})
		c.Put("a", 1)
		time.Sleep(30 * time.Second)
		if _, err := c.Load(t.Context(), "a", func(context.Context) (int, error) { return 0, errors.New("gone") }); err == nil {
			t.Error("the refresh failed, and its caller got a value")
		}
		if v, ok := c.Get("a"); ok {
			t.Errorf("after a failed refresh: %d", v)
		}
	})
}

func TestDeleteDuringLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		c := cache.New[string, int64](cache.Options{Max: 10})
		first := make(chan int64, 1)
		go func() {
			v, _ := c.Load(t.Context(), "a", counted(&calls))
			first <- v
		}()
		synctest.Wait()
		c.Delete("a")
		if v, err := c.Load(t.Context(), "a", counted(&calls)); err != nil || v != 2 {
			t.Errorf("after Delete: %d, %v", v, err)
		}
		if v := <-first; v != 1 {
			t.Errorf("the caller from before got %d", v)
		}
		if v, ok := c.Get("a"); !ok || v != 2 {
			t.Errorf("stored: %d, %v", v, ok)
		}
	})
}

func TestLoadBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		c := cache.New[int, int](cache.Options{Max: 4, Concurrent: 2, Timeout: 90 * time.Second})
		slow := func(context.Context) (int, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(time.Minute)
			return 0, nil
		}
		errs := make(chan error, 4)
		for i := range 4 {
			go func() {
				_, err := c.Load(t.Context(), i, slow)
				errs <- err
			}()
		}
		synctest.Wait()
		if _, err := c.Load(t.Context(), 4, slow); !errors.Is(err, cache.ErrFull) {
			t.Errorf("a fifth load: %v", err)
		}
		for range 4 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if most.Load() != 2 {
			t.Errorf("%d loads ran concurrently, want 2", most.Load())
		}
	})
}

func TestLoadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache.New[int, int](cache.Options{Max: 4, Concurrent: 1, Timeout: time.Second})
		hang := func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		go func() { _, _ = c.Load(t.Context(), 1, hang) }()
		synctest.Wait()
		if _, err := c.Load(t.Context(), 2, hang); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a load that waits for another: %v", err)
		}
	})
}
