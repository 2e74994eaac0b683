package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// migrationLock is the advisory lock of migrating servers: "fireonce".
	migrationLock = 0x666972656f6e6365
	// lockPeriod and lockTries bound the wait for it, to five minutes.
	lockPeriod, lockTries = 1, 300
)

// Migrate brings the schema of a database up to date. It is safe to repeat, and safe for many
// servers to call concurrently: one migrates, the others wait for it.
func Migrate(ctx context.Context, url string) error {
	config, err := parse(Options{URL: url})
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return fmt.Errorf("migrate: %w", opening(ctx, err))
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := checkServer(ctx, conn); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return named("migrate", prepareSchema(ctx, conn, true))
}

// SchemaVersion returns the version to which Migrate brings a database.
func SchemaVersion() (version int64, err error) {
	db := stdlib.OpenDB(pgx.ConnConfig{}) // never connected to
	defer func() { err = errors.Join(err, db.Close()) }()
	p, err := provider(db)
	if err != nil {
		return 0, fmt.Errorf("schema version: %w", err)
	}
	for _, source := range p.ListSources() {
		version = max(version, source.Version)
	}
	return version, nil
}

func provider(db *sql.DB) (*goose.Provider, error) {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	locker, err := lock.NewPostgresSessionLocker(
		lock.WithLockID(migrationLock), lock.WithLockTimeout(lockPeriod, lockTries),
	)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithSessionLocker(locker))
}

// prepareSchema checks that the schema is the one that this program knows, and migrates an
// older one if it may. It refuses a newer one, because this program would not follow the
// newer rules.
func prepareSchema(ctx context.Context, conn *pgx.Conn, migrate bool) error {
	target, err := SchemaVersion()
	if err != nil {
		return err
	}
	current, err := schemaOf(ctx, conn)
	switch {
	case err != nil:
		return err
	case current > target:
		return fmt.Errorf("%w %d is newer than %d, the newest that this program knows", ErrSchema, current, target)
	case current < target && !migrate:
		return fmt.Errorf("%w %d is older than %d: migrate first", ErrSchema, current, target)
	case current == target:
		return nil
	}
	db := stdlib.OpenDB(*conn.Config())
	p, err := provider(db)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	if _, err = p.Up(ctx); err != nil {
		err = opening(ctx, err)
	}
	return errors.Join(err, db.Close())
}

// schemaOf reads the version of the schema; 0: there is none yet.
func schemaOf(ctx context.Context, conn *pgx.Conn) (int64, error) {
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('goose_db_version') IS NOT NULL").Scan(&there); err != nil {
		return 0, opening(ctx, err)
	}
	if !there {
		return 0, nil
	}
	var version int64
	err := conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&version)
	if err != nil {
		return 0, opening(ctx, err)
	}
	return version, nil
}
