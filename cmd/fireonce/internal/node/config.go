// Package node is the server process: it wires store, connectors, engine and
// API together, runs them, and ends them in order. It is a type, so that tests
// start what the program starts.
package node

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Config says what a node serves and with what.
type Config struct {
	// Listen is the address to serve on; port 0 takes a free one.
	Listen string
	// Database is "sqlite:PATH".
	Database string
	// KeyFile holds the key that credentials are sealed with. Empty: PATH.key
	// beside the database. It is created when there is none.
	KeyFile string
	// APIKey must come with every call. Empty: the node serves loopback only.
	APIKey string
	// AllowEgress are ranges that webhooks may reach beside public addresses.
	AllowEgress []netip.Prefix
	// AllowHTTP lets webhooks go to http URLs.
	AllowHTTP bool
	// Dev is for trying things out on one machine: AllowHTTP, and loopback
	// receivers may be reached.
	Dev bool
	// AllowOrigins are web origins that may call from a browser.
	AllowOrigins []string
	// AllowHosts are names, beside loopback ones, to serve under without a key.
	AllowHosts []string
	// Senders is how many jobs are sent at once; 0: the engine's default.
	Senders int
	// Grace is added to an answer deadline before an outcome counts as unknown;
	// 0: the engine's default.
	Grace   time.Duration
	Log     *slog.Logger
	Version string
}

// leastGrace is the socket timeout of a sender, which the grace must exceed: a
// byte on its way must not arrive after the fence.
const leastGrace = 20 * time.Second

// check finds what is wrong with a configuration before anything is opened. It
// gives the address to listen on and the database's path.
func (c *Config) check() (listen *net.TCPAddr, path string, err error) {
	if c.Log == nil {
		return nil, "", errors.New("node: no log")
	}
	if path, err = DatabasePath(c.Database); err != nil {
		return nil, "", err
	}
	if err := checkAPIKey(c.APIKey); err != nil {
		return nil, "", err
	}
	for _, origin := range c.AllowOrigins {
		u, err := url.Parse(origin)
		if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.Path != "" || strings.ContainsAny(origin, "*?#@") {
			return nil, "", exit.Usagef("--allow-origin %q: must be an origin, such as https://app.example.org", origin)
		}
	}
	if c.Senders < 0 {
		return nil, "", exit.Usagef("--senders must be positive")
	}
	if c.Grace != 0 && c.Grace < time.Second {
		return nil, "", exit.Usagef("--grace must be at least 1s")
	}
	listen, err = net.ResolveTCPAddr("tcp", c.Listen)
	if err != nil {
		return nil, "", exit.Usagef("--listen %q: %v", c.Listen, err)
	}
	if c.APIKey == "" && !listen.IP.IsLoopback() {
		return nil, "", exit.Usagef("--listen %s: without an API key everybody who reaches the port may do everything, "+
			"so only a loopback address is served; set FIREONCE_API_KEY, or listen on 127.0.0.1", c.Listen)
	}
	return listen, path, nil
}

// DatabasePath gives the file of a "sqlite:PATH".
func DatabasePath(database string) (string, error) {
	scheme, path, _ := strings.Cut(database, ":")
	switch {
	case scheme == "postgres" || scheme == "postgresql":
		return "", exit.Usagef("--database %s://…: PostgreSQL is not yet in this version; use sqlite:PATH", scheme)
	case scheme != "sqlite" || path == "":
		return "", exit.Usagef("--database %q: must be sqlite:PATH", database)
	case path == ":memory:" || strings.HasPrefix(path, "file:") || strings.ContainsAny(path, "?#"):
		return "", exit.Usagef("--database %q: must be sqlite:PATH, with the plain path of a file", database)
	}
	return path, nil
}

// checkAPIKey refuses keys that could never come in a header as they are.
func checkAPIKey(key string) error {
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' {
			return exit.Usagef("FIREONCE_API_KEY must be printable ASCII without spaces")
		}
	}
	return nil
}

// egress is the policy for addresses that webhooks may reach.
func (c *Config) egress() *connector.Egress {
	allow := c.AllowEgress
	if c.Dev {
		allow = append(allow[:len(allow):len(allow)],
			netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	}
	return connector.NewEgress(allow...)
}

// warnings says what an operator should know about a legal configuration.
func (c *Config) warnings() []string {
	var out []string
	if c.Grace != 0 && c.Grace <= leastGrace {
		out = append(out, fmt.Sprintf("grace %v does not exceed the socket timeout of %v: for tests and demos only", c.Grace, leastGrace))
	}
	if c.Dev {
		out = append(out, "dev: webhooks may go to loopback addresses and over plain HTTP")
	}
	return out
}
