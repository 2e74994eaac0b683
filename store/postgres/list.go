package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fireonce/fireonce/store"
)

// CreatedByState implements sqlstore.Reading.
func (sharedView) CreatedByState() bool { return false }

// BoundPlans implements sqlstore.Reading. The best of a list's indexes depends on the query and
// on the number of rows.
func (v sharedView) BoundPlans(ctx context.Context) error {
	_, err := v.conn.Exec(ctx, "SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_bitmapscan = off")
	return err
}

// labelsPatience bounds the time in the index of labels. A longer search names too many jobs.
const labelsPatience = "250ms"

const queryCanceled = "57014"

// CountByLabels implements sqlstore.Reading. If the jobs are not too many, they are read once
// more, and so bitmaps stay on.
func (v sharedView) CountByLabels(ctx context.Context, count string, args []any) (n int, err error) {
	if _, err := v.conn.Exec(ctx, "SAVEPOINT labels; SET LOCAL enable_bitmapscan = on; SET LOCAL statement_timeout = '"+labelsPatience+"'"); err != nil {
		return 0, err
	}
	err = v.conn.QueryRow(ctx, count, args...).Scan(&n)
	if known, ok := errors.AsType[*pgconn.PgError](err); ok && known.Code == queryCanceled && ctx.Err() == nil {
		n, err = store.SearchCandidates+1, nil
	}
	if err != nil {
		return 0, err
	}
	end := "ROLLBACK TO SAVEPOINT labels"
	if n <= store.SearchCandidates {
		end += "; SET LOCAL enable_bitmapscan = on"
	}
	_, err = v.conn.Exec(ctx, end)
	return n, err
}
