// Package node is the server process: it wires store, connectors, engine and API together, runs
// them, and ends them in order. Tests start the same type as the program.
package node

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/weburl"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/internal/redact"
)

// Config configures a node.
type Config struct {
	redact.All

	// Listen is the address to serve on; port 0 takes a free one.
	Listen string
	// GRPCListen is a second address, for gRPC alone. Empty: there is none.
	GRPCListen string
	// GRPCOptional serves gRPC on the port after that of Listen, or not at all if that port is
	// taken. It overrides GRPCListen.
	GRPCOptional bool
	// OpsListen is the address of the operations listener: metrics, status and probes,
	// without a key. Empty: there is none.
	OpsListen string
	// OpsOptional goes on without that listener if its port is taken.
	OpsOptional bool
	// TLS secures Listen and GRPCListen, and OpsListen beyond loopback.
	TLS TLS
	// Database is "sqlite:PATH" or a PostgreSQL URL.
	Database string
	// Namespace is the installation's part of every effect key. Empty: the database's, or a new
	// one.
	Namespace string
	// DatabaseWait bounds the wait for PostgreSQL at the start; 0: no wait.
	DatabaseWait time.Duration
	// Quarantined starts without sending, until `fireonce recover`.
	Quarantined bool
	// ShutdownDelay is how long a server that shuts down goes on while it reports that it is not
	// ready, so that balancers send it no more calls.
	ShutdownDelay time.Duration
	// StateDir is the folder for the watermark of the newest state that this server has seen of the
	// database. Empty: on PostgreSQL beside the key file, if files can be made there.
	StateDir string
	// SynchronousStandby is set if PostgreSQL fails over to synchronous standbys
	// only, so that a new timeline has every commit of the old one.
	SynchronousStandby bool
	// DashboardURL is where browsers see the dashboard; empty: at Listen. "off": there is none.
	DashboardURL string
	// OAuthApps is the file of the apps by which accounts log in; empty: none.
	OAuthApps string
	// TZDataDir is a folder of compiled time zone data that schedules are evaluated with.
	// Empty: the system's, or else that of the program.
	TZDataDir string
	// KeyFile holds the keys that credentials are sealed with. Empty: PATH.key
	// beside an SQLite file; PostgreSQL needs it named. It is created when there
	// is none.
	KeyFile string
	// Keys are those keys themselves, in the form of vault.ParseKeys. They replace the key file.
	Keys string
	// APIKey is the operator's. With it or RequireAPIKey every call needs a key; without both the
	// node serves loopback only.
	APIKey        string
	RequireAPIKey bool
	// NextAPIKey is accepted beside APIKey, so that the operator's key can be replaced.
	NextAPIKey string
	// DatabaseInArguments reports that Database came as an argument, which every user of the
	// machine can read.
	DatabaseInArguments bool
	// AllowEgress are ranges that may be sent to in addition to public addresses.
	AllowEgress []netip.Prefix
	// AllowHTTP lets targets have http URLs.
	AllowHTTP bool
	// Dev is for development on one machine: it implies AllowHTTP, and allows loopback receivers.
	Dev bool
	// Try is where a receiver for trying, which Dev serves, prints what arrives; nil: there is none.
	Try io.Writer
	// Sandbox is for the fakes of `fireonce sandbox`: only loopback addresses are reached, and the
	// waits after an unknown outcome are seconds (see sandbox.go). No flag of `serve` sets it. It
	// needs Dev, and every one of PlatformURLs.
	Sandbox bool
	// NoticeLink is the address that notices for people link to; empty: none.
	NoticeLink string
	// AllowOrigins are web origins that may call from a browser.
	AllowOrigins []string
	// AllowHosts are names, beside loopback ones, to serve under without a key.
	AllowHosts []string
	// NamedDestinations is how many destinations /metrics names; 0: metrics.DefaultNamed;
	// negative: none.
	NamedDestinations int
	// Senders is how many jobs are sent concurrently; 0: the engine's default.
	Senders int
	// BreakAfter is how many tries in a row must fail until the breaker of their destination opens;
	// 0: engine.DefaultBreakAfter; negative: this server opens none.
	BreakAfter int
	// BreakWithin is the time of these tries; 0: engine.DefaultBreakWithin.
	BreakWithin time.Duration
	// Grace is added to an answer deadline before an outcome counts as unknown;
	// 0: the engine's default.
	Grace time.Duration
	// Lease is how long a server holds a job before others may take it over. A live server renews
	// it. 0: the engine's default.
	Lease time.Duration
	// ClockDoubt is how long a changed clock stays suspect when nothing proves it right; 0: the
	// store's default. TrustClock declares it right at the start.
	ClockDoubt time.Duration
	TrustClock bool
	// KeepJobs is how long an ended job is kept, and KeepEvents an event of the log; 0: forever.
	KeepJobs, KeepEvents time.Duration
	// PlatformURLs replace the addresses of platforms, by connector: with a gateway of the
	// operator's, or a test double. Egress rules apply to them.
	PlatformURLs map[string]string
	// Connectors is the file of the operator's own connectors; empty: none. remotes are those in it.
	Connectors string
	remotes    []Remote
	// Quotas bound a project's and a peer's use.
	Quotas  server.Quotas
	Log     *slog.Logger
	Version string
}

// leastGrace is the socket timeout of a sender, which the grace must exceed: a
// byte on its way must not arrive after the fence.
const leastGrace = 20 * time.Second

// check validates a configuration before anything is opened. It returns the addresses to listen on
// and the database.
func (c *Config) check() (listen addresses, d Database, err error) {
	if c.Log == nil {
		return listen, d, errors.New("node: no log")
	}
	if d, err = ParseDatabase(c.Database); err != nil {
		return listen, d, err
	}
	for _, check := range []func() error{
		c.checkAPIKeys, c.checkOrigins, c.checkNumbers, c.checkPlatformURLs, c.checkSandbox, c.TLS.check,
	} {
		if err := check(); err != nil {
			return listen, d, err
		}
	}
	if listen.api, err = c.address("--listen", c.Listen); err != nil {
		return listen, d, err
	}
	if c.GRPCOptional {
		listen.grpc = portAfter(listen.api)
	} else if c.GRPCListen != "" {
		if listen.grpc, err = c.address("--grpc-listen", c.GRPCListen); err != nil {
			return listen, d, err
		}
	}
	listen.ops, err = c.opsAddress()
	d.synchronousStandby = c.SynchronousStandby
	return listen, d, err
}

// portAfter returns the default address for gRPC: the next port, or any if the first one may be
// any; nil: there is no next port.
func portAfter(api *net.TCPAddr) *net.TCPAddr {
	const last = 65535
	switch api.Port {
	case 0:
		return &net.TCPAddr{IP: api.IP, Zone: api.Zone}
	case last:
		return nil
	default:
		return &net.TCPAddr{IP: api.IP, Zone: api.Zone, Port: api.Port + 1}
	}
}

// opsAddress returns the address for operations; nil: there is none.
func (c *Config) opsAddress() (*net.TCPAddr, error) {
	if c.OpsListen == "" {
		return nil, nil
	}
	addr, err := net.ResolveTCPAddr("tcp", c.OpsListen)
	if err != nil {
		return nil, exit.Usagef("--ops-listen %q: %v", c.OpsListen, err)
	}
	return addr, nil
}

// maxShutdownDelay is longer than any balancer needs.
const maxShutdownDelay = 10 * time.Minute

// checkOrigins checks the origins, and spells them and the hosts as browsers name them: in ASCII and
// lower case, an origin without a port that is usual.
func (c *Config) checkOrigins() error {
	for i, origin := range c.AllowOrigins {
		u, err := weburl.Parse(origin)
		if err != nil || u.Path != "/" || u.RawQuery != "" || strings.HasSuffix(origin, "/") || strings.ContainsAny(origin, "*?") {
			return exit.Usagef("--allow-origin %q: must be an origin, such as https://app.example.org", origin)
		}
		c.AllowOrigins[i] = u.Scheme + "://" + u.Host
	}
	for i, host := range c.AllowHosts {
		if name, err := weburl.Host(host); err == nil {
			c.AllowHosts[i] = name
		}
	}
	return nil
}

func (c *Config) checkNumbers() error {
	if c.ShutdownDelay < 0 || c.ShutdownDelay > maxShutdownDelay {
		return exit.Usagef("--shutdown-delay must be from 0 to %v", maxShutdownDelay)
	}
	if c.DatabaseWait < 0 {
		return exit.Usagef("--database-wait must not be negative; 0 does not wait")
	}
	if c.keep().Check() != nil {
		return exit.Usagef("--keep-jobs and --keep-events must be 0 (forever) or at least %v", store.LeastKept)
	}
	return nil
}

// addresses are where a node listens; grpc and ops may be nil.
type addresses struct{ api, grpc, ops *net.TCPAddr }

// address reads an address that may be listened on.
func (c *Config) address(flag, text string) (*net.TCPAddr, error) {
	addr, err := net.ResolveTCPAddr("tcp", text)
	if err != nil {
		return nil, exit.Usagef("%s %q: %v", flag, text, err)
	}
	if !c.keyRequired() && !addr.IP.IsLoopback() {
		return nil, exit.Usagef("%s %s: without an API key everybody who reaches the port may do everything, "+
			"so only a loopback address is served; set FIREONCE_API_KEY or --require-api-key, or listen on 127.0.0.1", flag, text)
	}
	return addr, nil
}

// keyRequired reports whether calls without an API key are refused.
func (c *Config) keyRequired() bool { return c.APIKey != "" || c.RequireAPIKey }

// keep returns how long the store keeps jobs and events. Keys are kept for as long as the contract
// promises.
func (c *Config) keep() store.Keep {
	return store.Keep{Jobs: c.KeepJobs, Events: c.KeepEvents, Keys: job.KeyKept}
}

// httpsOnly reports whether http URLs are refused.
func (c *Config) httpsOnly() bool { return !c.AllowHTTP && !c.Dev }

// egress is the policy for target addresses. It logs the names that it denies.
func (c *Config) egress() *transport.Egress {
	allow, loopback := c.AllowEgress, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	if c.Sandbox {
		return transport.NewEgressOnly(loopback...).LoggingTo(c.Log)
	}
	if c.Dev {
		allow = append(allow[:len(allow):len(allow)], loopback...)
	}
	return transport.NewEgress(allow...).LoggingTo(c.Log)
}

// secretsInTheOpen lists the secrets that other users or machines can read.
func (c *Config) secretsInTheOpen() (out []string) {
	if d, err := ParseDatabase(c.Database); err == nil && c.DatabaseInArguments && d.hasPassword() {
		out = append(out, "the database's password is an argument, which every user of this machine can read: "+
			"give the URL in FIREONCE_DATABASE instead, and change the password")
	}
	out = append(out, c.portsInTheOpen()...)
	return append(out, c.remoteInTheClear()...)
}

// portsInTheOpen names the ports beyond loopback that serve the API without TLS.
func (c *Config) portsInTheOpen() (out []string) {
	for _, port := range []struct{ flag, address string }{{"--listen", c.Listen}, {"--grpc-listen", c.GRPCListen}} {
		if addr, err := net.ResolveTCPAddr("tcp", port.address); port.address != "" && err == nil && !addr.IP.IsLoopback() && !c.TLS.on() {
			out = append(out, fmt.Sprintf("%s %s: this port has no TLS, so API keys and payloads cross the network in the clear; "+
				"give it a certificate (--tls-cert, --tls-key), or put a proxy with TLS in front of it and let nothing else reach it", port.flag, port.address))
		}
	}
	return out
}

// opsOpenThen returns the remedy for an open operations listener.
const opsOpenThen = "let only your monitoring reach it, or have it show a client certificate (--tls-client-ca)"

// opsOpen reports whether the operations listener can be read from other machines without
// a certificate.
func (c *Config) opsOpen() bool {
	addr, err := c.opsAddress()
	return err == nil && addr != nil && !addr.IP.IsLoopback() && c.TLS.ClientCA == ""
}

// warnings returns the risks of a valid configuration, for the operator.
func (c *Config) warnings() []string {
	var out []string
	if c.Grace != 0 && c.Grace <= leastGrace {
		out = append(out, fmt.Sprintf("grace %v does not exceed the socket timeout of %v: for tests and demos only", c.Grace, leastGrace))
	}
	out = append(out, c.secretsInTheOpen()...)
	if c.opsOpen() {
		out = append(out, fmt.Sprintf("--ops-listen %s: whoever reaches this port reads metrics and status without a key; "+
			opsOpenThen, c.OpsListen))
	}
	if c.Dev {
		out = append(out, "dev: targets on loopback addresses, and over plain HTTP, are allowed")
	}
	return out
}
