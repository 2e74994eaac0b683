package sqlite

import (
	"database/sql"
	"errors"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

func orNotFound(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return store.ErrNotFound
	}
	return err
}

// page bounds a limit; none means the most there is.
func page(limit int) int64 { return int64(rules.Page(limit)) }
