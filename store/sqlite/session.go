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
	execs map[string]*execStmt
	reads map[string]*sql.Stmt
	// wrote is told the name and the table of each statement that changed something.
	wrote func(name, table string)
	// dirty says that something was written, or may have been, since it was last
	// false.
	dirty bool
	args  []driver.NamedValue
}

var _ litedb.DBTX = (*session)(nil)

// execStmt is a statement without rows, the name of its query and the table that
// it changes.
type execStmt struct {
	driver.StmtExecContext
	name, table string
}

func newSession(conn *sql.Conn, wrote func(name, table string)) *session {
	return &session{
		conn: conn, execs: make(map[string]*execStmt), reads: make(map[string]*sql.Stmt), wrote: wrote,
	}
}

// ExecContext implements litedb.DBTX.
func (s *session) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	stmt, err := s.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	res, err := s.exec(ctx, stmt, args)
	if err == nil && stmt.table != "" {
		if n, err := res.RowsAffected(); err == nil && n == 0 {
			return res, nil
		}
	}
	s.dirty = true
	s.wrote(stmt.name, stmt.table)
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

func (s *session) exec(ctx context.Context, stmt *execStmt, args []any) (res sql.Result, err error) {
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

func (s *session) prepared(ctx context.Context, query string) (*execStmt, error) {
	if stmt, ok := s.execs[query]; ok {
		return stmt, nil
	}
	var stmt driver.StmtExecContext
	err := s.conn.Raw(func(dc any) error {
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
	named := &execStmt{StmtExecContext: stmt}
	named.name, named.table = subject(query)
	s.execs[query] = named
	return named, nil
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
	stmt, err := s.PrepareContext(ctx, query) //nolint:sqlclosecheck // closed with the writer
	if err != nil {
		return nil, err
	}
	s.readOrWrite(query)
	return stmt.QueryContext(ctx, args...)
}

// QueryRowContext implements litedb.DBTX.
func (s *session) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	s.readOrWrite(query)
	stmt, err := s.PrepareContext(ctx, query) //nolint:sqlclosecheck // closed with the writer
	if err != nil {
		return s.conn.QueryRowContext(ctx, query, args...) // gives the same error
	}
	return stmt.QueryRowContext(ctx, args...)
}

// readOrWrite notes what a query with rows does.
func (s *session) readOrWrite(query string) {
	if _, text := split(query); strings.HasPrefix(text, "SELECT") {
		return
	}
	s.dirty = true
	s.wrote(subject(query))
}

// split gives the name of a generated query, and its text without that line.
func split(query string) (name, text string) {
	text = query
	for strings.HasPrefix(text, "--") {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		if rest, ok := strings.CutPrefix(line, "-- name: "); ok {
			name, _, _ = strings.Cut(rest, " ")
		}
	}
	return name, text
}

// subject gives the name of a query, and the table that it changes: the word
// behind INTO, UPDATE or FROM and what may stand there; empty: another statement.
func subject(query string) (name, table string) {
	name, text := split(query)
	words := strings.Fields(text)
	for i, w := range words {
		switch w {
		case "UPDATE", "INTO", "FROM":
			rest := words[i+1:]
			if len(rest) > 2 && rest[0] == "OR" {
				rest = rest[2:]
			}
			if len(rest) > 0 {
				return name, rest[0]
			}
		}
	}
	return name, ""
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
			if c, ok := stmt.StmtExecContext.(driver.Stmt); ok {
				err = errors.Join(err, c.Close())
			}
		}
		return err
	}))
}
