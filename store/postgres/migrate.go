package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/fireonce/fireonce/store/sqlstore"
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
func SchemaVersion() (int64, error) { return sqlstore.SchemaVersion(migrations) }

// prepareSchema checks that the schema is the one that this program knows, and migrates an
// older one if it may.
func prepareSchema(ctx context.Context, conn *pgx.Conn, migrate bool) error {
	target, err := SchemaVersion()
	if err != nil {
		return err
	}
	current, err := schemaOf(ctx, conn)
	if err != nil {
		return err
	}
	return sqlstore.Migrate(ctx, current, target, migrate, func(ctx context.Context) (err error) {
		dir, err := fs.Sub(migrations, "migrations")
		if err != nil {
			return err
		}
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(migrationLock), lock.WithLockTimeout(lockPeriod, lockTries))
		if err != nil {
			return err
		}
		db := stdlib.OpenDB(*conn.Config())
		defer func() { err = errors.Join(err, db.Close()) }()
		p, err := goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithSessionLocker(locker))
		if err != nil {
			return err
		}
		if _, err = p.Up(ctx); err != nil {
			err = opening(ctx, err)
		}
		return err
	})
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
