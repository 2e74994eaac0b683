package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fireonce/fireonce/store"
)

// Rules of this file: what a transaction writes last, the pages of the log among it, goes
// with its COMMIT in one round trip.
//   - The server runs the statements in their order and leaves out all behind one that
//     fails. So a COMMIT that it carries out has all of them before it.
//   - Nothing of them is asked for: what has to be looked at before the COMMIT was flushed.
//   - Once it is on its way, only an error that the server itself names says that nothing
//     was written.

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
	if err == nil { // the server had given the transaction up before
		return fmt.Errorf("%w: the server answered %s to COMMIT", store.ErrUnavailable, tag)
	}
	if definite(err) {
		return aborted(ctx, t.conn, err)
	}
	_ = t.conn.Close(ctx)
	return fmt.Errorf("%w: %w", store.ErrUnconfirmed, err)
}

// ending makes the final round trip. The COMMIT has no name, so that it is one text on its
// way like any other statement.
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
