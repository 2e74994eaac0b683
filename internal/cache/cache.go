// Package cache holds values for a while: a bounded map whose entries expire, and
// loads that callers share.
package cache

import (
	"container/list"
	"sync"
	"time"
)

// Options configure a TTL. Max is required.
type Options struct {
	// Max bounds the entries. A new one beyond it removes the oldest.
	Max int
	// RemoveAny removes any entry instead of the oldest. It is for keys that are read in turn: with
	// one more of them than Max, the oldest would always be the next.
	RemoveAny bool
	// Age is how long an entry is returned. Zero: until it is removed.
	Age time.Duration
	// Refresh is the age from which Load loads an entry again, before it expires: one
	// caller waits for the new value, the others get the old one meanwhile. Zero: never.
	Refresh time.Duration
	// Timeout bounds one load, its wait for Concurrent included. Zero: no bound.
	Timeout time.Duration
	// Concurrent bounds the loads at one time, of all keys together. Zero: Max.
	Concurrent int
	// Now is the clock of ages; nil: time.Now.
	Now func() time.Time
}

// TTL maps keys to values for a limited time. It is safe for concurrent use. Callers share
// the values: what a value points to must not be changed.
type TTL[K comparable, V any] struct {
	options Options
	permits chan struct{} // one for each load that runs

	mu      sync.RWMutex
	entries map[K]*list.Element
	order   list.List // of *entry[K, V], oldest first
	loads   map[K]*load[V]
}

type entry[K comparable, V any] struct {
	key   K
	value V
	at    time.Time // zero: entries of this cache have no age
}

// New makes a cache. It panics when Max is not positive.
func New[K comparable, V any](o Options) *TTL[K, V] {
	if o.Max <= 0 {
		panic("cache: Max must be positive")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Concurrent <= 0 {
		o.Concurrent = o.Max
	}
	return &TTL[K, V]{
		options: o,
		permits: make(chan struct{}, o.Concurrent),
		entries: make(map[K]*list.Element),
		loads:   make(map[K]*load[V]),
	}
}

// Get returns the value of a key, unless there is none or it has expired.
func (c *TTL[K, V]) Get(key K) (V, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.read(c.entries[key])
}

// GetBytes is Get for a key in bytes; it does not copy them.
func GetBytes[V any](c *TTL[string, V], key []byte) (V, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.read(c.entries[string(key)])
}

// Put stores a value, which is as old as this call.
func (c *TTL[K, V]) Put(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(key, value, c.now())
}

// GetOrPut is Get, and stores what create returns where Get finds nothing. Calls for one
// key return one value. create must not call the cache.
func (c *TTL[K, V]) GetOrPut(key K, create func() V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.read(c.entries[key]); ok {
		return v
	}
	v := create()
	c.put(key, v, c.now())
	return v
}

// Update stores what change makes of the value of a key; found is false where Get finds
// nothing. change must not call the cache.
func (c *TTL[K, V]) Update(key K, change func(old V, found bool) V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, found := c.read(c.entries[key])
	c.put(key, change(old, found), c.now())
}

// Delete removes a key. The result of a load under way is not stored, and not returned
// to calls of Load that begin later.
func (c *TTL[K, V]) Delete(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.loads, key)
	c.remove(c.entries[key])
}

// Len returns how many entries there are, expired ones that were not removed yet included.
func (c *TTL[K, V]) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.entries)
}

// now spares caches whose entries have no age the clock.
func (c *TTL[K, V]) now() time.Time {
	if c.options.Age <= 0 && c.options.Refresh <= 0 {
		return time.Time{}
	}
	return c.options.Now()
}

func (c *TTL[K, V]) read(el *list.Element) (V, bool) {
	if el != nil {
		if e := unwrap[K, V](el); within(c.options.Age, e.at, c.now()) {
			return e.value, true
		}
	}
	var none V
	return none, false
}

// put and remove need mu.
func (c *TTL[K, V]) put(key K, value V, at time.Time) {
	c.remove(c.entries[key])
	now := c.now()
	for el := c.order.Front(); el != nil; el = c.order.Front() {
		if within(c.options.Age, unwrap[K, V](el).at, now) {
			if len(c.entries) < c.options.Max {
				break
			}
			if c.options.RemoveAny {
				el = c.anyEntry()
			}
		}
		c.remove(el)
	}
	c.entries[key] = c.order.PushBack(&entry[K, V]{key, value, at})
}

// anyEntry returns an entry that the runtime chooses; nil: there is none.
func (c *TTL[K, V]) anyEntry() *list.Element {
	for _, el := range c.entries {
		return el
	}
	return nil
}

func (c *TTL[K, V]) remove(el *list.Element) {
	if el != nil {
		delete(c.entries, unwrap[K, V](el).key)
		c.order.Remove(el)
	}
}

func unwrap[K comparable, V any](el *list.Element) *entry[K, V] {
	e, _ := el.Value.(*entry[K, V])
	return e
}

// within reports whether something from a time is not as old as limit yet. What is from
// the future was stored before the clock was set back; its age is not known.
func within(limit time.Duration, from, now time.Time) bool {
	age := now.Sub(from)
	return limit <= 0 || age >= 0 && age < limit
}
