package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// ErrSchema is sqlstore.ErrSchema.
var ErrSchema = sqlstore.ErrSchema

// ErrUnsafe: the server's settings could lose what it has confirmed, or it is read-only.
var ErrUnsafe = errors.New("unsafe server")

// errRestart makes the transaction run again: it met a job whose newest event has a position
// above its own.
var errRestart = errors.New("transaction overtaken")

// translate converts driver errors to the contract's. What the database's own types,
// constraints and triggers refuse is a bug of the caller.
func translate(err error) error {
	switch {
	case err == nil, rules.Contract(err), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, pgx.ErrNoRows):
		return store.ErrNotFound
	case badText(err):
		return fmt.Errorf("%w: %w: %w", store.ErrIllegal, store.ErrBadText, err)
	case refused(err):
		return fmt.Errorf("%w: %w", store.ErrIllegal, err)
	default:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
}

// sqlState returns the five characters of the server's error code; empty: the error is not
// the server's.
func sqlState(err error) string {
	var known *pgconn.PgError
	if errors.As(err, &known) {
		return known.Code
	}
	return ""
}

// refused reports whether the server refused the values themselves: bad data (class 22), a
// broken constraint (class 23, which the triggers use too), or more than a row or an index
// holds (class 54).
func refused(err error) bool {
	code := sqlState(err)
	return len(code) == 5 && (code[:2] == "22" || code[:2] == "23" || code[:2] == "54")
}

// badText reports whether the server refused a character of a text: PostgreSQL's texts have no
// NUL and are UTF-8. The contract's patterns keep such characters out of requests, so this is
// the second line of defense.
func badText(err error) bool {
	switch sqlState(err) {
	case "22021", "22P05":
		return true
	default:
		return false
	}
}

// repeatable reports whether the same transaction may succeed if it runs again: it lost to
// another one (class 40 without an unknown outcome), or was overtaken.
func repeatable(err error) bool {
	switch sqlState(err) {
	case "40001", "40P01":
		return true
	default:
		return errors.Is(err, errRestart)
	}
}
