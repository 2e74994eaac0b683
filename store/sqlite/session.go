package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/fireonce/fireonce/gen/litedb"
)

// Rules of this file: the writer's statements are prepared once, and those that
// give no rows go to the driver without the bookkeeping of database/sql, which
// serves pools and contexts and costs as much as a small statement. What an
// operation has run tells whether there is anything to undo when it fails.

// session is the writer's connection, as the generated queries use it.
type session struct {
	conn  *sql.Conn
	execs map[string]driver.StmtExecContext
	reads map[string]*sql.Stmt
	// dirty says that something was run since it was last false that may have
	// written.
	dirty bool
	args  []driver.NamedValue
}

var _ litedb.DBTX = (*session)(nil)

func newSession(conn *sql.Conn) *session {
	return &session{conn: conn, execs: make(map[string]driver.StmtExecContext), reads: make(map[string]*sql.Stmt)}
}

// ExecContext implements litedb.DBTX.
func (s *session) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s.dirty = true
	return s.exec(ctx, query, args)
}

// control begins, ends and divides transactions.
func (s *session) control(ctx context.Context, query string) error {
	_, err := s.exec(ctx, query, nil)
	return err
}

func (s *session) exec(ctx context.Context, query string, args []any) (res sql.Result, err error) {
	stmt, ok := s.execs[query]
	if !ok {
		if stmt, err = s.prepareExec(ctx, query); err != nil {
			return nil, err
		}
	}
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

// value gives an argument as the driver takes it.
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
	default:
		return driver.DefaultParameterConverter.ConvertValue(a)
	}
}

func (s *session) prepareExec(ctx context.Context, query string) (stmt driver.StmtExecContext, err error) {
	err = s.conn.Raw(func(dc any) error {
		conn, ok := dc.(driver.ConnPrepareContext)
		if !ok {
			return errors.New("the driver prepares no statements")
		}
		prepared, err := conn.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		if stmt, ok = prepared.(driver.StmtExecContext); !ok {
			return errors.Join(errors.New("the driver executes no statements"), prepared.Close())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	s.execs[query] = stmt
	return stmt, nil
}

// PrepareContext implements litedb.DBTX.
func (s *session) PrepareContext(ctx context.Context, query string) (*sql.Stmt, error) {
	if stmt, ok := s.reads[query]; ok {
		return stmt, nil
	}
	stmt, err := s.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	s.reads[query] = stmt
	return stmt, nil
}

// QueryContext implements litedb.DBTX.
func (s *session) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := s.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	s.dirty = s.dirty || !reads(query)
	return stmt.QueryContext(ctx, args...)
}

// QueryRowContext implements litedb.DBTX.
func (s *session) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s.dirty = s.dirty || !reads(query)
	stmt, err := s.PrepareContext(ctx, query)
	if err != nil {
		return s.conn.QueryRowContext(ctx, query, args...) // gives the same error
	}
	return stmt.QueryRowContext(ctx, args...)
}

// reads tells a query that changes nothing, behind the line that names it.
func reads(query string) bool {
	for strings.HasPrefix(query, "--") {
		_, query, _ = strings.Cut(query, "\n")
	}
	return strings.HasPrefix(query, "SELECT")
}

// close ends the statements; SQLite ends no connection that has any.
func (s *session) close() error {
	var err error
	for _, stmt := range s.reads {
		err = errors.Join(err, stmt.Close())
	}
	return errors.Join(err, s.conn.Raw(func(any) error {
		var err error
		for _, stmt := range s.execs {
			if c, ok := stmt.(driver.Stmt); ok {
				err = errors.Join(err, c.Close())
			}
		}
		return err
	}))
}
