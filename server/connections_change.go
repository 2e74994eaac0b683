package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/store"
)

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
func (s *connectionService) change(ctx context.Context, a connectionChange) (*connectionsv1.Connection, error) {
	conn, err := s.changeStored(ctx, a)
	if err != nil {
		return nil, err
	}
	return s.changedWire(ctx, conn)
}

func (s *connectionService) changeStored(ctx context.Context, a connectionChange) (store.Connection, error) {
	return decideAgain(func() (store.Connection, error) {
		conn, err := s.readConnection(ctx, a.of)
		if err != nil {
			return conn, err
		}
		if done, err := a.inPlace(ctx, conn); err != nil || done {
			return conn, err
		}
		if err := checkEtag(a.etag, "connection", conn.ID, conn.Version); err != nil {
			return conn, err
		}
		if !conn.Deleted.IsZero() {
			return conn, disabled(&conn, "was deleted")
		}
		change, err := a.change(ctx, conn)
		if err != nil {
			return conn, err
		}
		return s.writeChange(ctx, conn, change)
	}, connectionChanged)
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
		return conn, notFoundAs(fmt.Errorf("change the connection: %w", err), connectionNotFound(store.Ref{ID: conn.ID}))
	}
	s.logConnectionChange(ctx, "a connection was changed", after, "changed", changedParts(c))
	return after, nil
}

func connectionChanged(conn store.Connection) error {
	return etagMismatch("connection", conn.ID, conn.Version)
}

// alreadyIf makes a connectionChange's inPlace of a condition.
func alreadyIf(is func(store.Connection) bool) func(context.Context, store.Connection) (bool, error) {
	return func(_ context.Context, conn store.Connection) (bool, error) { return is(conn), nil }
}

// fixedChange makes a connectionChange's change of one that is the same for every state.
func fixedChange(c store.ConnectionChange) func(context.Context, store.Connection) (store.ConnectionChange, error) {
	return func(context.Context, store.Connection) (store.ConnectionChange, error) { return c, nil }
}
