package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/fireonce/fireonce/gen/sqlitedb"
)

// Rules of this file: a connection's statements are prepared when they are first used, because
// to prepare all of them would take most of the time of a start, and once. Statements without
// rows go to the driver without the bookkeeping of database/sql, which serves pools and contexts
// and costs as much as a small statement. The statements that an operation has run show whether
// there is anything to undo when it fails. Before a statement of the writer runs, what it changes
// is dropped from the cache (see drops).

// session is a connection, the writer's or a reader's, as the generated queries use it.
type session struct {
	// w is the writer whose cache follows the statements; nil: the connection only reads.
	w     *writer
	conn  *sql.Conn
	execs map[string]execStmt
	reads map[string]rowsStmt
	// dirty reports that something was written, or may have been, since it was last false.
	dirty bool
	args  []driver.NamedValue
}

var _ sqlitedb.DBTX = (*session)(nil)

// execStmt is a statement without rows.
type execStmt struct {
	driver.StmtExecContext
	// drops is what it drops from the cache; nil: nothing.
	drops drop
}

// rowsStmt is a statement with rows.
type rowsStmt struct {
	*sql.Stmt
	// writes reports that it may also write.
	writes bool
}

func newSession(conn *sql.Conn, w *writer) *session {
	return &session{w: w, conn: conn, execs: make(map[string]execStmt), reads: make(map[string]rowsStmt)}
}

// ExecContext implements sqlitedb.DBTX.
func (s *session) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	stmt, err := s.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	if stmt.drops != nil && s.w != nil {
		stmt.drops(s.w.cache, args)
	}
	res, err := s.exec(ctx, stmt, args)
	if err == nil {
		if n, err := res.RowsAffected(); err == nil && n == 0 {
			return res, nil
		}
	}
	s.dirty = true
	return res, err
}

// control begins, ends and divides transactions.
func (s *session) control(ctx context.Context, query string) error {
	stmt, err := s.prepared(ctx, query)
	if err != nil {
		return err
	}
	_, err = s.exec(ctx, stmt, nil)
	return err
}

func (s *session) exec(ctx context.Context, stmt execStmt, args []any) (res sql.Result, err error) {
	s.args = s.args[:0]
	for i, a := range args {
		v, err := value(a)
		if err != nil {
			return nil, err
		}
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	err = s.conn.Raw(func(any) (err error) {
		res, err = stmt.ExecContext(ctx, s.args)
		return err
	})
	clear(s.args) // payloads are not kept alive
	return res, err
}

// value converts an argument to the driver's type.
func value(a any) (driver.Value, error) {
	switch a := a.(type) {
	case int64, string, nil:
		return a, nil
	case []byte:
		if a == nil {
			return nil, nil
		}
		return a, nil
	case sql.NullInt64:
		return a.Value()
	case sql.NullString:
		return a.Value()
	default:
		return driver.DefaultParameterConverter.ConvertValue(a)
	}
}

func (s *session) prepared(ctx context.Context, query string) (execStmt, error) {
	if stmt, ok := s.execs[query]; ok {
		return stmt, nil
	}
	stmt := execStmt{drops: dropOf(query)}
	err := s.conn.Raw(func(dc any) error {
		conn, ok := dc.(driver.ConnPrepareContext)
		if !ok {
			return errors.New("the driver prepares no statements")
		}
		prepared, err := conn.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		if stmt.StmtExecContext, ok = prepared.(driver.StmtExecContext); !ok {
			return errors.Join(errors.New("the driver executes no statements"), prepared.Close())
		}
		return nil
	})
	if err != nil {
		return stmt, fmt.Errorf("prepare: %w", err)
	}
	s.execs[query] = stmt
	return stmt, nil
}

// PrepareContext implements sqlitedb.DBTX.
func (s *session) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	stmt, err := s.withRows(ctx, query)
	return stmt.Stmt, err
}

func (s *session) withRows(ctx context.Context, query string) (rowsStmt, error) {
	if stmt, ok := s.reads[query]; ok {
		return stmt, nil
	}
	prepared, err := s.conn.PrepareContext(ctx, query)
	if err != nil {
		return rowsStmt{}, err
	}
	stmt := rowsStmt{Stmt: prepared, writes: !readsOnly(query)}
	s.reads[query] = stmt
	return stmt, nil
}

// QueryContext implements sqlitedb.DBTX.
func (s *session) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := s.withRows(ctx, query)
	if err != nil {
		return nil, err
	}
	s.dirty = s.dirty || stmt.writes
	return stmt.Stmt.QueryContext(ctx, args...)
}

// QueryRowContext implements sqlitedb.DBTX.
func (s *session) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	stmt, err := s.withRows(ctx, query)
	if err != nil {
		return s.conn.QueryRowContext(ctx, query, args...) // returns the same error
	}
	s.dirty = s.dirty || stmt.writes
	return stmt.Stmt.QueryRowContext(ctx, args...)
}

// readsOnly reports whether a query is certainly a SELECT. Any other query may write.
func readsOnly(query string) bool {
	for strings.HasPrefix(query, "--") {
		_, query, _ = strings.Cut(query, "\n")
	}
	return strings.HasPrefix(query, "SELECT")
}

// close closes the statements. SQLite closes no connection that has any.
func (s *session) close() error {
	var err error
	for _, stmt := range s.reads {
		err = errors.Join(err, stmt.Close())
	}
	return errors.Join(err, s.conn.Raw(func(any) error {
		var err error
		for _, stmt := range s.execs {
			if c, ok := stmt.StmtExecContext.(driver.Stmt); ok {
				err = errors.Join(err, c.Close())
			}
		}
		return err
	}))
}
