package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// ErrSchema says that the database's schema is not the one that this program
// knows: newer, or older and not to be migrated.
var ErrSchema = errors.New("schema version")

// ErrUnsafe says that the server is set up so that it could lose what it has
// confirmed, or is no server that can be written to.
var ErrUnsafe = errors.New("unsafe server")

// errRestart asks for the transaction to be run again: it met a job whose newest
// event has a position above its own.
var errRestart = errors.New("transaction overtaken")

// translate returns driver errors their meaning in the contract. What the
// database's own types, constraints and triggers refuse is a caller's bug.
func translate(err error) error {
	switch {
	case err == nil, rules.Verdict(err),
		errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrUnconfirmed),
		errors.Is(err, store.ErrCursorExpired), errors.Is(err, store.ErrQuarantined),
		errors.Is(err, store.ErrClockSuspect),
		errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, pgx.ErrNoRows):
		return store.ErrNotFound
	case refused(err):
		return fmt.Errorf("%w: %w", store.ErrIllegal, err)
	default:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
}

// sqlState returns the five characters with which the server names an error;
// empty: the error is not the server's.
func sqlState(err error) string {
	var known *pgconn.PgError
	if errors.As(err, &known) {
		return known.Code
	}
	return ""
}

// refused reports whether the server found fault with the values themselves: bad
// data (class 22), a broken constraint (class 23, which the triggers use too), or
// more than a row or an index takes (class 54).
func refused(err error) bool {
	code := sqlState(err)
	return len(code) == 5 && (code[:2] == "22" || code[:2] == "23" || code[:2] == "54")
}

// repeatable reports whether the same transaction may work if it is run again: it
// lost to another one (class 40 without an unknown outcome), or was overtaken.
func repeatable(err error) bool {
	switch sqlState(err) {
	case "40001", "40P01":
		return true
	default:
		return errors.Is(err, errRestart)
	}
}
