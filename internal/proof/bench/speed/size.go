//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
)

// sizeLimit bounds how long a database is asked for its size.
const sizeLimit = 10 * time.Second

// written is what a database had written at some moment, in bytes.
type written struct {
	// wal is the end of PostgreSQL's write-ahead log.
	wal int64
	// disk is the size of the database: of PostgreSQL's beyond an empty one, or of the
	// files of SQLite.
	disk int64
}

// written asks PostgreSQL, or looks at SQLite's files. What cannot be asked is 0.
func (t task) written(ctx context.Context) (w written) {
	if t.Engine == sqliteEngine {
		files, _ := filepath.Glob(filepath.Join(t.Dir, "*.db*"))
		for _, f := range files {
			if info, err := os.Stat(f); err == nil {
				w.disk += info.Size()
			}
		}
		return w
	}
	if t.Admin == "" {
		return w
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sizeLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, t.Admin)
	if err != nil {
		return w
	}
	defer conn.Close(ctx) //nolint:errcheck // it only read
	const ask = `SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, pg_database_size(current_database()) - pg_database_size('template1')`
	_ = conn.QueryRow(ctx, ask).Scan(&w.wal, &w.disk)
	return w
}
