package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// ErrLocked: another process has the database.
var ErrLocked = errors.New("the database is in use by another process")

// ErrForeign: the file is an SQLite database, but not one of Fireonce.
var ErrForeign = errors.New("another program's database")

// ErrLost reports that a database file is missing beside its lock file. A new one in its place has
// other effect keys, so a repeated request could take effect twice.
var ErrLost = errors.New("the database is gone and its lock file is not")

// ErrSchema is sqlstore.ErrSchema.
var ErrSchema = sqlstore.ErrSchema

// translate converts driver errors to the contract's. What the database's own constraints and
// triggers refuse is a bug of the caller.
func translate(err error) error {
	var known *sqlite.Error
	switch {
	case err == nil, rules.Contract(err), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, sql.ErrNoRows):
		return store.ErrNotFound
	case errors.As(err, &known) && known.Code()&0xff == sqlite3.SQLITE_CONSTRAINT:
		return fmt.Errorf("%w: %w", store.ErrIllegal, err)
	default:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
}

// named adds the name of the failed part to an error.
func named(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
