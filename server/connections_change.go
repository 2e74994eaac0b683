package server

import (
	"context"
	"errors"
	"fmt"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a connection is read, the change is decided, and it is written for the
// version that was read. If the connection has changed between, all of that is repeated. A change
// that is in place already succeeds before the etag is compared. The etag is compared before
// every check, because the client judged by another state.

// connectionChange is a change of one connection that a client asks for.
type connectionChange struct {
	of   connectionNamed
	etag string
	// inPlace reports whether a connection has the change already.
	inPlace func(ctx context.Context, conn store.Connection) (bool, error)
	// change returns the change to write.
	change func(ctx context.Context, conn store.Connection) (store.ConnectionChange, error)
}

// change makes a change of a connection, and converts the result.
func (s *connectionService) change(ctx context.Context, a connectionChange) (*fireoncev1.Connection, error) {
	conn, err := s.changeStored(ctx, a)
	if err != nil {
		return nil, err
	}
	return s.connectionWire(conn)
}

func (s *connectionService) changeStored(ctx context.Context, a connectionChange) (store.Connection, error) {
	var conn store.Connection
	ref, err := connectionRef(ctx, a.of)
	if err != nil {
		return conn, err
	}
	for range maxDecisions {
		conn, err = s.store.Connection(ctx, ref)
		if err != nil {
			return conn, notFoundAs(fmt.Errorf("read the connection: %w", err), connectionNotFound(ref))
		}
		done, err := a.inPlace(ctx, conn)
		if errors.Is(err, store.ErrStale) {
			continue
		}
		if err != nil || done {
			return conn, err
		}
		if a.etag != "" && a.etag != etagOf(conn.ID, conn.Version) {
			return conn, connectionChanged(conn)
		}
		if !conn.Deleted.IsZero() {
			return conn, disabled(&conn, "was deleted")
		}
		change, err := a.change(ctx, conn)
		if errors.Is(err, store.ErrStale) {
			continue
		}
		if err != nil {
			return conn, err
		}
		after, err := s.writeChange(ctx, conn, change)
		if !errors.Is(err, store.ErrStale) {
			return after, err
		}
	}
	return conn, connectionChanged(conn)
}

// writeChange writes a change that was decided on a connection.
func (s *connectionService) writeChange(ctx context.Context, conn store.Connection, c store.ConnectionChange) (store.Connection, error) {
	c.Project, c.ID, c.Version, c.Actor = conn.Project, conn.ID, conn.Version, callerOf(ctx).actor
	after, err := s.changeConnection(ctx, c)
	switch {
	case errors.Is(err, store.ErrInUse):
		return after, refuse(fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_IN_USE,
			fmt.Sprintf("jobs that have not ended use connection %s; cancel or resolve them first", conn.ID),
			"connection_id", conn.ID.String())
	case err != nil:
		return after, notFoundAs(fmt.Errorf("change the connection: %w", err), connectionNotFound(store.Ref{ID: conn.ID}))
	}
	s.logConnectionChange(ctx, "a connection was changed", after, "changed", changedParts(c))
	return after, nil
}

func connectionChanged(conn store.Connection) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH,
		fmt.Sprintf("connection %s has changed since it was read; its etag is now %s", conn.ID, etagOf(conn.ID, conn.Version)),
		"connection_id", conn.ID.String(), "etag", etagOf(conn.ID, conn.Version))
}

// alreadyIf makes a connectionChange's inPlace of a condition.
func alreadyIf(is func(store.Connection) bool) func(context.Context, store.Connection) (bool, error) {
	return func(_ context.Context, conn store.Connection) (bool, error) { return is(conn), nil }
}

// fixedChange makes a connectionChange's change of one that is the same for every state.
func fixedChange(c store.ConnectionChange) func(context.Context, store.Connection) (store.ConnectionChange, error) {
	return func(context.Context, store.Connection) (store.ConnectionChange, error) { return c, nil }
}
