package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
)

// Rules of this file: a connection's statements are prepared when they are first used, because
// to prepare all of them would take most of the time of a start, and once. Statements without
// rows go to the driver without the bookkeeping of database/sql, which serves pools and contexts
// and costs as much as a small statement. The statements that an operation has run show whether
// there is anything to undo when it fails. Before a statement of the writer runs, what it changes
// is dropped from the cache (see drops).

// session is a connection, the writer's or a reader's. It spells the queries that it prepares.
type session struct {
	// w is the writer whose cache follows the statements; nil: the connection only reads.
	w     *writer
	conn  *sql.Conn
	execs map[string]execStmt
	reads map[string]rowsStmt
	// dirty reports that something was written, or may have been, since it was last false.
	dirty bool
	args  []driver.NamedValue // of the driver's types
}

var _ runner = (*session)(nil)

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

// ExecContext implements runner.
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
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	err = s.conn.Raw(func(any) (err error) {
		res, err = stmt.ExecContext(ctx, s.args)
		return err
	})
	clear(s.args) // payloads are not kept alive
	return res, err
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
		prepared, err := conn.PrepareContext(ctx, spelled(query))
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

func (s *session) withRows(ctx context.Context, query string) (rowsStmt, error) {
	if stmt, ok := s.reads[query]; ok {
		return stmt, nil
	}
	prepared, err := s.conn.PrepareContext(ctx, spelled(query))
	if err != nil {
		return rowsStmt{}, err
	}
	stmt := rowsStmt{Stmt: prepared, writes: !readsOnly(query)}
	s.reads[query] = stmt
	return stmt, nil
}

// QueryContext implements runner.
func (s *session) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := s.withRows(ctx, query)
	if err != nil {
		return nil, err
	}
	s.dirty = s.dirty || stmt.writes
	return stmt.Stmt.QueryContext(ctx, args...)
}

// QueryRowContext implements runner.
func (s *session) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	stmt, err := s.withRows(ctx, query)
	if err != nil {
		return s.conn.QueryRowContext(ctx, spelled(query), args...) // returns the same error
	}
	s.dirty = s.dirty || stmt.writes
	return stmt.Stmt.QueryRowContext(ctx, args...)
}

// readsOnly reports whether a query is certainly a SELECT. Any other query may write.
func readsOnly(query string) bool {
	query, named := strings.CutPrefix(query, "-- name: OpenJobs ")
	if named {
		return true // it begins with WITH
	}
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
