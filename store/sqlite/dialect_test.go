package sqlite

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/column"
)

// TestSharedQueriesPrepare: SQLite can prepare each query that both engines share.
func TestSharedQueriesPrepare(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Path: filepath.Join(t.TempDir(), "jobs.db")})
	paths, err := filepath.Glob("../../gen/shareddb/*.go")
	must(t, err)
	found := 0
	for _, path := range paths {
		ast.Inspect(parsed(t, path), func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || !strings.Contains(lit.Value, "-- name: ") {
				return true
			}
			query, err := strconv.Unquote(lit.Value)
			must(t, err)
			found++
			if stmt, err := s.db.PrepareContext(t.Context(), spelled(query)); err != nil {
				t.Errorf("%v\n%s", err, spelled(query))
			} else {
				defer func() { must(t, stmt.Close()) }()
			}
			return true
		})
	}
	if found < 10 {
		t.Errorf("only %d queries were found", found)
	}
}

// TestDialect: the values of a shared query have PostgreSQL's meaning.
func TestDialect(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Path: filepath.Join(t.TempDir(), "jobs.db")})
	conn, err := s.db.Conn(t.Context())
	must(t, err)
	defer func() { must(t, conn.Close()) }()
	d := dialect{conn}
	at := time.UnixMicro(1_234_567).UTC()
	ids := []job.ID{{1}, {2}}
	for _, c := range []struct {
		query string
		args  []any
		want  bool
	}{
		{"SELECT $1::timestamptz IS NULL", []any{time.Time{}}, true},
		{"SELECT $1::timestamptz = 1234567", []any{at}, true},
		{"SELECT $1::uuid IS NULL", []any{column.OptionalID{}}, true},
		{"SELECT $1::uuid IS NULL", []any{job.ID{}}, false},
		{"SELECT $1 = ANY ($2::uuid[])", []any{ids[1], ids}, true},
		{"SELECT ($1 = ANY ($2::uuid[]))", []any{job.ID{3}, ids}, false},
		{"SELECT $1 <> ALL ($2::uuid[])", []any{job.ID{3}, ids}, true},
		{"SELECT $1 <> ALL ($2::uuid[])", []any{job.ID{3}, []job.ID(nil)}, true},
		{"SELECT $1 = ANY ($2::bytea[])", []any{[]byte("a"), [][]byte{[]byte("b"), []byte("a")}}, true},
		{"SELECT $1 = ANY($2::text[])", []any{"<b>", []string{"a", "<b>"}}, true},
		{"SELECT $1 <> ALL($2::bigint[])", []any{int64(3), []int64{3}}, false},
		{"SELECT $1 = ANY($2::smallint[])", []any{int16(3), []int16{3}}, true},
		{"WITH t AS (SELECT 1 AS a) SELECT $1 = ANY (ARRAY(SELECT t.a FROM t))", []any{int64(1)}, true},
		{"SELECT (CASE WHEN $1 THEN least(1, 2) END) /* SQLite: 3 */ = 3", []any{true}, true},
		{"SELECT typeof(''::bytea) = 'blob'", nil, true},
		{"SELECT nullif($1::uuid, '00000000-0000-0000-0000-000000000000'::uuid) IS NULL", []any{job.ID{}}, true},
		{
			"SELECT count(*) = 1 FROM (SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS name) AS u WHERE u.id = $3 AND u.name = 'b'",
			[]any{ids, []string{"a", "b"}, ids[1]}, true,
		},
		{"SELECT typeof($1) = 'text'", []any{column.Labels("{}")}, true},
		{"SELECT greatest($1, $2) = $2 AND least($1, $2) = $1", []any{int64(1), int64(2)}, true},
		{"SELECT strpos(chr(97) || $1, $2) = 2", []any{"bc", "bc"}, true},
		{"SELECT l.labels @> $2::jsonb FROM (SELECT $1 AS labels) AS l", []any{`{"a":"b","c":"d"}`, `{"c":"d"}`}, true},
		{"SELECT l.labels @> $2::jsonb FROM (SELECT $1 AS labels) AS l", []any{`{"a":"b"}`, `{"a":"c"}`}, false},
		{"SELECT $1", []any{true}, true},
		{"SELECT $1::jsonb @> $2::jsonb", []any{`{"a":"b","c":"d"}`, `{"c":"d"}`}, true},
		{"SELECT $1::jsonb @> $2::jsonb", []any{`{"a":"b","c":"d"}`, `{"c":"b"}`}, false},
		{"SELECT strpos($1, $2) = 2", []any{"abc", "b"}, true},
		{"SELECT $1::timestamptz = 'epoch'", []any{time.Unix(0, 0)}, true},
		{"SELECT 1 /* SQLite: 2 */ + 1 /* SQLite: 3 */ = $1", []any{int64(5)}, true},
	} {
		var got bool
		if err := d.QueryRow(t.Context(), c.query, c.args...).Scan(&got); err != nil || got != c.want {
			t.Errorf("%s %v: %v (%v), want %v", c.query, c.args, got, err, c.want)
		}
	}
	var none, some time.Time
	var id, other job.ID
	var optional column.OptionalID
	var labels column.Labels
	rows, err := d.Query(t.Context(), "SELECT NULL, $1::timestamptz, NULL, $2::uuid, NULL, $3", at, ids[0], column.Labels("{}"))
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		must(t, rows.Scan(&none, &some, &id, &other, &optional, &labels))
	}
	must(t, rows.Err())
	if !none.IsZero() || some != at || !id.IsZero() || other != ids[0] || optional != (column.OptionalID{}) || string(labels) != "{}" {
		t.Errorf("read %v %v %v %v %v %s", none, some, id, other, optional, labels)
	}
	batch := &pgx.Batch{}
	batch.Queue("CREATE TEMP TABLE batched (n bigint)")
	batch.Queue("INSERT INTO batched VALUES ($1::bigint), ($2::bigint)", 1, 2)
	batch.Queue("SELECT n FROM batched WHERE n <> ALL($1::bigint[])", []int64{1})
	run := d.SendBatch(t.Context(), batch)
	_, err = run.Exec()
	must(t, err)
	done, err := run.Exec()
	must(t, err)
	left, err := run.Query()
	must(t, err)
	n, err := pgx.CollectExactlyOneRow(left, pgx.RowTo[int64])
	must(t, err)
	if done.RowsAffected() != 2 || n != 2 {
		t.Errorf("a batch wrote %d rows and read %d", done.RowsAffected(), n)
	}
	sideBySide := "WITH u AS (SELECT unnest($1::bigint[]) AS was, unnest($2::bigint[]) AS now) UPDATE batched AS b SET n = u.now + $3 FROM u WHERE b.n = u.was"
	done, err = d.Exec(t.Context(), sideBySide, []int64{1, 2, 9}, []int64{10, 20, 90}, int64(1))
	must(t, err)
	var sum int64
	must(t, d.QueryRow(t.Context(), "SELECT sum(n) FROM batched").Scan(&sum))
	if done.RowsAffected() != 2 || sum != 32 {
		t.Errorf("lists side by side wrote %d rows, with the sum %d", done.RowsAffected(), sum)
	}
}

// TestABatchStopsAtItsFirstError: no statement runs after one that failed.
func TestABatchStopsAtItsFirstError(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Path: filepath.Join(t.TempDir(), "jobs.db")})
	conn, err := s.db.Conn(t.Context())
	must(t, err)
	defer func() { must(t, conn.Close()) }()
	_, err = conn.ExecContext(t.Context(), "CREATE TEMP TABLE items (id INTEGER PRIMARY KEY)")
	must(t, err)
	var batch pgx.Batch
	for _, id := range []int64{1, 1, 2} {
		batch.Queue("INSERT INTO items VALUES ($1)", id)
	}
	results := dialect{conn}.SendBatch(t.Context(), &batch)
	for i, fails := range []bool{false, true, true} {
		if _, err := results.Exec(); (err != nil) != fails {
			t.Errorf("statement %d: %v, want an error: %t", i, err, fails)
		}
	}
	must(t, results.Close())
	var n int
	must(t, conn.QueryRowContext(t.Context(), "SELECT count(*) FROM items").Scan(&n))
	if n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}
