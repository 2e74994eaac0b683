// Package engine runs jobs. Senders claim, prepare, arm, send and settle them. A
// reconciler observes and repeats attempts whose outcome is unknown, and sweeps move jobs
// whose time is over. The package gathers evidence, job.Decide judges it, and the store
// writes the decision.
//
// A job's way leads through these files: claim.go, prepare.go, arm.go, send.go and
// settle.go. A job that needs no I/O to be prepared is armed by its claim
// (claim_armed.go), and one that is due at its submission starts there
// (direct_start.go). An unknown outcome leads to reconcile.go and observe.go.
//
// Everything rests on this order: the intent is durable before the first byte; outcomes
// are durable before more than a bounded number of jobs are without one; and this package
// never sends again on its own judgment what has an unknown outcome.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/metrics"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

// Store is what the engine needs of a store.Store.
type Store interface {
	store.Work
	store.Recovery
	Enlist(ctx context.Context, p store.Process) error
	store.Notifier
	Job(ctx context.Context, ref store.Ref) (job.Snapshot, error)
	Attempts(ctx context.Context, ref store.Ref, after, limit int) ([]job.Attempt, error)
	Apply(ctx context.Context, items []store.Change) ([]store.Applied, error)
	Credential(ctx context.Context, connection job.ID) (store.Sealed, error)
	// CreateStop opens breakers.
	CreateStop(ctx context.Context, n store.NewStop) (stop store.Stop, created bool, err error)
	store.Breakers
	Meta(ctx context.Context) (store.Meta, error)
}

// Opener decrypts a connection's credential.
type Opener func(c store.Connection, s store.Sealed) (connector.Credential, error)

// Refresher renews credentials that expire.
type Refresher interface {
	// Due reports whether a connection's credential may have to be renewed before it is
	// used. It does no I/O: the engine calls it for every job.
	Due(conn store.Connection) bool
	// Fresh returns the credential to use: cred, or a newer version, which is durable. It
	// fails with *connector.Refusal. A renewal under way goes on after ctx has ended.
	Fresh(ctx context.Context, conn store.Connection, cred connector.Credential) (connector.Credential, error)
	// Refused notes that the platform has refused a version. It returns true if a newer one
	// is durable. It fails with *connector.Refusal: of kind job.FailAuth when the login has
	// ended, otherwise when there may be a newer version later. If it returns neither, the
	// refusal stands.
	Refused(ctx context.Context, conn store.Connection, version int) (renewed bool, err error)
}

// Config is what an Engine is made of. Zero numbers take the defaults.
type Config struct {
	Store      Store
	Connectors *connector.Registry
	Open       Opener
	Log        *slog.Logger
	// Metrics counts what the engine does; nil: nothing is counted.
	Metrics *metrics.Metrics
	// Tracer makes spans of what the engine does; nil: there are none.
	Tracer *tracing.Tracer
	// Refresh renews credentials; nil: they are used until they are refused.
	Refresh Refresher
	// Namespace is the installation's (store.Meta): a part of every effect key.
	Namespace string
	// Worker names this process in attempts and logs. Process describes it further to the
	// other servers; its Worker is the engine's.
	Worker  string
	Process store.Process
	// Clock is the clock of deadlines; nil: this machine's.
	Clock Clock
	// NewID makes claim and arm tokens.
	NewID func() job.ID
	// Jitter returns a number in [0,1) by which back-offs are shortened; nil: at random.
	Jitter func() float64
	// Senders is how many jobs are prepared or sent concurrently: default 64, at most 1024.
	Senders int
	// Lookers is how many looks, polls and replays run concurrently: default 16.
	Lookers int
	// Lease is how long a claim may prepare: default 60 s, renewed every third of it.
	Lease time.Duration
	// Grace is the time between an attempt's answer deadline and the moment at which its
	// outcome counts as unknown: default 30 s. It must exceed TCP_USER_TIMEOUT.
	Grace time.Duration
	// Poll is how often due work is searched for when no hint comes: default 500 ms,
	// at most store.HintAhead.
	Poll time.Duration
	// BreakAfter is how many tries in a row must fail for which the target itself is ill, of at
	// least two jobs and within BreakWithin, until the breaker of their destination opens; 0: this
	// engine opens none. It takes part in the probes of others.
	BreakAfter  int
	BreakWithin time.Duration
	// Drain is how long a shutdown waits for sends under way: default 45 s.
	Drain time.Duration
}

const (
	defaultSenders = 64
	maxSenders     = 1024
	defaultLookers = 16
	defaultLease   = time.Minute
	defaultGrace   = 30 * time.Second
	defaultPoll    = 500 * time.Millisecond
	defaultDrain   = 45 * time.Second
	// openTimeout bounds everything before the arm that touches the network.
	openTimeout = 20 * time.Second
	// storeTimeout bounds one call to the store.
	storeTimeout = 15 * time.Second
	// Settle times where the connector does not know its own: no connector has longer ones.
	carefulLag       = time.Hour
	carefulNegatives = 10
)

// Engine runs the jobs of one process.
type Engine struct {
	Config
	// hard ends when the process must end: settling goes on until then.
	hard context.Context
	kill context.CancelFunc
	// busy counts the attempts and looks under way.
	busy    sync.WaitGroup
	workers workers
	permits *sendPermits
	lookers *lookers
	direct  *directStart

	storeLog    *storeLog
	credentials *credentials
	contents    *contentLocks
	notBefore   *notBefore
	holds       *holds
	breakers    *breakers
}

// New checks the configuration and makes an engine. Run starts it.
func New(c Config) (*Engine, error) {
	if c.Store == nil || c.Connectors == nil || c.Open == nil || c.NewID == nil || c.Log == nil {
		return nil, errors.New("engine: store, connectors, opener, ids and log are required")
	}
	if c.Clock == nil {
		c.Clock = SystemClock()
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64 // spreads load; guards no secret
	}
	c.Process.Worker = c.Worker
	setDefault(&c.Senders, defaultSenders)
	setDefault(&c.Lookers, defaultLookers)
	setDefault(&c.Lease, defaultLease)
	setDefault(&c.Grace, defaultGrace)
	setDefault(&c.Poll, defaultPoll)
	c.Poll = min(c.Poll, store.HintAhead)
	setDefault(&c.Drain, defaultDrain)
	if c.Senders < 1 || c.Senders > maxSenders || c.Lookers < 1 || c.Lookers > maxSenders {
		return nil, fmt.Errorf("engine: senders and lookers must be 1 to %d", maxSenders)
	}
	if c.BreakAfter < 0 || c.BreakAfter > MaxBreakAfter || c.BreakAfter > 0 && (c.BreakWithin < MinBreakWithin || c.BreakWithin > MaxBreakWithin) {
		return nil, fmt.Errorf("engine: a breaker opens after 1 to %d tries within %v to %v", MaxBreakAfter, MinBreakWithin, MaxBreakWithin)
	}
	if c.Grace < time.Second || c.Lease < time.Second {
		return nil, errors.New("engine: grace and lease must be at least 1 s")
	}
	e := &Engine{
		Config: c, workers: newWorkers(), permits: newSendPermits(c.Senders), lookers: newLookers(c.Lookers),
	}
	e.direct = &directStart{permits: e.permits, busy: &e.busy}
	cfg := &e.Config
	e.storeLog = newStoreLog(cfg)
	e.credentials = newCredentials(cfg)
	e.contents = newContentLocks(cfg)
	e.notBefore = &notBefore{Config: cfg, begun: c.Clock.Read().Time}
	e.holds = &holds{Config: cfg}
	e.breakers = &breakers{Config: cfg}
	e.hard, e.kill = context.WithCancel(context.Background())
	e.measure()
	return e, nil
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// measure begins the counters of the connectors, and makes the engine's saturation
// readable for scrapes.
func (e *Engine) measure() {
	e.Metrics.Expect(e.Connectors.Names()...)
	for _, s := range []struct {
		name, help string
		busy       *atomic.Int64
		limit      int
	}{
		{"senders", "jobs that are prepared or sent", &e.permits.sending, cap(e.permits.senders)},
		{"places", "jobs that are claimed and whose outcome is not stored", &e.permits.held, cap(e.permits.inFlight)},
		{"lookers", "looks, polls and repeats under way", &e.lookers.looking, cap(e.lookers.permits)},
	} {
		e.Metrics.Gauge(s.name+"_busy", "Of "+s.name+"_limit: "+s.help+" now.", nil, func() float64 { return float64(s.busy.Load()) })
		e.Metrics.Gauge(s.name+"_limit", "At most so many "+s.help+" at a time.", nil, func() float64 { return float64(s.limit) })
	}
}

// Run works until ctx ends, then drains: nothing new is claimed, claims without
// an intent go back, sends under way finish and are settled, for Drain at most.
// It returns nil after a complete drain.
func (e *Engine) Run(ctx context.Context) error {
	defer e.kill()
	defer e.workers.end()
	e.enlist(ctx)
	e.direct.open(ctx)
	var loops sync.WaitGroup
	loops.Go(func() { e.claimLoop(ctx) })
	loops.Go(func() { e.sweepLoop(ctx) })
	loops.Go(func() { e.takeOverLoop(ctx) })
	loops.Go(func() { e.lookLoop(ctx) })
	loops.Go(func() { e.contents.wakeLoop(ctx) })
	loops.Wait()
	e.direct.close()

	drained := make(chan struct{})
	go func() { e.busy.Wait(); close(drained) }()
	timer := time.NewTimer(e.Drain)
	defer timer.Stop()
	select {
	case <-drained:
		return nil
	case <-timer.C:
	}
	// What is left stops trying, and logs its outcome whole.
	e.kill()
	select {
	case <-drained:
	case <-time.After(storeTimeout):
	}
	return errors.New("engine: the drain time ran out with work under way; its jobs are reconciled at the next start")
}

// traits returns what is known of the target of a job of the class, without its
// credential. A connector without settle times has only what the connection states, and
// one that does not know them has the longest. So does one whose class has changed since a
// job was armed as OBSERVABLE: its own are for another class.
func (c *Config) traits(conn *store.Connection, class job.Class) job.Traits {
	retry := c.Connectors.Retry(conn.Connector, conn.Retry)
	stated := job.Traits{Class: conn.Class, KeyWindow: conn.KeyWindow, Grace: c.Grace, Retry: &retry}
	found, _ := c.Connectors.Get(conn.Connector)
	settler, ok := found.(connector.Settler)
	if !ok {
		return stated
	}
	own, err := settler.Traits(conn.Settings)
	if err != nil {
		own = stated
	}
	if err != nil && own.Class == job.Observable || class == job.Observable && own.Class != job.Observable {
		own.ReadLag, own.Negatives, own.Spacing = carefulLag, carefulNegatives, carefulLag
	}
	own.Grace, own.Retry = c.Grace, &retry
	return own
}
