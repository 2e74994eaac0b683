// Package engine runs jobs: a pool of senders that claims, prepares, arms,
// sends and settles, and a reconciler that sweeps what died and looks at what
// is unknown. It gathers evidence; job.Decide judges; the store writes.
//
// The order that everything rests on: the intent is durable before the first
// byte, outcomes are durable before there is more than a bounded number of jobs
// without one, and an outcome that is not known is never sent again by this package
// on its own judgement.
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
	store.Notifier
	Job(ctx context.Context, ref store.Ref) (job.Snapshot, error)
	Attempts(ctx context.Context, ref store.Ref, after, limit int) ([]job.Attempt, error)
	Apply(ctx context.Context, items []store.Change) ([]store.Applied, error)
	Credential(ctx context.Context, connection job.ID) (store.Sealed, error)
}

// Opener decrypts a connection's credential.
type Opener func(c store.Connection, s store.Sealed) (connector.Credential, error)

// Refresher keeps credentials usable that end by themselves.
type Refresher interface {
	// Due tells whether a connection's credential may have to be renewed before it is
	// used. It asks nobody, and is asked for every job.
	Due(conn store.Connection) bool
	// Fresh gives the credential to use: the one given, or a newer version, which is
	// durable. It fails with *connector.Refusal; what is under way goes on after ctx
	// has ended.
	Fresh(ctx context.Context, conn store.Connection, cred connector.Credential) (connector.Credential, error)
	// Refused is told that the platform has refused a version. True: a newer one is
	// durable. It fails with *connector.Refusal: of kind job.FailAuth when the login has
	// ended, otherwise when there may be a newer one later. Neither: the refusal stands.
	Refused(ctx context.Context, conn store.Connection, version int) (renewed bool, err error)
}

// Config is what an Engine is made of. Zero numbers take the defaults.
type Config struct {
	Store      Store
	Connectors *connector.Registry
	Open       Opener
	Log        *slog.Logger
	// Metrics counts what the engine does; nil: nobody does.
	Metrics *metrics.Metrics
	// Tracer makes spans of what the engine does; nil: there are none.
	Tracer *tracing.Tracer
	// Refresh renews credentials; nil: they are used until they are refused.
	Refresh Refresher
	// Namespace is the installation's (store.Meta): a part of every effect key.
	Namespace string
	// Worker names this process in attempts and logs.
	Worker string
	// Clock is the clock of deadlines; nil: this machine's.
	Clock Clock
	// NewID makes claim and arm tokens.
	NewID func() job.ID
	// Jitter draws in [0,1) by how much back-offs are shortened; nil: at random.
	Jitter func() float64
	// Senders is how many jobs are prepared or sent at once: default 64, at most 1024.
	Senders int
	// Lookers is how many looks, polls and replays run at once: default 16.
	Lookers int
	// Lease is how long a claim may prepare: default 60 s, renewed every third of it.
	Lease time.Duration
	// Grace is added to an attempt's answer deadline before anybody calls its
	// outcome unknown: default 30 s. It must exceed TCP_USER_TIMEOUT.
	Grace time.Duration
	// Poll is how often due work is looked for when no hint comes: default 500 ms,
	// at most store.HintAhead.
	Poll time.Duration
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
	// placesPerSender bounds the jobs at once whose outcomes are being stored: they
	// wait together for one commit, and the senders need not.
	placesPerSender = 4
	// claimPatience is how long a claim waits for more free senders under load.
	claimPatience = 5 * time.Millisecond
	// openTimeout bounds everything before the arm that touches the network.
	openTimeout = 20 * time.Second
	// storeTimeout bounds one call to the store.
	storeTimeout = 15 * time.Second
)

// Engine runs the jobs of one process.
type Engine struct {
	Config
	// begun is when this process had opened its store.
	begun time.Time
	// hard ends when the process must: settling goes on until then.
	hard    context.Context
	kill    context.CancelFunc
	senders slots
	// places are those of jobs that are claimed and not settled. A KEYED job's sender
	// is free for the next one as soon as the target has answered.
	places  slots
	lookers slots
	// sending, placed and looking are how many of them have a job: the loops take some
	// before they ask for work.
	sending, placed, looking atomic.Int64
	busy                     sync.WaitGroup
	workers                  workers
	// running is the context of Run while jobs may come in by the entrance.
	entry    sync.Mutex
	running  context.Context
	shares   *shares
	gates    *gates
	doors    doors
	unopened unopened
	holds    holds
	early    early
	trouble  trouble
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
	if c.Grace < time.Second || c.Lease < time.Second {
		return nil, errors.New("engine: grace and lease must be at least 1 s")
	}
	e := &Engine{
		Config: c, senders: newSlots(c.Senders), places: newSlots(placesPerSender * c.Senders), lookers: newSlots(c.Lookers),
		begun: c.Clock.Read().Time, shares: newShares(c.Lookers), gates: newGates(), trouble: trouble{log: c.Log, metrics: c.Metrics},
		workers: newWorkers(),
	}
	e.hard, e.kill = context.WithCancel(context.Background())
	e.measure()
	return e, nil
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Run works until ctx ends, then drains: nothing new is claimed, claims without
// an intent go back, sends under way finish and are settled, for Drain at most.
// It returns nil after a complete drain.
func (e *Engine) Run(ctx context.Context) error {
	defer e.kill()
	defer e.workers.end()
	e.enlist(ctx)
	e.open(ctx)
	var loops sync.WaitGroup
	loops.Go(func() { e.dispatch(ctx) })
	loops.Go(func() { e.sweeps(ctx) })
	loops.Go(func() { e.takeUps(ctx) })
	loops.Go(func() { e.looks(ctx) })
	loops.Go(func() { e.keepGates(ctx) })
	loops.Wait()
	e.shut()

	drained := make(chan struct{})
	go func() { e.busy.Wait(); close(drained) }()
	timer := time.NewTimer(e.Drain)
	defer timer.Stop()
	select {
	case <-drained:
		return nil
	case <-timer.C:
	}
	// Whatever is left is told to stop trying; it logs its outcome whole.
	e.kill()
	select {
	case <-drained:
	case <-time.After(storeTimeout):
	}
	return errors.New("engine: the drain time ran out with work under way; its jobs are reconciled at the next start")
}

// dispatch claims due jobs, never more than there are free senders and places.
func (e *Engine) dispatch(ctx context.Context) {
	work, stop := e.Store.Watch(store.WatchWork)
	defer stop()
	idle := newPacer(e.Poll)
	busy := false
	for ctx.Err() == nil {
		free := e.free(ctx, busy)
		if free == 0 {
			return
		}
		n, err := e.claim(ctx, free)
		if err != nil {
			sleep(ctx, e.afterFailure(err))
			continue
		}
		if busy = n == free; busy {
			continue
		}
		idle.wait(ctx, work, e.nextDue, n > 0)
	}
}

// free takes a sender and a place for each job of the next claim; 0: ctx ended. While
// there is more due than senders, a claim waits a little for company: one commit for
// many jobs costs little more than for one.
func (e *Engine) free(ctx context.Context, busy bool) int {
	least := 1
	if busy {
		least = e.Senders / 2
	}
	senders := e.senders.gather(ctx, store.MaxBatch, least, claimPatience)
	if senders == 0 {
		return 0
	}
	places := e.places.acquire(ctx, senders)
	e.senders.release(senders - places)
	return places
}

// seat is a sender and a place that one job has. A look's replay has none: it is
// a looker's.
type seat struct {
	e    *Engine
	sent bool
}

// sit gives a job the sender and the place that were taken for it.
func (e *Engine) sit() *seat {
	e.sending.Add(1)
	e.placed.Add(1)
	return &seat{e: e}
}

// answered frees the sender: what follows is between the job and the store.
func (s *seat) answered() {
	if s != nil && !s.sent {
		s.sent = true
		s.e.sending.Add(-1)
		s.e.senders.release(1)
	}
}

// leave frees both.
func (s *seat) leave() {
	s.answered()
	s.e.placed.Add(-1)
	s.e.places.release(1)
}

// claim claims jobs for so many seats, which it gives back as each has done its
// work. It tells how many jobs it got.
func (e *Engine) claim(ctx context.Context, free int) (int, error) {
	f := e.fuse(free)
	leased, err := e.Store.Claim(ctx, store.ClaimParams{Worker: e.Worker, Lease: e.Lease, Limit: free, Intent: f.intend})
	e.trouble.store(ctx, opClaim, err)
	inDoubt := f.end(leased, err)
	left := free - len(leased) - len(inDoubt)
	e.senders.release(left)
	e.places.release(left)
	for _, in := range inDoubt {
		e.start(func(s *seat) { e.workInDoubt(in, err, s) })
	}
	for i := range leased {
		e.start(func(s *seat) { e.workClaimed(ctx, &leased[i], f, s) })
	}
	return len(leased), err
}

// start runs a job's work in a worker, in a sender and a place that were taken for it.
func (e *Engine) start(work func(s *seat)) {
	e.busy.Add(1)
	e.workers.run(func() {
		defer e.busy.Done()
		s := e.sit()
		defer s.leave()
		work(s)
	})
}

// workClaimed works a job that was claimed, and armed if it had an intent that was
// written.
func (e *Engine) workClaimed(ctx context.Context, l *store.Leased, f *fused, s *seat) {
	if l.Armed != nil {
		in := f.intents[l.ID]
		in.ready.work.Claimed(f.begun, f.ended, true)
		e.workArmed(in, l.Armed, s)
		return
	}
	w := e.Tracer.Begin(tracing.Attempt, l, f.begun)
	defer w.End()
	w.Claimed(f.begun, f.ended, false)
	e.work(ctx, w, l, s)
}

// nextDue asks how long nothing will be due.
func (e *Engine) nextDue(ctx context.Context) time.Duration {
	due, err := e.Store.NextDue(ctx, e.Poll)
	e.trouble.store(ctx, opNextDue, err)
	if err != nil {
		return e.Poll
	}
	return due
}
