package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fireonce/fireonce/store"
)

// Rules of this file: an Open that fails because the database is away, or accepts no
// connections for now, fails with store.ErrUnavailable, and the same Open may succeed later.
// An Open that fails for a reason that waiting does not change fails with ErrRefused: a wrong
// password, a database that does not exist, a role without the right, a certificate that is
// not trusted.

// ErrRefused: the server answered, and refuses the request.
var ErrRefused = errors.New("the database server refuses")

// opening returns the error of an Open whose statement or connection failed with err.
func opening(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, ErrSchema), errors.Is(err, ErrUnsafe):
		return err
	case passes(err):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	default:
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
}

// within runs a part of an Open for callTimeout at most: a server that does not answer is away.
func within(ctx context.Context, part func(context.Context) error) error {
	short, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := part(short)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

// passes reports whether an error may end without a change by the operator.
func passes(err error) bool {
	if known, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch known.Code[:min(2, len(known.Code))] {
		case "08", // connection exceptions
			"25", // a read-only host, before a promotion
			"40", // lost to another transaction
			"53", // too many connections, no memory, no disk
			"55", // locks
			"57", // starting up, shutting down, ended by an administrator
			"58": // errors of its system
			return true
		default:
			return false
		}
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return false
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return false
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return false
	}
	return true
}
