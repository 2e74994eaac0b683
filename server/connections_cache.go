package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a submit needs its connection, and thousands in a second
// need the same few. So a connection that was read a moment ago is good enough
// for a submit: somebody may change it between any read and the write, which is
// why the store checks it again. What this server has changed itself is read anew: who
// has the answer to a change sees it in his next call here. What was not found is read again every time:
// it may have been made since.

const (
	// connectionKept is how old a connection may be that a submit is checked with.
	connectionKept = 100 * time.Millisecond
	// maxConnectionsKept bounds the connections that are kept.
	maxConnectionsKept = 1000
)

// connectionCache keeps the connections that were read a moment ago.
type connectionCache struct {
	store store.Connections

	mu   sync.Mutex
	seen map[connectionCacheKey]*cachedConnection
	// ids has the connections that were read by their keys. A key names one connection for
	// as long as that exists.
	ids map[namedKey]job.ID
	// forgot counts the calls of forget: a read that one came into is not kept.
	forgot int
}

type connectionCacheKey struct {
	project string
	id      job.ID
}

type namedKey struct{ project, key string }

type cachedConnection struct {
	conn *store.Connection
	at   time.Time
}

func newConnectionCache(s store.Connections) *connectionCache {
	return &connectionCache{store: s, seen: make(map[connectionCacheKey]*cachedConnection), ids: make(map[namedKey]job.ID)}
}

// connection gives a connection as it was at most latelyKept, and the time for
// one read, ago. Others have it, too: it is never written to.
func (l *connectionCache) connection(ctx context.Context, project string, id job.ID) (*store.Connection, error) {
	key := connectionCacheKey{project, id}
	kept, forgot := l.fresh(key, time.Now())
	if kept != nil {
		return kept, nil
	}
	at := time.Now()
	conn, err := l.store.Connection(ctx, store.Ref{Project: project, ID: id})
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		delete(l.seen, key)
		return nil, err
	}
	if l.forgot != forgot {
		return &conn, nil
	}
	if len(l.seen) >= maxConnectionsKept {
		clear(l.seen)
	}
	l.seen[key] = &cachedConnection{&conn, at}
	return &conn, nil
}

// id gives the id of the connection that a client made under a key.
func (l *connectionCache) id(ctx context.Context, project, key string) (job.ID, error) {
	name := namedKey{project, key}
	l.mu.Lock()
	id, known := l.ids[name]
	l.mu.Unlock()
	if known {
		if _, err := l.connection(ctx, project, id); !errors.Is(err, store.ErrNotFound) {
			return id, err
		}
	}
	conn, err := l.store.Connection(ctx, store.Ref{Project: project, Key: key})
	if err != nil {
		return job.ID{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ids) >= maxConnectionsKept {
		clear(l.ids)
	}
	l.ids[name] = conn.ID
	return conn.ID, nil
}

// forget has a connection read again: this server has changed it.
func (l *connectionCache) forget(project string, id job.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgot++
	delete(l.seen, connectionCacheKey{project, id})
}

// fresh gives what is kept, nil for nothing. Of those who find it too old the first
// reads it again, and the others go on with what there is until then.
func (l *connectionCache) fresh(key connectionCacheKey, now time.Time) (kept *store.Connection, forgot int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.seen[key]
	switch age := now.Sub(timeOf(s)); {
	case !ok, age >= 2*connectionKept:
		return nil, l.forgot
	case age >= connectionKept:
		s.at = now.Add(-connectionKept / 2)
		return nil, l.forgot
	default:
		return s.conn, l.forgot
	}
}

func timeOf(s *cachedConnection) time.Time {
	if s == nil {
		return time.Time{}
	}
	return s.at
}
