package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// defaultKeep is how long ended jobs and events are kept by default.
const defaultKeep = 30 * 24 * time.Hour

// defaultWait is longer than a PostgreSQL server usually takes to restart or recover.
const defaultWait = 5 * time.Minute

// Secrets come in environment variables: other users of the machine can read arguments.
const (
	apiKeyVariable     = "FIREONCE_API_KEY"      //nolint:gosec // the name of a variable
	nextAPIKeyVariable = "FIREONCE_NEXT_API_KEY" //nolint:gosec // the name of a variable
	databaseVariable   = "FIREONCE_DATABASE"
)

// defaultOps is the default address for operations. A server goes on without it if the port is
// taken.
const defaultOps = "127.0.0.1:9464"

// DefaultDatabase is the default of --database.
const DefaultDatabase = "sqlite:fireonce.db"

// Commands returns the subcommands that open a database.
func Commands(version string) []*cli.Command {
	return []*cli.Command{serveCommand(version), migrateCommand(), recoverCommand(), namespaceCommand(), keysCommand(), apiKeysCommand(), projectsCommand(), doctorCommand(version)}
}

// Usages of flags that several commands have.
const (
	databaseUsage = "`DATABASE` sqlite:PATH or postgres://…"
	standbyUsage  = "PostgreSQL fails over to synchronous standbys only: no quarantine after a failover"
	stateDirUsage = "`FOLDER` where servers note what they saw of the database, to notice a restored one; default"
)

func databaseFlag() cli.Flag {
	return &cli.StringFlag{Name: "database", Usage: databaseUsage, Value: DefaultDatabase, Sources: cli.EnvVars(databaseVariable)}
}

func standbyFlag() cli.Flag {
	return &cli.BoolFlag{Name: "synchronous-standby", Usage: standbyUsage, Sources: cli.EnvVars("FIREONCE_SYNCHRONOUS_STANDBY")}
}

func serveCommand(version string) *cli.Command {
	flags := newServeFlags(version)
	return &cli.Command{
		Name:  "serve",
		Usage: "run the service",
		Description: "Applies migrations, then serves the API and runs due jobs. One line on standard output says when it " +
			"is ready; until then the port answers UNAVAILABLE, and health NOT_SERVING. Logs go to standard error. SIGINT " +
			"or SIGTERM ends it in order: nothing new is started, sends under way are settled. A second one ends it immediately.\n\n" +
			variables + "\n\n" +
			"Keys are no flags, because arguments can be read by every user of the machine. FIREONCE_API_KEY, when set, is " +
			"the operator's key, of at least 16 characters: a call must come with it, or with one of `fireonce apikeys`, as " +
			"'Authorization: Bearer KEY'. FIREONCE_NEXT_API_KEY is accepted too, so that the key can be replaced. " +
			"FIREONCE_KEYS, when set, are the keys that seal credentials, separated by commas, the newest first; no key file " +
			"is looked at then. A database URL with a password belongs in FIREONCE_DATABASE.",
		Flags: flags.list, CustomHelpTemplate: serveHelp,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			cfg, err := flags.read(cmd)
			if err != nil {
				return err
			}
			cfg.Try = cmd.Root().ErrWriter
			return serve(ctx, cmd, cfg)
		},
	}
}

func serve(ctx context.Context, cmd *cli.Command, cfg Config) error {
	defer runtime.KeepAlive(heapFloor())
	ctx, stop := untilSignal(ctx)
	defer stop()
	var serving atomic.Pointer[Node]
	if cfg.TLS.on() {
		// From the beginning: a manager may signal changed files while the start waits.
		defer onHangup(func() {
			if n := serving.Load(); n != nil {
				n.Reload()
			}
		})()
	}
	n, err := Start(ctx, cfg)
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		cfg.Log.Info("shut down before the server was ready")
		return nil
	case err != nil:
		return err
	}
	serving.Store(n)
	fmt.Fprintln(cmd.Root().Writer, n.Ready())
	return n.Run(ctx)
}

// onHangup calls fn at each SIGHUP, one after the other, until stop. Without it the
// signal ends the process.
func onHangup(fn func()) (stop func()) {
	signals, stopped := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-signals:
				fn()
			case <-stopped:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(stopped)
	}
}

// untilSignal returns a context that ends at the first signal. The second one ends the process,
// with the exit code that shells use for the signal. It does not rely on the system's default,
// which may be to ignore a signal, as for a shell's background jobs.
func untilSignal(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	stopped := make(chan struct{})
	go func() {
		for ctx.Err() == nil {
			select {
			case <-signals:
				cancel()
			case <-ctx.Done():
			}
		}
		select {
		case s := <-signals:
			code := exit.Error
			if number, ok := s.(syscall.Signal); ok {
				code = exit.Signal + int(number)
			}
			os.Exit(code)
		case <-stopped:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
		close(stopped)
	}
}

func migrateCommand() *cli.Command {
	return &cli.Command{
		Name:  "migrate",
		Usage: "bring a database up to date and print its schema's version",
		Description: "`serve` does the same at its start. An SQLite file must not be in use; servers on PostgreSQL may start\n" +
			"together.",
		Flags: []cli.Flag{databaseFlag()},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			d, err := databaseOf(cmd)
			if err != nil {
				return err
			}
			version, err := d.migrate(ctx)
			if err != nil {
				return stopFirst(err)
			}
			fmt.Fprintf(cmd.Root().Writer, "%s is at schema version %d\n", d, version)
			return nil
		},
	}
}

func databaseOf(cmd *cli.Command) (Database, error) {
	return ParseDatabase(cmd.String("database"))
}
