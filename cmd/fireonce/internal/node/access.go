package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlite"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: a command on keys calls a server, or with --database opens the database
// itself. The flag alone decides: there is no fallback. Both implement AccessService, so that
// commands do not differ.

type access = adminv1connect.AccessServiceClient

// accessFlags puts the flags of a command on keys before its own.
func accessFlags(own ...cli.Flag) []cli.Flag {
	return append(append(client.CommonFlags(),
		// No variable: the servers' own configuration must not decide what a command opens.
		&cli.StringFlag{Name: "database", Usage: "`DATABASE` ask no server, and open this database itself: sqlite:PATH or postgres://…"},
		standbyFlag(),
	), own...)
}

// withAccess runs fn with the server or the database that the flags name. load returns the sealing
// keys for an opened database; nil: fn needs none.
func withAccess(ctx context.Context, cmd *cli.Command, load func(Database) (*vault.Vault, error), fn func(access) error) error {
	if err := client.CheckOutput(cmd); err != nil {
		return err
	}
	if !cmd.IsSet("database") {
		api, err := client.DialFor(cmd)
		if err != nil {
			return err
		}
		err = fn(api.Access)
		if exit.Code(err) == exit.Unavailable {
			fmt.Fprintln(cmd.Root().ErrWriter, "fireonce: without a server, --database opens the database itself")
		}
		return err
	}
	d, err := ParseDatabase(cmd.String("database"))
	if err != nil {
		return err
	}
	// A start whose setting for failovers differs from the servers' would quarantine the database.
	d.synchronousStandby = cmd.Bool("synchronous-standby")
	var keys *vault.Vault
	if load != nil {
		if keys, err = load(d); err != nil {
			return err
		}
	}
	err = d.with(ctx, func(db store.Store) error {
		service, err := server.Direct(ctx, db, keys)
		if err != nil {
			return err
		}
		return fn(service)
	})
	if errors.Is(err, sqlite.ErrLocked) {
		return fmt.Errorf("%w: leave --database out to ask the server that uses it", err)
	}
	return err
}

// with runs fn with a database that exists, and closes it.
func (d Database) with(ctx context.Context, fn func(store.Store) error) (err error) {
	if err := d.exists(); err != nil {
		return err
	}
	db, err := d.open(ctx, false)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := db.Close(); err == nil {
			err = cerr
		}
	}()
	return fn(db)
}

// namedDatabase is the one that a command names which opens none.
func namedDatabase(cmd *cli.Command) (Database, error) {
	return ParseDatabase(cmp.Or(cmd.String("database"), os.Getenv("FIREONCE_DATABASE"), DefaultDatabase))
}
