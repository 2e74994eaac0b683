package sqlite

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/column"
)

// Rules of this file: it runs the queries that both engines share (store/sqlstore), which are
// PostgreSQL's SQL, on SQLite. It changes spellings, and not what a query means:
//   - casts go, and locks of rows, because one transaction writes at a time;
//   - @> compares objects whose values are texts;
//   - a list is one JSON argument, read by json_each; ids in it are hexadecimal;
//   - times are microseconds of Unix time, and intervals microseconds; the zero time and the
//     zero optional id are NULL;
//   - of a word, or a CASE in brackets, with a comment /* SQLite: ... */ behind it, it reads the
//     comment instead: where an index has another column, or the planner needs its name.
//
// What else a query needs, both engines have under the same name (greatest, least,
// strpos and chr are the exceptions). TestSharedQueriesPrepare prepares each one.

// spellings are the changes of a query's text, in their order.
var spellings = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile(`(?s)(?:[\w.]+(?:\(\))?|\(CASE [^/]* END\)) /\* SQLite: (.*?) \*/`), `$1`},
	{regexp.MustCompile(`= ANY ?\((\$\d+)::(?:uuid|bytea)\[\]\)`), `IN (SELECT unhex(value) FROM json_each($1))`},
	{regexp.MustCompile(`<> ALL ?\((\$\d+)::(?:uuid|bytea)\[\]\)`), `NOT IN (SELECT unhex(value) FROM json_each($1))`},
	{regexp.MustCompile(`= ANY ?\((\$\d+)::\w+\[\]\)`), `IN (SELECT value FROM json_each($1))`},
	{regexp.MustCompile(`<> ALL ?\((\$\d+)::\w+\[\]\)`), `NOT IN (SELECT value FROM json_each($1))`},
	{regexp.MustCompile(`''::bytea`), `x''`},
	{regexp.MustCompile(`::\w+(\[\])?`), ``},
	{regexp.MustCompile(`\s+FOR (NO KEY UPDATE|UPDATE|KEY SHARE|SHARE)( OF \w+)?( SKIP LOCKED)?`), ``},
	{regexp.MustCompile(` COLLATE "C"`), ``},
	{regexp.MustCompile(`([\w.$]+) @> (\$\d+)`), `NOT EXISTS (SELECT 1 FROM json_each($2) AS f WHERE NOT EXISTS (
		SELECT 1 FROM json_each($1) AS l WHERE l.key = f.key AND l.value = f.value))`},
	{regexp.MustCompile(`\bstrpos\(`), `instr(`},
	{regexp.MustCompile(`'epoch'`), `0`},
	{regexp.MustCompile(`\bgreatest\(`), `max(`},
	{regexp.MustCompile(`\bleast\(`), `min(`},
	{regexp.MustCompile(`\bchr\(`), `char(`},
}

// spelled returns a shared query as SQLite reads it.
func spelled(query string) string {
	for _, s := range spellings {
		query = s.from.ReplaceAllString(query, s.to)
	}
	return query
}

// dialect runs shared queries on a connection.
type dialect struct {
	conn sqlitedb.DBTX
	// known has the queries that were spelled before; nil: they are not kept.
	known map[string]string
}

var _ shareddb.DBTX = dialect{}

func (d dialect) text(query string) string {
	if text, ok := d.known[query]; ok {
		return text
	}
	text := spelled(query)
	if d.known != nil {
		d.known[query] = text
	}
	return text
}

// Exec implements shareddb.DBTX.
func (d dialect) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	res, err := d.conn.ExecContext(ctx, d.text(query), arguments(args)...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	n, err := res.RowsAffected()
	return pgconn.NewCommandTag("UPDATE " + strconv.FormatInt(n, 10)), err
}

// Query implements shareddb.DBTX.
func (d dialect) Query(ctx context.Context, query string, args ...any) (pgx.Rows, error) {
	rows, err := d.conn.QueryContext(ctx, d.text(query), arguments(args)...) //nolint:rowserrcheck // the caller has the rows
	if err != nil {
		return nil, err
	}
	return sharedRows{rows}, nil
}

// QueryRow implements shareddb.DBTX.
func (d dialect) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return sharedRow{d.conn.QueryRowContext(ctx, d.text(query), arguments(args)...)}
}

// SendBatch implements shareddb.DBTX. Each statement runs when its result is read.
func (d dialect) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	queue := batch.QueuedQueries
	return &sharedBatch{next: func() (query *pgx.QueuedQuery, _ context.Context, _ dialect) {
		query, queue = queue[0], queue[1:]
		return query, ctx, d
	}}
}

// sharedBatch is a batch as the generated code reads it; it calls nothing else of
// pgx.BatchResults. After an error no statement runs, as on PostgreSQL: SQLite may have ended
// the transaction, and what follows would be durable by itself.
type sharedBatch struct {
	pgx.BatchResults
	next   func() (*pgx.QueuedQuery, context.Context, dialect)
	failed error
}

// Exec implements pgx.BatchResults.
func (b *sharedBatch) Exec() (tag pgconn.CommandTag, _ error) {
	if query, ctx, d := b.next(); b.failed == nil {
		tag, b.failed = d.Exec(ctx, query.SQL, query.Arguments...)
	}
	return tag, b.failed
}

// Query implements pgx.BatchResults. The caller reads a result to its end before the next one.
func (b *sharedBatch) Query() (rows pgx.Rows, _ error) {
	if query, ctx, d := b.next(); b.failed == nil {
		rows, b.failed = d.Query(ctx, query.SQL, query.Arguments...)
	}
	return rows, b.failed
}

// Close implements pgx.BatchResults.
func (*sharedBatch) Close() error { return nil }

type sharedRow struct{ *sql.Row }

// Scan implements pgx.Row.
func (r sharedRow) Scan(dest ...any) error { return r.Row.Scan(targets(dest)...) }

// sharedRows are rows as the generated code reads them; it calls nothing else of pgx.Rows.
type sharedRows struct{ *sql.Rows }

// Close implements pgx.Rows. An error of the rows is Err's.
func (r sharedRows) Close() { _ = r.Rows.Close() }

// Scan implements pgx.Rows.
func (r sharedRows) Scan(dest ...any) error { return r.Rows.Scan(targets(dest)...) }

// CommandTag implements pgx.Rows.
func (sharedRows) CommandTag() pgconn.CommandTag { return pgconn.CommandTag{} }

// FieldDescriptions implements pgx.Rows.
func (sharedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }

// Values implements pgx.Rows.
func (sharedRows) Values() ([]any, error) { return nil, errors.ErrUnsupported }

// RawValues implements pgx.Rows.
func (sharedRows) RawValues() [][]byte { return nil }

// TypeMap implements pgx.Rows.
func (sharedRows) TypeMap() *pgtype.Map { return nil }

// Conn implements pgx.Rows.
func (sharedRows) Conn() *pgx.Conn { return nil }

// arguments converts a shared query's arguments to SQLite's types.
func arguments(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case time.Time:
			if !a.IsZero() {
				out[i] = a.UnixMicro()
			}
		case time.Duration:
			out[i] = micros(a)
		case job.ID:
			out[i] = a[:]
		case column.OptionalID:
			out[i] = fromOptionalID(job.ID(a))
		case column.Labels:
			out[i] = string(a)
		case bool:
			out[i] = toBool(a)
		case []job.ID:
			out[i] = hexList(a)
		case [][]byte:
			out[i] = bytesList(a)
		case []string:
			out[i] = list(a)
		case []int64:
			out[i] = list(a)
		case []int16:
			out[i] = list(a)
		default:
			out[i] = a
		}
	}
	return out
}

// hexList writes a list of ids for json_each.
func hexList(ids []job.ID) string {
	values := make([][]byte, len(ids))
	for i := range ids {
		values[i] = ids[i][:]
	}
	return bytesList(values)
}

func bytesList(values [][]byte) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = hex.EncodeToString(v)
	}
	return asJSON(out)
}

// list writes a list for json_each. A nil list is an empty one.
func list[T any](items []T) string {
	if items == nil {
		return "[]"
	}
	return asJSON(items)
}

// asJSON encodes lists of numbers and texts and maps of texts, which cannot fail.
func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// targets returns what to scan columns into.
func targets(dest []any) []any {
	out := make([]any, len(dest))
	for i, d := range dest {
		switch d := d.(type) {
		case *time.Time:
			out[i] = scanner[int64](func(us sql.Null[int64]) { *d = fromNullMicros(sql.NullInt64{Int64: us.V, Valid: us.Valid}) })
		case *job.ID:
			out[i] = scanner[[]byte](func(b sql.Null[[]byte]) { *d = toID(b.V) })
		case *column.OptionalID:
			out[i] = scanner[[]byte](func(b sql.Null[[]byte]) { *d = column.OptionalID(toID(b.V)) })
		case *column.Labels:
			out[i] = (*[]byte)(d)
		default:
			out[i] = d
		}
	}
	return out
}

// scanner passes on a column of a type of the driver's.
type scanner[T any] func(sql.Null[T])

// Scan implements sql.Scanner.
func (s scanner[T]) Scan(src any) error {
	v := sql.Null[T]{}
	if v.V, v.Valid = src.(T); v.Valid { // the usual type, which needs no conversion
		s(v)
		return nil
	}
	if err := v.Scan(src); err != nil {
		return err
	}
	s(v)
	return nil
}
