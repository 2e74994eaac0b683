package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/store"
)

const (
	// keyMaxAge is the age up to which a key that was read is believed: the time within
	// which a revocation takes effect.
	keyMaxAge = 5 * time.Second
	// maxKnownKeys and maxTriedKeys bound the keys that are cached: those that were right
	// before, and all others. maxKeyReads and maxTriedReads bound the concurrent reads of the
	// store for each. So a caller that tries keys that do not exist crowds out no caller that
	// has one.
	maxKnownKeys, maxKeyReads   = 4096, 8
	maxTriedKeys, maxTriedReads = 1024, 2
	// useWritten is the time between two writes of a key's last use.
	useWritten = time.Minute
)

// keyCache reads API keys from the store, and caches them.
type keyCache struct {
	store        store.APIKeys
	limit        time.Duration
	known, tried *cache.TTL[string, *cachedKey]
	confirmed    *cache.TTL[string, struct{}] // ids of keys that came with their secret

	mu     sync.Mutex
	ended  bool
	writes sync.WaitGroup
}

// cachedKey is the store's answer about an id; the zero key: there is none.
type cachedKey struct {
	store.APIKey
	found   bool
	written atomic.Bool // its use is written, or was found to be
}

func newKeyCache(s store.APIKeys, now func() time.Time, limit time.Duration) *keyCache {
	keys := func(most, reads int) *cache.TTL[string, *cachedKey] {
		return cache.New[string, *cachedKey](cache.Options{Max: most, Age: keyMaxAge, Timeout: limit, Concurrent: reads, Now: now})
	}
	return &keyCache{
		store: s, limit: limit, known: keys(maxKnownKeys, maxKeyReads), tried: keys(maxTriedKeys, maxTriedReads),
		confirmed: cache.New[string, struct{}](cache.Options{Max: maxKnownKeys}),
	}
}

// get returns a key as the store had it at most keyMaxAge ago. It fails with cache.ErrFull.
func (c *keyCache) get(ctx context.Context, id string) (*cachedKey, error) {
	from := c.tried
	if c.knows(id) {
		from = c.known
	}
	return from.Load(ctx, id, func(ctx context.Context) (*cachedKey, error) {
		k, err := c.store.APIKey(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return &cachedKey{}, nil
		case err != nil:
			return nil, err
		}
		return &cachedKey{APIKey: k, found: true}, nil
	})
}

// forget makes the next call read a key, which this server has changed. A nil cache has none.
func (c *keyCache) forget(id string) {
	if c == nil {
		return
	}
	c.known.Delete(id)
	c.tried.Delete(id)
}

// knows reports whether a key came with its secret before.
func (c *keyCache) knows(id string) bool {
	_, known := c.confirmed.Get(id)
	return known
}

// used remembers that a key came with its secret, and writes the time of its use. The call does
// not wait for the write, which does not end with the call's context.
func (c *keyCache) used(ctx context.Context, k *cachedKey) {
	written := k.written.Swap(true)
	if !c.knows(k.ID) {
		c.confirmed.Put(k.ID, struct{}{})
	}
	if written || k.Now.Sub(k.LastUsed) < useWritten {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.writes.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, c.limit)
		defer cancel()
		// For people, and coarse: the next use writes what this one could not.
		_, _ = c.store.TouchAPIKey(ctx, k.ID, useWritten)
	})
}

// close waits for the writes under way.
func (c *keyCache) close() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.writes.Wait()
}
