// Package remote is the connector for connectors that are not part of this
// program: a service of the user's own (fireonce.connector.v1.ConnectorService),
// called over the audited sender, one request for each call (docs/connectors.md).
// The content of an answer of the service is evidence; that an answer is
// missing, cut off or an RPC error never is.
package remote

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/redact"
	"github.com/fireonce/fireonce/internal/sleep"
)

const (
	// service is the path under which the methods are.
	service = "/fireonce.connector.v1.ConnectorService/"
	// holdKey is what a rate limit or a refused credential holds: the connection's one
	// account.
	holdKey = "account"
	// DefaultWait is how long a job waits for a connector that cannot be reached.
	DefaultWait = 30 * time.Second
	// DefaultAsk is how long an answer to Describe, Check or Prepare is waited for.
	DefaultAsk = 5 * time.Second
	// maxKnown bounds how many settings the traits are remembered of.
	maxKnown = 4096
)

// Config makes a Connector. It prints as nothing.
type Config struct {
	redact.All

	// Name is the connector's name, CheckName's rules.
	Name string
	// URL is where the service is, https, or http at a loopback address.
	URL string
	// AllowHTTP allows http everywhere: secrets then cross the network in the clear.
	AllowHTTP bool
	// Token goes with each call as a bearer token. Empty: none.
	Token string
	// Sender opens connections. Required.
	Sender *transport.Sender
	// Wait replaces DefaultWait.
	Wait time.Duration
	// Ask replaces DefaultAsk.
	Ask time.Duration
}

// Connector calls one service. It is safe for concurrent use, and prints as nothing.
type Connector struct {
	redact.All

	name   string
	who    string // in messages
	base   *url.URL
	token  string
	sender *transport.Sender
	wait   time.Duration
	askFor time.Duration
	known  *cache.TTL[[sha256.Size]byte, job.Traits] // by settings

	mu          sync.Mutex
	description *connector.Description
	away        away
}

// away remembers for a moment that the service could not be reached, or answers
// nothing, so that not every one of many jobs has to find out for itself: a job that
// waits for a silent service holds a sender that another connection's jobs could use.
type away struct {
	until time.Time
	why   string
	// silent counts the questions in a row that it has not answered in time.
	silent int
}

const (
	// awayFor is that moment, and silentFor the one after maxSilent questions without
	// an answer. One question may have been too much for a service that is well.
	awayFor   = 2 * time.Second
	silentFor = 10 * time.Second
	maxSilent = 3
)

var (
	_ connector.Observer   = (*Connector)(nil)
	_ connector.Identifier = (*Connector)(nil)
	_ connector.Poller     = (*Connector)(nil)
	_ connector.Tester     = (*Connector)(nil)
)

// New makes the connector. It asks nothing.
func New(c Config) (*Connector, error) {
	if err := CheckName(c.Name); err != nil {
		return nil, err
	}
	base, err := transport.ParseURL(c.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("connector %s: %w", c.Name, err)
	case base.RawQuery != "" || base.ForceQuery:
		return nil, fmt.Errorf("connector %s: the URL must not have a query", c.Name)
	case base.Scheme != "https" && !isLoopback(base.Hostname()) && !c.AllowHTTP:
		return nil, fmt.Errorf("connector %s: it is handed secrets, so its URL must start with https://, or name a loopback address", c.Name)
	case strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, fmt.Errorf("connector %s: its token must be printable ASCII without spaces", c.Name)
	}
	return &Connector{
		name: c.Name, who: "the connector " + c.Name, base: base, token: c.Token, sender: c.Sender,
		wait: cmp.Or(c.Wait, DefaultWait), askFor: cmp.Or(c.Ask, DefaultAsk),
		known: cache.New[[sha256.Size]byte, job.Traits](cache.Options{Max: maxKnown}),
	}, nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// The contract's Connection.connector allows these names.
var validName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// CheckName refuses names that a connector of the user's own cannot have: settings
// that the contract names are a built-in connector's, of this version or a later
// one.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return fmt.Errorf("connector %q: a name is 1 to 63 of a-z, 0-9, - and _, and begins with a letter", name)
	}
	members := (&connectionsv1.Connection{}).ProtoReflect().Descriptor().Oneofs().ByName("settings").Fields()
	if members.ByName(protoreflect.Name(name)) != nil {
		return fmt.Errorf("connector %q: this name is that of a built-in connector", name)
	}
	return nil
}

// Describe implements connector.Connector: what Load has read, and before that
// only the name.
func (c *Connector) Describe() connector.Description {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.description == nil {
		return connector.Description{
			Name: c.name, Replies: true, // Prepare knows
			Promise: "A connector of this server's operator, which could not be asked yet what it is.",
		}
	}
	return *c.description
}

func (c *Connector) described() *connector.Description {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.description
}

// Load asks the service what it is. It fails with *connector.Refusal.
func (c *Connector) Load(ctx context.Context) error {
	d, err := c.describe(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.description = &d
	return nil
}

// Keep asks the service what it is, until ctx ends: every pause until it answers
// the first time, then every ten pauses, because a new version of it may be another
// thing. told gets each change between reached (nil) and not.
func (c *Connector) Keep(ctx context.Context, pause time.Duration, told func(error)) {
	reached, first := false, true
	for {
		err := c.Load(ctx)
		if ctx.Err() != nil {
			return
		}
		if (err == nil) != reached || first {
			told(err)
		}
		reached, first = err == nil, false
		next := pause
		if reached {
			next = 10 * pause
		}
		if !sleep.For(ctx, next) {
			return
		}
	}
}

// held is why a job waits, at no cost: nothing was sent, and nothing is known of it.
func (c *Connector) held(err error) *connector.Refusal {
	msg := c.who + " could not be asked"
	var r *connector.Refusal
	if errors.As(err, &r) {
		msg = r.Msg
	}
	return &connector.Refusal{
		Kind: job.FailHeld, RetryAfter: c.wait, Shared: true,
		Msg: transport.Clean("waiting for "+c.who+": "+msg, transport.MaxMessage),
	}
}
