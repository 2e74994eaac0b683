package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/notice"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the callbacks to a connection are a subscription that the service keeps. It is
// stored before the first job that names the connection, so it stands before that job's events.

const (
	// callbackAge is how long the subscription for the callbacks to a connection is known to be
	// there. An erasure of its project removes it.
	callbackAge = 30 * time.Second
	// callbackKey begins the keys of these subscriptions.
	callbackKey = job.ReservedKeyPrefix + "callbacks/"
)

func newCallbackCache(limit time.Duration) *cache.TTL[ownedID, bool] {
	return cache.New[ownedID, bool](cache.Options{Max: maxConnectionsCached, Age: callbackAge, Timeout: limit})
}

// callbackTo returns the connection that a request's callback names, and ensures that its callbacks are
// made. dry: it only checks the connection.
func (s *Server) callbackTo(ctx context.Context, project, key string, dry bool) (job.ID, error) {
	if key == "" {
		return job.ID{}, nil
	}
	id, err := s.callbackID(ctx, project, key)
	if err != nil {
		return id, err
	}
	missing := noCallback(key)
	if dry {
		return id, notFoundAs(wrapped("callback", s.checkCallbacks(ctx, project, id)), missing)
	}
	_, err = s.callbacks.Load(ctx, ownedID{project, id}, func(ctx context.Context) (bool, error) {
		return true, s.keepCallbacks(ctx, project, id)
	})
	return id, notFoundAs(wrapped("callback", err), missing)
}

// callbackID returns the id of the connection that a callback names.
func (s *Server) callbackID(ctx context.Context, project, key string) (job.ID, error) {
	id, err := s.connections.id(ctx, project, key)
	if err != nil {
		return id, notFoundAs(fmt.Errorf("read the connection: %w", err), noCallback(key))
	}
	return id, nil
}

// noCallback is the fault for a callback that names no connection.
func noCallback(key string) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND, fmt.Sprintf("no connection with idempotency key %q", key), "callback", key)
}

// checkCallbacks refuses a connection that callbacks cannot be sent by.
func (s *Server) checkCallbacks(ctx context.Context, project string, id job.ID) error {
	conn, err := s.connections.connection(ctx, project, id)
	switch {
	case err != nil:
		return err
	case !conn.Deleted.IsZero():
		return store.ErrNotFound
	case conn.Connector != notice.CallbackConnector:
		return cannotCarry(id, errors.New("callback names a connection of "+conn.Connector+"; it must be one of "+notice.CallbackConnector))
	}
	err = notice.Check(s.cfg.Connectors, *conn, nil, s.cfg.NewID())
	if cannot, ok := errors.AsType[*notice.CannotCarryError](err); ok {
		return cannotCarry(id, cannot)
	}
	return err
}

// keepCallbacks stores the subscription for the callbacks to a connection.
func (s *Server) keepCallbacks(ctx context.Context, project string, id job.ID) error {
	if err := s.checkCallbacks(ctx, project, id); err != nil {
		return err
	}
	fresh := store.Subscription{ID: s.cfg.NewID(), Project: project, Key: callbackKey + id.String(), Callbacks: true, Connection: id}
	fresh.Fingerprint.Set("callbacks", id[:])
	_, _, err := s.store.CreateSubscription(ctx, store.NewSubscription{Subscription: fresh})
	return err
}

// callbackOf returns the key of the connection that a job's end is reported to.
func (s *jobService) callbackOf(ctx context.Context, snap job.Snapshot) (string, error) {
	names, err := s.store.JobNames(ctx, snap.Project, []job.ID{snap.ID})
	if err != nil {
		return "", fmt.Errorf("read the callback: %w", err)
	}
	id := names[snap.ID].Callback
	if id.IsZero() {
		return "", nil
	}
	keys, err := s.keys.keys(ctx, snap.Project, []job.ID{id}, nil)
	return keys[id], err
}
