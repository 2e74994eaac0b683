package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/column"
)

// Rules of this file: it runs the generated queries, SQLite's own and those that both engines
// share (store/sqlstore). The shared ones are PostgreSQL's SQL. It changes spellings, and not
// what a query means:
//   - casts go, and locks of rows, because one transaction writes at a time;
//   - @> compares objects whose values are texts;
//   - a list is one JSON argument, read by json_each; ids in it are hexadecimal; an array of a
//     query's rows, which PostgreSQL reads first, is the query;
//   - a change by lists side by side, unnest(list), runs once for each of their rows;
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
	{regexp.MustCompile(`= ANY \(ARRAY(\(SELECT [\w. ]+\))\)`), `IN $1`},
	{regexp.MustCompile(`= ANY ?\((\$\d+)::(?:uuid|bytea)\[\]\)`), `IN (SELECT unhex(value) FROM json_each($1))`},
	{regexp.MustCompile(`<> ALL ?\((\$\d+)::(?:uuid|bytea)\[\]\)`), `NOT IN (SELECT unhex(value) FROM json_each($1))`},
	{regexp.MustCompile(`= ANY ?\((\$\d+)::\w+\[\]\)`), `IN (SELECT value FROM json_each($1))`},
	{regexp.MustCompile(`<> ALL ?\((\$\d+)::\w+\[\]\)`), `NOT IN (SELECT value FROM json_each($1))`},
	{regexp.MustCompile(`\(SELECT unnest\((\$\d+)::uuid\[\]\) AS (\w+), unnest\((\$\d+)::text\[\]\) AS (\w+)\)`),
		`(SELECT unhex(a.value) AS $2, b.value AS $4 FROM json_each($1) AS a CROSS JOIN json_each($3) AS b WHERE b.key = a.key)`},
	{regexp.MustCompile(`unnest\((\$\d+)::\w+\[\]\)`), `$1`},
	{regexp.MustCompile(`'00000000-0000-0000-0000-000000000000'`), `zeroblob(16)`},
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

// runner is a connection as the driver has it, or a session, which keeps statements prepared.
type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// dialect runs generated queries on a connection.
type dialect struct{ conn runner }

var _ shareddb.DBTX = dialect{}

func (d dialect) text(query string) string {
	if _, spells := d.conn.(*session); spells {
		return query
	}
	return spelled(query)
}

// Exec implements shareddb.DBTX.
func (d dialect) Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error) {
	total := int64(0)
	for _, row := range sideBySide(query, args) {
		res, err := d.conn.ExecContext(ctx, d.text(query), arguments(row)...)
		if err != nil {
			return pgconn.CommandTag{}, err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return pgconn.CommandTag{}, err
		}
		total += n
	}
	if total == 1 { // as nearly always
		return changedOne, nil
	}
	return pgconn.NewCommandTag("UPDATE " + strconv.FormatInt(total, 10)), nil
}

// sideBySide returns the arguments of a change for each row of its lists, if it has such.
func sideBySide(query string, args []any) [][]any {
	if !strings.Contains(query, "unnest(") {
		return [][]any{args}
	}
	var rows [][]any
	for i := 0; ; i++ {
		row := slices.Clone(args)
		for at, a := range args {
			list := reflect.ValueOf(a)
			if list.Kind() != reflect.Slice || list.Type().Elem().Kind() == reflect.Uint8 {
				continue
			}
			if i == list.Len() {
				return rows
			}
			row[at] = list.Index(i).Interface()
		}
		rows = append(rows, row)
	}
}

var changedOne = pgconn.NewCommandTag("UPDATE 1")

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

// arguments converts a query's arguments to the driver's types, in place.
func arguments(args []any) []any {
	for i, a := range args {
		switch a := a.(type) {
		case int64, string, nil: // as it is
		case []byte:
			if a == nil {
				args[i] = nil
			}
		case time.Time:
			if args[i] = nil; !a.IsZero() {
				args[i] = a.UnixMicro()
			}
		case time.Duration:
			args[i] = a.Microseconds()
		case job.ID:
			args[i] = a[:]
		case column.OptionalID:
			if args[i] = nil; a != (column.OptionalID{}) {
				args[i] = a[:]
			}
		case column.Labels:
			args[i] = string(a)
		case int:
			args[i] = int64(a)
		case job.State:
			args[i] = int64(a)
		case job.Class:
			args[i] = int64(a)
		case bool:
			if args[i] = int64(0); a {
				args[i] = int64(1)
			}
		default:
			args[i] = converted(a)
		}
	}
	return args
}

// converted converts a list, or a number of another type than arguments converts.
func converted(arg any) any {
	switch a := arg.(type) {
	case []job.ID:
		return hexList(a)
	case [][]byte:
		return bytesList(a)
	case []string:
		return list(a)
	case []int64:
		return list(a)
	case []int16:
		return list(a)
	}
	if v, err := driver.DefaultParameterConverter.ConvertValue(arg); err == nil {
		return v
	}
	return arg
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

// targets returns what to scan columns into, in place.
func targets(dest []any) []any {
	for i, d := range dest {
		switch d := d.(type) {
		case *string:
			dest[i] = text{d}
		case *int:
			dest[i] = number[int]{d}
		case *int64:
			dest[i] = number[int64]{d}
		case *column.Micros:
			dest[i] = number[int64]{(*int64)(d)}
		case *job.State:
			dest[i] = number[job.State]{d}
		case *job.Class:
			dest[i] = number[job.Class]{d}
		case *job.Delivery:
			dest[i] = number[job.Delivery]{d}
		case *job.FailureKind:
			dest[i] = number[job.FailureKind]{d}
		case *job.Result:
			dest[i] = number[job.Result]{d}
		case *time.Time:
			dest[i] = instant{d}
		case *time.Duration:
			dest[i] = span{d}
		case *job.ID:
			dest[i] = id{d}
		case *column.OptionalID:
			dest[i] = id{(*job.ID)(d)}
		case *column.Labels:
			dest[i] = (*[]byte)(d)
		}
	}
	return dest
}

// Targets of columns, of which NULL is the zero value.
type (
	text                             struct{ to *string }
	number[T ~int | ~int64 | ~uint8] struct{ to *T }
	instant                          struct{ to *time.Time }
	span                             struct{ to *time.Duration }
	id                               struct{ to *job.ID }
)

// Scan implements sql.Scanner.
func (t text) Scan(src any) error { return scan(src, t.to, func(v string) string { return v }) }

// Scan implements sql.Scanner.
func (n number[T]) Scan(src any) error { return scan(src, n.to, func(v int64) T { return T(v) }) }

// Scan implements sql.Scanner.
func (i instant) Scan(src any) error { return scan(src, i.to, fromMicros) }

// Scan implements sql.Scanner.
func (s span) Scan(src any) error {
	return scan(src, s.to, func(us int64) time.Duration { return time.Duration(us) * time.Microsecond })
}

// Scan implements sql.Scanner.
func (i id) Scan(src any) error { return scan(src, i.to, toID) }

func scan[S, T any](src any, to *T, convert func(S) T) error {
	var zero T
	switch v := src.(type) {
	case S:
		*to = convert(v)
	case nil:
		*to = zero
	default:
		return fmt.Errorf("a column has a %T", src)
	}
	return nil
}

func fromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }

func toID(b []byte) (id job.ID) {
	copy(id[:], b)
	return id
}
