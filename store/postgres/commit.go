package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a transaction's last writes, with the pages of the log, are sent with
// its COMMIT in one round trip.
//   - The server runs the statements in their order and skips all behind one that fails. So a
//     COMMIT that it performs has all of them before it.
//   - No result of theirs is needed: what has to be checked before the COMMIT was flushed.
//   - Once they are sent, only an error from the server itself proves that nothing was
//     written.

// commit sends what is left, and the COMMIT.
func (t *tx) commit(ctx context.Context) error {
	t.writeLog(ctx)
	batch, err := t.ending(ctx)
	if err != nil {
		return aborted(ctx, t.conn, err)
	}
	results := t.conn.PgConn().ExecBatch(ctx, batch)
	var tag pgconn.CommandTag
	for results.NextResult() {
		tag, _ = results.ResultReader().Close() // Close returns the error, too
	}
	err = results.Close()
	if err == nil && tag.String() == "COMMIT" {
		return nil
	}
	if err == nil { // the server had aborted the transaction before
		return fmt.Errorf("%w: the server answered %s to COMMIT", store.ErrUnavailable, tag)
	}
	if definite(err) {
		return aborted(ctx, t.conn, err)
	}
	_ = t.conn.Close(ctx)
	return fmt.Errorf("%w: %w", store.ErrUnconfirmed, err)
}

// ending makes the final round trip. The COMMIT has no name, so that it is sent as text like
// any other statement.
func (t *tx) ending(ctx context.Context) (*pgconn.Batch, error) {
	batch := new(pgconn.Batch)
	if t.batch != nil {
		for _, q := range t.batch.QueuedQueries {
			statement, err := t.conn.Prepare(ctx, q.SQL, q.SQL)
			if err != nil {
				return nil, err
			}
			var values pgx.ExtendedQueryBuilder
			if err := values.Build(t.conn.TypeMap(), statement, q.Arguments); err != nil {
				return nil, err
			}
			batch.ExecStatement(statement, values.ParamValues, values.ParamFormats, values.ResultFormats)
		}
		t.batch, t.steps, t.asks = nil, nil, false
	}
	batch.ExecParams("COMMIT", nil, nil, nil, nil)
	return batch, nil
}
