package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
)

// Rules of this file: statements that do not need each other's results are sent together and
// share one round trip. A step names one statement. It runs twice, first to record the
// statement and then to read the result, so it does nothing before its statement. When a
// statement fails, the server skips all that come behind it. Statements without a result are
// sent with the COMMIT (see commit.go).

// step runs one statement of db.
type step func(ctx context.Context, db pgdb.DBTX) error

// errQueued is what a step gets while its statement is only recorded.
var errQueued = errors.New("the statement is queued")

// queue sends a step's statement with the next flush.
func (t *tx) queue(ctx context.Context, s step) {
	if t.batch == nil {
		t.batch = new(pgx.Batch)
	}
	_ = s(ctx, noting{t.batch})
	t.steps = append(t.steps, s)
	t.asks = true
}

// exec is queue for a statement without a result. If only such statements are queued last,
// they are sent with the COMMIT.
func (t *tx) exec(ctx context.Context, s step) {
	asks := t.asks
	t.queue(ctx, s)
	t.asks = asks
}

// execRows is exec for a statement that writes n rows; it sends none for no rows.
func (t *tx) execRows(ctx context.Context, n int, s step) {
	if n > 0 {
		t.exec(ctx, s)
	}
}

// statement makes the step of a statement without a result.
func statement[P any](what string, run func(*pgdb.Queries, context.Context, P) error, p P) step {
	return func(ctx context.Context, db pgdb.DBTX) error { return named(what, run(pgdb.New(db), ctx, p)) }
}

// shared is statement for one that both engines share.
func shared[P any](what string, run func(*shareddb.Queries, context.Context, P) error, p P) step {
	return func(ctx context.Context, db pgdb.DBTX) error {
		return named(what, run(shareddb.New(sharing{DBTX: db}), ctx, p))
	}
}

// sharing is a step's database for the shared queries. A step sends no batch of its own.
type sharing struct {
	pgdb.DBTX
	batches
}

type batches interface {
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}

// query makes the step of a query, which stores the result.
func query[P, R any](what string, run func(*pgdb.Queries, context.Context, P) (R, error), p P, result *R) step {
	return func(ctx context.Context, db pgdb.DBTX) (err error) {
		*result, err = run(pgdb.New(db), ctx, p)
		return named(what, err)
	}
}

// flush sends the queued statements and reads the results.
func (t *tx) flush(ctx context.Context) error {
	if len(t.steps) == 0 {
		return nil
	}
	steps := t.steps
	results := t.conn.SendBatch(ctx, t.batch)
	t.batch, t.steps, t.asks = nil, nil, false
	for _, s := range steps {
		if err := s(ctx, answers{results}); err != nil {
			_ = results.Close()
			return err
		}
	}
	return results.Close()
}

// noting records a statement.
type noting struct{ batch *pgx.Batch }

func (n noting) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	n.batch.Queue(sql, args...)
	return pgconn.CommandTag{}, errQueued
}

func (n noting) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	n.batch.Queue(sql, args...)
	return nil, errQueued
}

func (n noting) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	n.batch.Queue(sql, args...)
	return queuedRow{}
}

type queuedRow struct{}

func (queuedRow) Scan(...any) error { return errQueued }

// answers returns a statement's results.
type answers struct{ results pgx.BatchResults }

func (a answers) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return a.results.Exec()
}

func (a answers) Query(context.Context, string, ...any) (pgx.Rows, error) { return a.results.Query() }

func (a answers) QueryRow(context.Context, string, ...any) pgx.Row { return a.results.QueryRow() }
