package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
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

func databaseFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "database", Usage: "the `DATABASE`: sqlite:PATH, or a PostgreSQL URL (postgres://…) that several servers may share", Value: DefaultDatabase, Sources: cli.EnvVars(databaseVariable),
	}
}

func standbyFlag() cli.Flag {
	return &cli.BoolFlag{
		Name: "synchronous-standby", Sources: cli.EnvVars("FIREONCE_SYNCHRONOUS_STANDBY"),
		Usage: "PostgreSQL fails over to a synchronous standby only, which has every commit, so a new timeline does not quarantine the database",
	}
}

func stateDirFlag(otherwise string) cli.Flag {
	return &cli.StringFlag{
		Name: "state-dir", Sources: cli.EnvVars("FIREONCE_STATE_DIR"),
		Usage: "the `FOLDER` where servers note the newest state that they saw of the database, to notice a restored one; " + otherwise,
	}
}

func serveCommand(version string) *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "run the service",
		Description: "Applies migrations, then serves the API and runs due jobs. One line on standard output says when it\n" +
			"is ready; until then the port answers UNAVAILABLE, and health NOT_SERVING. Logs go to standard error. SIGINT\n" +
			"or SIGTERM ends it in order: nothing new is started, sends under way are settled. A second one ends it immediately.\n\n" +
			"FIREONCE_API_KEY, when set, is the operator's key, of at least 16 characters: a call must come with it, or with one\n" +
			"of `fireonce apikeys`, as 'Authorization: Bearer KEY'. FIREONCE_NEXT_API_KEY is accepted too, so that the key can be replaced.\n" +
			"A database URL with a password belongs in FIREONCE_DATABASE. FIREONCE_KEYS, when set, are the keys that seal\n" +
			"credentials, separated by commas, the newest first; no key file is looked at then. Keys are no flags: arguments can\n" +
			"be read by every user of the machine.",
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name: "listen", Usage: "the `ADDRESS` to serve on", Value: "127.0.0.1:8080",
				Sources: cli.EnvVars("FIREONCE_LISTEN"),
			},
			&cli.StringFlag{
				Name: "grpc-listen", DefaultText: "the port after that of --listen",
				Usage:   "a second `ADDRESS`, for gRPC alone: the same API, at a lower cost per call; off: none",
				Sources: cli.EnvVars("FIREONCE_GRPC_LISTEN"),
			},
			&cli.StringFlag{
				Name: "ops-listen", Value: defaultOps, Sources: cli.EnvVars("FIREONCE_OPS_LISTEN"),
				Usage: "the `ADDRESS` for /metrics, /status, /livez and /readyz, which need no key; off: none",
			},
			&cli.StringFlag{
				Name: "tls-cert", Usage: "the PEM `FILE` of a certificate with its chain: both ports have TLS; read again when it changes",
				Sources: cli.EnvVars("FIREONCE_TLS_CERT"),
			},
			&cli.StringFlag{
				Name: "tls-key", Usage: "the PEM `FILE` of its private key", Sources: cli.EnvVars("FIREONCE_TLS_KEY"),
			},
			&cli.StringFlag{
				Name: "tls-client-ca", Sources: cli.EnvVars("FIREONCE_TLS_CLIENT_CA"),
				Usage: "the PEM `FILE` of authorities: require client certificates that one of them has signed, in addition to the API key",
			},
			&cli.StringFlag{
				Name: "acme-domain", Sources: cli.EnvVars("FIREONCE_ACME_DOMAIN"),
				Usage: "names, `NAME,…`, to obtain certificates for by ACME, in place of --tls-cert; see docs/operations.md",
			},
			&cli.StringFlag{
				Name: "acme-cache", Usage: "the `FOLDER` that keeps what was obtained; servers with the same names share it", Sources: cli.EnvVars("FIREONCE_ACME_CACHE"),
			},
			&cli.BoolFlag{
				Name: "acme-accept-terms", Usage: "you agree to the terms of the authority", Sources: cli.EnvVars("FIREONCE_ACME_ACCEPT_TERMS"),
			},
			&cli.StringFlag{
				Name: "acme-email", Usage: "the `ADDRESS` that the authority may write to", Sources: cli.EnvVars("FIREONCE_ACME_EMAIL"),
			},
			&cli.StringFlag{
				Name: "acme-directory", Usage: "the `URL` of the authority; default: Let's Encrypt", Sources: cli.EnvVars("FIREONCE_ACME_DIRECTORY"),
			},
			&cli.StringFlag{
				Name: "acme-ca-file", Usage: "the PEM `FILE` of authorities that sign the certificate of --acme-directory", Sources: cli.EnvVars("FIREONCE_ACME_CA_FILE"),
			},
			databaseFlag(),
			keyFileFlag("the `FILE` with the keys that seal credentials; created if missing; default PATH.key beside an SQLite file"),
			namespaceFlag(),
			&cli.BoolFlag{
				Name: "require-api-key", Usage: "refuse calls without an API key, even where FIREONCE_API_KEY is not set",
				Sources: cli.EnvVars("FIREONCE_REQUIRE_API_KEY"),
			},
			&cli.StringFlag{
				Name: "oauth-apps", Usage: "the JSON `FILE` with the OAuth apps by which accounts log in; see docs/operations.md",
				Sources: cli.EnvVars("FIREONCE_OAUTH_APPS"),
			},
			&cli.StringFlag{
				Name: "allow-egress", Usage: "ranges, `CIDR,…`, that may be called in addition to public addresses",
				Sources: cli.EnvVars("FIREONCE_ALLOW_EGRESS"),
			},
			&cli.BoolFlag{
				Name: "allow-http", Usage: "targets may have http:// URLs",
				Sources: cli.EnvVars("FIREONCE_ALLOW_HTTP"),
			},
			&cli.BoolFlag{
				Name: "dev", Usage: "for one machine: --allow-http, and targets at loopback addresses",
				Sources: cli.EnvVars("FIREONCE_DEV"),
			},
			&cli.StringFlag{
				Name: "allow-origin", Usage: "web origins, `URL,…`, that may call from a browser",
				Sources: cli.EnvVars("FIREONCE_ALLOW_ORIGIN"),
			},
			&cli.StringFlag{
				Name: "allow-host", Usage: "names, `HOST,…`, beside loopback ones to answer to without an API key",
				Sources: cli.EnvVars("FIREONCE_ALLOW_HOST"),
			},
			&cli.IntFlag{
				Name: "senders", Usage: "the `NUMBER` of jobs that are prepared or sent concurrently", Value: 64,
				Sources: cli.EnvVars("FIREONCE_SENDERS"),
			},
			&cli.StringFlag{
				Name: "tzdata-dir", Sources: cli.EnvVars("FIREONCE_TZDATA_DIR"),
				Usage: "the `FOLDER` of compiled time zone data that schedules are evaluated with; default: the system's, or else what the program has",
			},
			&duration.Flag{
				Name: "grace", Usage: "the `DURATION` that is added to an answer's deadline before the outcome counts as unknown", Value: 30 * time.Second,
				Sources: cli.EnvVars("FIREONCE_GRACE"),
			},
			&duration.Flag{
				Name: "lease", Usage: "the `DURATION` that a server has to prepare a job; after that, or its death, another server takes the job over", Value: time.Minute,
				Sources: cli.EnvVars("FIREONCE_LEASE"),
			},
			&duration.Flag{
				Name: "clock-doubt", Value: store.DefaultSuspectFor, Sources: cli.EnvVars("FIREONCE_CLOCK_DOUBT"),
				Usage: "the `DURATION` for which a clock that has jumped is distrusted, unless something proves it right; see docs/operations.md",
			},
			&cli.BoolFlag{
				Name: "trust-clock", Usage: "believe the clock as it is at this start: an operator has looked at it",
				Sources: cli.EnvVars("FIREONCE_TRUST_CLOCK"),
			},
			&duration.Flag{
				Name: "keep-jobs", Usage: "how long a job is kept after its end, as a `DURATION` such as 30d; 0: for ever", Value: defaultKeep,
				Sources: cli.EnvVars("FIREONCE_KEEP_JOBS"),
			},
			&duration.Flag{
				Name: "keep-events", Usage: "how long the event log goes back, as a `DURATION` such as 30d; 0: for ever", Value: defaultKeep,
				Sources: cli.EnvVars("FIREONCE_KEEP_EVENTS"),
			},
			standbyFlag(),
			stateDirFlag("default on PostgreSQL: beside the key file, if it may be written"),
			&duration.Flag{
				Name: "database-wait", Value: defaultWait, Sources: cli.EnvVars("FIREONCE_DATABASE_WAIT"),
				Usage: "the `DURATION` for which the start waits for a PostgreSQL server that cannot be reached for now; 0: not at all",
			},
			&duration.Flag{
				Name: "shutdown-delay", Sources: cli.EnvVars("FIREONCE_SHUTDOWN_DELAY"),
				Usage: "the `DURATION` for which the server keeps serving after its readiness fails at a shutdown, so that load balancers notice",
			},
			&cli.BoolFlag{
				// No variable: it is for one start.
				Name: "quarantined", Usage: "start without sending, until fireonce recover releases the database: for a database that you restored",
			},
			&cli.StringSliceFlag{
				Name: "connector", Sources: cli.EnvVars("FIREONCE_CONNECTOR"),
				Usage: "a connector of your own, `NAME=URL`: the URL is https, or http at a loopback address; may be repeated",
			},
			&cli.StringSliceFlag{
				Name: "connector-token-file", Sources: cli.EnvVars("FIREONCE_CONNECTOR_TOKEN_FILE"),
				Usage: "`NAME=FILE`: the file's bearer token goes with each call to that connector; may be repeated",
			},
			connectorFileFlags()[0], connectorFileFlags()[1], connectorFileFlags()[2],
			&cli.StringSliceFlag{
				Name: "platform-url", Sources: cli.EnvVars("FIREONCE_PLATFORM_URL"),
				Usage: "call a platform at another URL, `NAME=URL` (" + strings.Join(movable(), ", ") + "): a gateway, or a test double; may be repeated",
			},
			&cli.StringSliceFlag{
				Name: "quota", Sources: cli.EnvVars("FIREONCE_QUOTA"),
				Usage: "a limit, `NAME=VALUE` for every project or PROJECT:NAME=VALUE for one (" + strings.Join(server.QuotaNames(), ", ") +
					"); 0: none; may be repeated; see docs/operations.md",
			},
			&cli.StringFlag{
				Name: "log-format", Usage: "a `FORMAT`: text or json", Value: "text", Sources: cli.EnvVars("FIREONCE_LOG_FORMAT"),
			},
			&cli.StringFlag{
				Name: "log-level", Usage: "a `LEVEL`: debug, info, warn or error", Value: "info", Sources: cli.EnvVars("FIREONCE_LOG_LEVEL"),
			},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error { return serve(ctx, cmd, version) },
	}
}

func serve(ctx context.Context, cmd *cli.Command, version string) error {
	cfg, err := configOf(cmd, version)
	if err != nil {
		return err
	}
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

func configOf(cmd *cli.Command, version string) (Config, error) {
	if cmd.Args().Present() {
		return Config{}, exit.Usagef("unexpected argument %q", cmd.Args().First())
	}
	log, err := logger(cmd.Root().ErrWriter, cmd.String("log-format"), cmd.String("log-level"))
	if err != nil {
		return Config{}, err
	}
	egress, err := transport.ParseCIDRs(cmd.String("allow-egress"))
	if err != nil {
		return Config{}, exit.Usagef("--allow-egress: %w", err)
	}
	if cmd.Int("senders") < 1 {
		return Config{}, exit.Usagef("--senders must be positive")
	}
	if cmd.Duration("grace") < time.Second {
		return Config{}, exit.Usagef("--grace must be at least 1s")
	}
	if cmd.Duration("lease") < time.Second {
		return Config{}, exit.Usagef("--lease must be at least 1s")
	}
	if cmd.Duration("clock-doubt") < time.Second {
		return Config{}, exit.Usagef("--clock-doubt must be at least 1s")
	}
	if err := checkNamespace(cmd.String("namespace")); err != nil {
		return Config{}, err
	}
	remotes, err := remotesOf(cmd.StringSlice("connector"), cmd.StringSlice("connector-token-file"))
	if err != nil {
		return Config{}, err
	}
	if err := withFiles(cmd, remotes); err != nil {
		return Config{}, err
	}
	platforms, err := platformURLs(cmd.StringSlice("platform-url"))
	if err != nil {
		return Config{}, err
	}
	quotas, err := server.ParseQuotas(cmd.StringSlice("quota"))
	if err != nil {
		return Config{}, exit.Usagef("--quota %w", err)
	}
	ops, own := cmd.String("ops-listen"), cmd.String("grpc-listen")
	if ops == "off" {
		ops = ""
	}
	if own == "off" {
		own = ""
	}
	return Config{
		OpsListen: ops, OpsOptional: !cmd.IsSet("ops-listen"),
		Connectors: remotes, Quotas: quotas, PlatformURLs: platforms, OAuthApps: cmd.String("oauth-apps"),
		Listen: cmd.String("listen"), GRPCListen: own, GRPCOptional: !cmd.IsSet("grpc-listen"),
		TLS:      tlsOf(cmd),
		Database: cmd.String("database"), Namespace: cmd.String("namespace"), KeyFile: cmd.String("key-file"),
		Keys: os.Getenv(keysVariable), APIKey: os.Getenv(apiKeyVariable), NextAPIKey: os.Getenv(nextAPIKeyVariable), RequireAPIKey: cmd.Bool("require-api-key"), AllowEgress: egress,
		AllowHTTP: cmd.Bool("allow-http"), Dev: cmd.Bool("dev"),
		AllowOrigins: splitList(cmd.String("allow-origin")), AllowHosts: splitList(cmd.String("allow-host")),
		StateDir: cmd.String("state-dir"), TZDataDir: cmd.String("tzdata-dir"), SynchronousStandby: cmd.Bool("synchronous-standby"), DatabaseWait: cmd.Duration("database-wait"), ShutdownDelay: cmd.Duration("shutdown-delay"), Quarantined: cmd.Bool("quarantined"),
		DatabaseInArguments: inArguments(cmd, "database", databaseVariable),
		Senders:             cmd.Int("senders"), Grace: cmd.Duration("grace"), Lease: cmd.Duration("lease"),
		ClockDoubt: cmd.Duration("clock-doubt"), TrustClock: cmd.Bool("trust-clock"),
		KeepJobs: cmd.Duration("keep-jobs"), KeepEvents: cmd.Duration("keep-events"), Log: log, Version: version,
	}, nil
}

func tlsOf(cmd *cli.Command) TLS {
	return TLS{
		Pair: certs.Pair{Cert: cmd.String("tls-cert"), Key: cmd.String("tls-key")}, ClientCA: cmd.String("tls-client-ca"),
		ACME: certs.ACME{
			Domains: splitList(cmd.String("acme-domain")), Cache: cmd.String("acme-cache"), AcceptTerms: cmd.Bool("acme-accept-terms"),
			Email: cmd.String("acme-email"), Directory: cmd.String("acme-directory"), CA: cmd.String("acme-ca-file"),
		},
	}
}

// inArguments reports whether a flag's value is from the command line, and not from its
// variable.
func inArguments(cmd *cli.Command, flag, variable string) bool {
	return cmd.IsSet(flag) && cmd.String(flag) != os.Getenv(variable)
}

func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func logger(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, exit.Usagef("--log-level %q: must be debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(tracing.LogHandler(slog.NewTextHandler(w, opts))), nil
	case "json":
		return slog.New(tracing.LogHandler(slog.NewJSONHandler(w, opts))), nil
	default:
		return nil, exit.Usagef("--log-format %q: must be text or json", format)
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
	if cmd.Args().Present() {
		return Database{}, exit.Usagef("unexpected argument %q", cmd.Args().First())
	}
	return ParseDatabase(cmd.String("database"))
}
