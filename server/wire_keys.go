package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: answers and events name a connection or a schedule by the key under which a
// client created it, beside its id. Jobs and events are stored with the id alone. A key never
// changes, so the cache serves almost every answer, and an answer reads the connections that it
// lacks together. A key that is erased is shown for shownKeyMaxAge at most.

const (
	// shownKeyMaxAge is how long a key is cached, maxShownKeys how many are.
	shownKeyMaxAge = time.Minute
	maxShownKeys   = 20_000
)

// keyReader reads keys of connections and schedules.
type keyReader struct {
	store Store
	seen  *cache.TTL[ownedID, string]
}

func newKeyReader(s Store, now func() time.Time) *keyReader {
	return &keyReader{store: s, seen: cache.New[ownedID, string](cache.Options{Max: maxShownKeys, Age: shownKeyMaxAge, RemoveAny: true, Now: now})}
}

// keys returns the keys of connections and schedules of a project by their ids. It has none for
// what was erased.
func (r *keyReader) keys(ctx context.Context, project string, connections, schedules []job.ID) (map[job.ID]string, error) {
	out := make(map[job.ID]string)
	found, err := connectionsOf(ctx, r.store, project, r.known(out, project, connections))
	if err != nil {
		return nil, err
	}
	for _, c := range found {
		out[c.ID] = c.Key
		r.seen.Put(ownedID{project, c.ID}, c.Key)
	}
	for _, id := range r.known(out, project, schedules) {
		s, err := r.store.Schedule(ctx, store.Ref{Project: project, ID: id})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("read the key of a schedule: %w", err)
		}
		out[id] = s.Key
		r.seen.Put(ownedID{project, id}, s.Key)
	}
	return out, nil
}

// connectionsOf reads connections by their ids, deleted ones too.
func connectionsOf(ctx context.Context, s Store, project string, ids []job.ID) (out []store.Connection, err error) {
	for batch := range slices.Chunk(ids, maxPage) {
		page, err := s.ListConnections(ctx, store.ConnectionQuery{Project: project, Connections: batch, Deleted: true, Limit: maxPage})
		if err != nil {
			return nil, fmt.Errorf("read connections: %w", err)
		}
		out = append(out, page.Connections...)
	}
	return out, nil
}

// known fills in the keys that are cached, and returns the ids of the others, each once.
func (r *keyReader) known(out map[job.ID]string, project string, ids []job.ID) (others []job.ID) {
	for _, id := range ids {
		if _, done := out[id]; done || id.IsZero() {
			continue
		}
		key, cached := r.seen.Get(ownedID{project, id})
		if out[id] = key; !cached {
			others = append(others, id)
		}
	}
	return others
}
