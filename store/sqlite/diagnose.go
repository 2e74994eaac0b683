package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Diagnosis is the description of a database file.
type Diagnosis struct {
	// Path is the file's, without symbolic links.
	Path string
	// Schema is the version of the schema; 0: there is none yet. Wanted is this program's.
	Schema, Wanted int64
}

// Diagnose opens a file for a moment and reads its description. The file must exist. It fails
// with ErrLocked while another process has it, and as Open does.
func Diagnose(ctx context.Context, path string) (d Diagnosis, err error) {
	if d.Wanted, err = SchemaVersion(); err != nil {
		return d, err
	}
	lock, err := takeLock(path, false)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	d.Path = lock.path
	db, err := sql.Open("sqlite", dsn(lock.path))
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var there bool
	if err := db.QueryRowContext(ctx, "SELECT count(*) > 0 FROM sqlite_master WHERE name = 'goose_db_version'").Scan(&there); err != nil {
		return d, fmt.Errorf("read the schema's version: %w", err)
	}
	if !there {
		return d, nil
	}
	if err := db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&d.Schema); err != nil {
		return d, fmt.Errorf("read the schema's version: %w", err)
	}
	return d, nil
}
