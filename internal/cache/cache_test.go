package cache_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/cache"
)

func TestGetUntilAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache.New[string, int](cache.Options{Max: 2, Age: time.Minute})
		if _, ok := c.Get("a"); ok {
			t.Fatal("an empty cache returned a value")
		}
		c.Put("a", 1)
		time.Sleep(time.Minute - time.Nanosecond)
		if v, ok := c.Get("a"); !ok || v != 1 {
			t.Fatalf("before its age: %d, %v", v, ok)
		}
		if v, ok := cache.GetBytes(c, []byte("a")); !ok || v != 1 {
			t.Fatalf("by bytes: %d, %v", v, ok)
		}
		time.Sleep(time.Nanosecond)
		if v, ok := c.Get("a"); ok {
			t.Fatalf("at its age: %d", v)
		}
		c.Put("a", 2)
		if v, ok := c.Get("a"); !ok || v != 2 {
			t.Fatalf("stored again: %d, %v", v, ok)
		}
	})
}

func TestGetWithoutAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache.New[int, int](cache.Options{Max: 1})
		c.Put(1, 1)
		time.Sleep(10000 * time.Hour)
		if _, ok := c.Get(1); !ok {
			t.Fatal("an entry without an age expired")
		}
		c.Delete(1)
		if _, ok := c.Get(1); ok {
			t.Fatal("a deleted entry is there")
		}
		c.Delete(1)
	})
}

func TestClockSetBack(t *testing.T) {
	now := time.Unix(1000, 0)
	c := cache.New[int, int](cache.Options{Max: 1, Age: time.Minute, Now: func() time.Time { return now }})
	c.Put(1, 1)
	now = now.Add(-time.Second)
	if _, ok := c.Get(1); ok {
		t.Error("an entry whose age is not known was returned")
	}
}

func TestMaxRemovesTheOldest(t *testing.T) {
	c := cache.New[int, int](cache.Options{Max: 3})
	for i := range 3 {
		c.Put(i, i)
	}
	c.Put(0, 10) // stored again: now the newest
	c.Put(3, 3)
	for key, there := range map[int]bool{0: true, 1: false, 2: true, 3: true} {
		if _, ok := c.Get(key); ok != there {
			t.Errorf("key %d: %v, want %v", key, ok, there)
		}
	}
	if c.Len() != 3 {
		t.Errorf("%d entries, want 3", c.Len())
	}
}

// TestRemoveAny: keys that are read in turn, one more of them than fit, are nearly all found.
func TestRemoveAny(t *testing.T) {
	const most, rounds = 1000, 10
	c := cache.New[int, int](cache.Options{Max: most, RemoveAny: true})
	missed := 0
	for range rounds {
		for key := range most + 1 {
			if _, ok := c.Get(key); !ok {
				missed++
				c.Put(key, key)
			}
		}
	}
	if missed -= most + 1; missed < rounds-1 || missed > most {
		t.Errorf("%d keys were missed in %d rounds after the first", missed, rounds-1)
	}
	if c.Len() != most {
		t.Errorf("%d entries, want %d", c.Len(), most)
	}
}

func TestExpiredEntriesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache.New[int, int](cache.Options{Max: 100, Age: time.Minute})
		for i := range 10 {
			c.Put(i, i)
		}
		time.Sleep(time.Minute)
		if c.Put(10, 10); c.Len() != 1 {
			t.Errorf("%d entries, want the fresh one alone", c.Len())
		}
	})
}

func TestGetOrPut(t *testing.T) {
	c := cache.New[int, *int](cache.Options{Max: 1})
	first := c.GetOrPut(1, func() *int { return new(int) })
	if again := c.GetOrPut(1, func() *int { t.Error("created again"); return nil }); again != first {
		t.Error("two values for one key")
	}
	if other := c.GetOrPut(2, func() *int { return new(int) }); other == first {
		t.Error("one value for two keys")
	}
}

func TestUpdate(t *testing.T) {
	c := cache.New[int, int](cache.Options{Max: 1})
	for want := 1; want <= 3; want++ {
		c.Update(1, func(old int, found bool) int {
			if found != (want > 1) {
				t.Errorf("update %d: found %v", want, found)
			}
			return old + 1
		})
		if v, _ := c.Get(1); v != want {
			t.Errorf("after update %d: %d", want, v)
		}
	}
}

func TestNewNeedsMax(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New made a cache that holds nothing")
		}
	}()
	cache.New[int, int](cache.Options{})
}

func BenchmarkGetBytes(b *testing.B) {
	c := cache.New[string, int](cache.Options{Max: 512})
	key := []byte("https://example.com/hook")
	c.Put(string(key), 1)
	b.ReportAllocs()
	for b.Loop() {
		cache.GetBytes(c, key)
	}
}
