package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"

	_ "modernc.org/sqlite" // the driver
)

// schema creates two tables. processed_events remembers ids; deliveries stands for
// the effect of your own handler. Keep ids at least for the connection's key window.
const schema = `
CREATE TABLE IF NOT EXISTS processed_events (
	webhook_id TEXT PRIMARY KEY,
	at         TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
) STRICT;
CREATE TABLE IF NOT EXISTS deliveries (
	id   INTEGER PRIMARY KEY,
	body BLOB NOT NULL
) STRICT;`

// events is the database.
type events struct{ db *sql.DB }

func openEvents(ctx context.Context, path string) (*events, error) {
	options := url.Values{
		"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)"}, "_txlock": {"immediate"},
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Opaque: url.PathEscape(path), RawQuery: options.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(1) // SQLite has one writer
	if _, err := db.ExecContext(ctx, schema); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return &events{db: db}, nil
}

// Close closes the database.
func (e *events) Close() error { return e.db.Close() }

// once runs the handler unless the event was processed before. It commits the id and
// the handler's effect in one transaction: both are stored, or neither.
func (e *events) once(ctx context.Context, id string, handle func(context.Context, *sql.Tx) error) (first bool, err error) {
	tx, err := e.db.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	result, err := tx.ExecContext(ctx, `INSERT INTO processed_events (webhook_id) VALUES (?) ON CONFLICT DO NOTHING`, id)
	if err != nil {
		return false, fmt.Errorf("remember: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	if err := handle(ctx, tx); err != nil {
		return false, err
	}
	if err := tx.Commit(); err != nil {
		return false, fmt.Errorf("commit: %w", err)
	}
	return true, nil
}
