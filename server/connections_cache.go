package server

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a submit needs its connection, and thousands of submits a second need the
// same few. A connection that was read a moment ago is good enough for a submit: anything may
// change it between a read and the write, so the store checks it again. A connection that this
// server has changed is read again: a caller that has the answer to a change sees the change in
// its next call here. A connection that was not found is not cached: it may have been created
// since.

const (
	// connectionRefresh is the age from which one submit reads a connection again; the
	// others use the old one until it has. connectionMaxAge is the age at which none does.
	connectionRefresh = 100 * time.Millisecond
	connectionMaxAge  = 2 * connectionRefresh
	// maxConnectionsCached bounds the connections that are cached.
	maxConnectionsCached = 1000
)

// connectionCache caches the connections that submits read.
type connectionCache struct {
	store store.Connections
	seen  *cache.TTL[ownedID, *store.Connection]
	// ids has the connections that were read by their keys. A key names one connection for
	// as long as that exists.
	ids *cache.TTL[namedKey, job.ID]
}

// ownedID is an object of a project.
type ownedID struct {
	project string
	id      job.ID
}

type namedKey struct{ project, key string }

func newConnectionCache(s store.Connections, limit time.Duration) *connectionCache {
	return &connectionCache{
		store: s,
		seen: cache.New[ownedID, *store.Connection](cache.Options{
			Max: maxConnectionsCached, Age: connectionMaxAge, Refresh: connectionRefresh, Timeout: limit,
		}),
		ids: cache.New[namedKey, job.ID](cache.Options{Max: maxConnectionsCached}),
	}
}

// connection returns a connection as it was at most connectionMaxAge, and the time of one read,
// ago. Callers share it: it is never written to.
func (c *connectionCache) connection(ctx context.Context, project string, id job.ID) (*store.Connection, error) {
	conn, err := c.seen.Load(ctx, ownedID{project, id}, func(ctx context.Context) (*store.Connection, error) {
		conn, err := c.store.Connection(ctx, store.Ref{Project: project, ID: id})
		return &conn, err
	})
	// A read that another call began may have ended with its time, and this call has some left.
	if errors.Is(err, cache.ErrFull) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		conn, err := c.store.Connection(ctx, store.Ref{Project: project, ID: id})
		return &conn, err
	}
	return conn, err
}

// id returns the id of the connection that a client created under a key.
func (c *connectionCache) id(ctx context.Context, project, key string) (job.ID, error) {
	name := namedKey{project, key}
	if id, known := c.ids.Get(name); known {
		if _, err := c.connection(ctx, project, id); !errors.Is(err, store.ErrNotFound) {
			return id, err
		}
	}
	conn, err := c.store.Connection(ctx, store.Ref{Project: project, Key: key})
	if err != nil {
		return job.ID{}, err
	}
	c.ids.Put(name, conn.ID)
	return conn.ID, nil
}

// changeConnection changes a connection in the store and makes the next submit read it.
func (s *Server) changeConnection(ctx context.Context, c store.ConnectionChange) (store.Connection, error) {
	after, err := s.store.ChangeConnection(ctx, c)
	s.connections.forget(c.Project, c.ID)
	return after, err
}

// forget makes the next submit read a connection, which this server has changed.
func (c *connectionCache) forget(project string, id job.ID) {
	c.seen.Delete(ownedID{project, id})
}
