package node

import (
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/metrics"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// serveFlags are the flags of `serve`, in groups, and what they set.
type serveFlags struct {
	config Config
	// These texts become values of config.
	allowEgress, allowOrigin, allowHost, acmeDomain, logFormat, logLevel string
	platformURLs, quotas                                                 []string

	list  []cli.Flag
	group string
}

// serveHelp is the template of a help page with serveFlags: the groups in their order.
const serveHelp = `NAME:
   {{.FullName}} - {{.Usage}}

USAGE:
   {{.FullName}} [options]

DESCRIPTION:
   {{wrap .Description 3}}

OPTIONS:{{$group := ""}}{{range .VisibleFlags}}{{if and .GetCategory (ne .GetCategory $group)}}{{$group = .GetCategory}}
{{"\t"}}
   {{$group}}{{"\t"}}{{end}}
     {{.}}{{end}}
`

// variables describes the variables of serveFlags.
const variables = "Each flag but --quarantined can be set by a variable: --allow-egress by FIREONCE_ALLOW_EGRESS, and so on."

// variable is the environment variable of a flag. Help texts do not name it: it is FIREONCE_ and
// the flag's name.
type variable string

func variableOf(flag string) cli.ValueSourceChain {
	return cli.NewValueSourceChain(variable("FIREONCE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))))
}

// Lookup implements cli.ValueSource.
func (v variable) Lookup() (string, bool) { return os.LookupEnv(string(v)) }

// String names it in errors.
func (v variable) String() string { return "environment variable " + string(v) }

// GoString implements cli.ValueSource.
func (v variable) GoString() string { return v.String() }

func (f *serveFlags) text(to *string, name, absent, usage string) {
	f.list = append(f.list, &cli.StringFlag{
		Name: name, Category: f.group, Usage: usage, Value: absent, Destination: to, Sources: variableOf(name),
	})
}

func (f *serveFlags) texts(to *[]string, name, usage string) {
	f.list = append(f.list, &cli.StringSliceFlag{
		Name: name, Category: f.group, Usage: usage, Destination: to, Sources: variableOf(name),
	})
}

func (f *serveFlags) yes(to *bool, name, usage string) {
	f.list = append(f.list, &cli.BoolFlag{Name: name, Category: f.group, Usage: usage, Destination: to, Sources: variableOf(name)})
}

func (f *serveFlags) number(to *int, name string, absent int, usage string) {
	f.list = append(f.list, &cli.IntFlag{
		Name: name, Category: f.group, Usage: usage, Value: absent, Destination: to, Sources: variableOf(name),
	})
}

func (f *serveFlags) duration(to *time.Duration, name string, absent time.Duration, usage string) {
	f.list = append(f.list, &duration.Flag{
		Name: name, Category: f.group, Usage: usage, Value: absent, HideDefault: absent == 0, Destination: to, Sources: variableOf(name),
	})
}

// newServeFlags makes the flags. Those that most servers need come first.
func newServeFlags(version string) *serveFlags {
	f := &serveFlags{config: Config{Version: version}}
	c := &f.config

	f.group = "What most servers need"
	f.text(&c.Listen, "listen", "127.0.0.1:8080", "`ADDRESS` where the API listens")
	f.text(&c.Database, "database", DefaultDatabase, databaseUsage)
	f.text(&c.KeyFile, "key-file", "", "`FILE` the keys that seal credentials; default: PATH.key beside an SQLite file")
	f.yes(&c.RequireAPIKey, "require-api-key", "refuse calls without an API key, even where FIREONCE_API_KEY is not set")
	f.text(&f.allowEgress, "allow-egress", "", "`CIDR,…` ranges that jobs may call in addition to public addresses")
	f.yes(&c.AllowHTTP, "allow-http", "jobs may call http:// URLs")
	f.yes(&c.Dev, "dev", "for one machine: --allow-http, jobs may call loopback addresses, and a receiver with connection try")

	f.group = "TLS"
	f.text(&c.TLS.Pair.Cert, "tls-cert", "", "`FILE` PEM of a certificate with its chain; read again when it changes")
	f.text(&c.TLS.Pair.Key, "tls-key", "", "`FILE` PEM of its private key")
	f.text(&c.TLS.ClientCA, "tls-client-ca", "", "`FILE` PEM of authorities; callers need a certificate of one, and their API key")
	f.text(&f.acmeDomain, "acme-domain", "", "`NAME,…` names to obtain certificates for by ACME, in place of --tls-cert")
	f.text(&c.TLS.ACME.Cache, "acme-cache", "", "`FOLDER` where the certificates are kept; servers with the same names share it")
	f.yes(&c.TLS.ACME.AcceptTerms, "acme-accept-terms", "you agree to the terms of the authority")
	f.text(&c.TLS.ACME.Email, "acme-email", "", "`ADDRESS` an e-mail address that the authority may write to")
	f.text(&c.TLS.ACME.Directory, "acme-directory", "", "`URL` the authority's directory; default: Let's Encrypt")
	f.text(&c.TLS.ACME.CA, "acme-ca-file", "", "`FILE` PEM of authorities that sign the certificate of --acme-directory")

	f.group = "Other ports, and browsers"
	f.text(&c.GRPCListen, "grpc-listen", "", "`ADDRESS` where gRPC alone listens; off: nowhere; default: the port after that of --listen")
	f.text(&c.OpsListen, "ops-listen", defaultOps, "`ADDRESS` where metrics and probes are served, without a key; off: nowhere")
	f.number(&c.NamedDestinations, "metrics-destinations", metrics.DefaultNamed,
		"`NUMBER` how many failing destinations metrics name, 0 to "+strconv.Itoa(metrics.MostNamed)+"; the others are one sum")
	f.text(&c.DashboardURL, "dashboard-url", "",
		"`URL` where browsers see the dashboard, if a proxy or a network is between; off: there is none; default: the address of the API")
	f.text(&f.allowOrigin, "allow-origin", "", "`URL,…` web origins that may call from a browser")
	f.text(&f.allowHost, "allow-host", "", "`HOST,…` names to answer to without an API key, beside loopback ones")

	f.text(&c.NoticeLink, "notice-link", "", "`URL` of what notices for people link to, e.g. a dashboard")

	f.group = "Accounts, connectors and limits"
	f.text(&c.OAuthApps, "oauth-apps", "", "`FILE` JSON: the OAuth apps by which accounts log in; see docs/operations.md")
	f.text(&c.Connectors, "connectors", "", "`FILE` JSON: connectors of your own; see docs/connectors.md")
	f.texts(&f.platformURLs, "platform-url",
		"`NAME=URL` a gateway to a platform ("+strings.Join(movable(), ", ")+"); may be repeated")
	f.texts(&f.quotas, "quota", "`NAME=VALUE` a limit of each project, or with PROJECT:NAME=VALUE of one ("+
		strings.Join(server.QuotaNames(), ", ")+"); 0: none; may be repeated; see docs/operations.md")

	f.group = "Work and time"
	f.number(&c.Senders, "senders", 64, "`NUMBER` how many jobs are prepared or sent concurrently")
	f.number(&c.BreakAfter, "breaker-after", engine.DefaultBreakAfter,
		"`NUMBER` of tries in a row at a destination that is ill, after which its jobs wait for a probe, 0 to "+strconv.Itoa(engine.MaxBreakAfter)+"; 0: never")
	f.duration(&c.BreakWithin, "breaker-within", engine.DefaultBreakWithin, "`DURATION` in which these tries fail, 10s to 1h")
	f.duration(&c.Grace, "grace", 30*time.Second, "`DURATION` how long after an answer's deadline the outcome counts as unknown")
	f.duration(&c.Lease, "lease", time.Minute, "`DURATION` after how long another server takes over a job that a dead one was preparing")
	f.duration(&c.ClockDoubt, "clock-doubt", store.DefaultSuspectFor,
		"`DURATION` how long a clock that has jumped is distrusted, unless it proves right")
	f.yes(&c.TrustClock, "trust-clock", "believe the clock as it is at this start: an operator has looked at it")
	f.text(&c.TZDataDir, "tzdata-dir", "", "`FOLDER` compiled time zones for schedules; default: the system's, or else built-in")

	f.group = "The database and what it keeps"
	f.duration(&c.KeepJobs, "keep-jobs", defaultKeep, "`DURATION` how long a job is kept after its end; 0: forever")
	f.duration(&c.KeepEvents, "keep-events", defaultKeep, "`DURATION` how long the event log goes back; 0: to its beginning")
	f.text(&c.Namespace, "namespace", "", "`NAME` the installation's name in effect keys; after a database was lost, pass the old name")
	f.duration(&c.DatabaseWait, "database-wait", defaultWait, "`DURATION` how long a start waits for PostgreSQL; 0: not at all")
	f.yes(&c.SynchronousStandby, "synchronous-standby", standbyUsage)
	f.text(&c.StateDir, "state-dir", "", stateDirUsage+" on PostgreSQL: beside the key file")
	// No variable: it is for one start.
	f.list = append(f.list, &cli.BoolFlag{
		Name: "quarantined", Category: f.group, Destination: &c.Quarantined,
		Usage: "start without sending, until fireonce recover: for a database that you restored",
	})

	f.group = "The process"
	f.duration(&c.ShutdownDelay, "shutdown-delay", 0,
		"`DURATION` how long a server that shuts down goes on serving, not ready, so that load balancers notice")
	f.text(&f.logFormat, "log-format", "text", "`FORMAT` text or json")
	f.text(&f.logLevel, "log-level", "info", "`LEVEL` debug, info, warn or error")
	return f
}

// read returns the configuration that the flags and secret variables describe.
func (f *serveFlags) read(cmd *cli.Command) (c Config, err error) {
	c = f.config
	if c.Log, err = logger(cmd.Root().ErrWriter, f.logFormat, f.logLevel); err != nil {
		return c, err
	}
	if c.AllowEgress, err = transport.ParseCIDRs(f.allowEgress); err != nil {
		return c, exit.Usagef("--allow-egress: %w", err)
	}
	if c.Senders < 1 {
		return c, exit.Usagef("--senders must be positive")
	}
	switch n := c.NamedDestinations; {
	case n < 0, n > metrics.MostNamed:
		return c, exit.Usagef("--metrics-destinations must be 0 to %d", metrics.MostNamed)
	case n == 0:
		c.NamedDestinations = -1
	}
	switch n := c.BreakAfter; {
	case n < 0, n > engine.MaxBreakAfter:
		return c, exit.Usagef("--breaker-after must be 0 to %d", engine.MaxBreakAfter)
	case n == 0:
		c.BreakAfter = -1
	}
	if d := c.BreakWithin; d < engine.MinBreakWithin || d > engine.MaxBreakWithin {
		return c, exit.Usagef("--breaker-within must be %v to %v", engine.MinBreakWithin, engine.MaxBreakWithin)
	}
	for _, name := range []string{"grace", "lease", "clock-doubt"} {
		if cmd.Duration(name) < time.Second {
			return c, exit.Usagef("--%s must be at least 1s", name)
		}
	}
	if err := checkNamespace(c.Namespace); err != nil {
		return c, err
	}
	if c.PlatformURLs, err = platformURLs(f.platformURLs); err != nil {
		return c, err
	}
	if c.Quotas, err = server.ParseQuotas(f.quotas); err != nil {
		return c, exit.Usagef("--quota %w", err)
	}
	for _, port := range []*string{&c.OpsListen, &c.GRPCListen} {
		if *port == "off" {
			*port = ""
		}
	}
	c.OpsOptional, c.GRPCOptional = !cmd.IsSet("ops-listen"), !cmd.IsSet("grpc-listen")
	c.AllowOrigins, c.AllowHosts, c.TLS.ACME.Domains = splitList(f.allowOrigin), splitList(f.allowHost), splitList(f.acmeDomain)
	c.Keys, c.APIKey, c.NextAPIKey = os.Getenv(keysVariable), os.Getenv(apiKeyVariable), os.Getenv(nextAPIKeyVariable)
	c.DatabaseInArguments = inArguments(cmd, "database", databaseVariable)
	return c, nil
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
