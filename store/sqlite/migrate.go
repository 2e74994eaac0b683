package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"github.com/fireonce/fireonce/store/sqlstore"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate brings the schema of a database file up to date, and creates the file if there is
// none. It is safe to repeat and fails with ErrLocked while a process has the database open.
func Migrate(ctx context.Context, path string) (err error) {
	lock, err := takeLock(path, false)
	if err != nil {
		return fmt.Errorf("migrate %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	db, err := sql.Open("sqlite", dsn(lock.path))
	if err != nil {
		return fmt.Errorf("migrate %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return named("migrate "+path, prepareSchema(ctx, db, true))
}

// SchemaVersion returns the version to which Migrate brings a database.
func SchemaVersion() (int64, error) { return sqlstore.SchemaVersion(migrations) }

// prepareSchema checks that the schema is the present one, and migrates an older one if it may.
func prepareSchema(ctx context.Context, db *sql.DB, migrate bool) error {
	if err := refuseForeign(ctx, db); err != nil {
		return err
	}
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir)
	if err != nil {
		return err
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	return sqlstore.Migrate(ctx, current, target, migrate, func(ctx context.Context) error {
		_, err := p.Up(ctx)
		return err
	})
}

// refuseForeign prevents the program from creating its tables in a file that was named by
// mistake: one that has tables, and no version of this program's schema.
func refuseForeign(ctx context.Context, db *sql.DB) error {
	const first = `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
		ORDER BY name <> 'goose_db_version', name LIMIT 1`
	var name string
	switch err := db.QueryRowContext(ctx, first).Scan(&name); {
	case errors.Is(err, sql.ErrNoRows):
		return nil // a new file
	case err != nil:
		return fmt.Errorf("read the schema: %w", err)
	case name != "goose_db_version":
		return fmt.Errorf("%w: it has a table %q", ErrForeign, name)
	default:
		return nil
	}
}
