package node

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/metrics"
	"github.com/fireonce/fireonce/internal/notice"
	"github.com/fireonce/fireonce/internal/oauth"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/retention"
	"github.com/fireonce/fireonce/internal/rollup"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs"
)

// streamsEnd and callsEnd bound the wait for clients at the end, renewalsEnd that for renewals of
// tokens, which are lost if they are not stored. tracesEnd bounds the export of the last spans, so
// that an absent collector does not delay a restart.
const (
	streamsEnd  = 5 * time.Second
	callsEnd    = 10 * time.Second
	renewalsEnd = 30 * time.Second
	tracesEnd   = 3 * time.Second
)

// Node is one server process at work.
type Node struct {
	cfg      Config
	database Database
	store    store.Store
	sender   *transport.Sender
	renewer  *oauth.Renewer
	// inside reach remotes, the operator's own connectors.
	inside  []*transport.Sender
	remotes []*remote.Connector
	// scheduler makes the jobs of recurring schedules.
	scheduler *schedule.Scheduler
	// notices makes the notices of subscriptions.
	notices *notice.Runner
	server  *server.Server
	// http serves front, from the beginning of the start.
	http     *http.Server
	front    front
	listener net.Listener
	// peers bounds the connections of each peer on both listeners.
	peers *server.PeerLimit
	// grpc serves on grpcListener; nil: it has no address.
	grpc         *grpc.Server
	grpcListener net.Listener
	// tls secures both ports; nil: they have no TLS. reloads read its files again.
	tls     *certs.Server
	reloads []func() error
	// authority obtains the certificate; nil: it is in files.
	authority *certs.Authority
	meta      store.Meta
	// try is a call for the first try; empty: there is none.
	try string

	// worker is this process's name in attempts and events, and began when it started.
	worker  string
	began   time.Time
	metrics *metrics.Metrics
	// tracer makes spans; nil: there are none.
	tracer *tracing.Tracer
	// ops serves on opsListener by opsHTTP; nil: it has no address.
	ops         *server.Ops
	opsHTTP     *http.Server
	opsTLS      bool
	opsListener net.Listener

	// failed receives the error of a part that ended on its own.
	failed chan error
	// stopEngine ends claiming; drained receives the engine's error at its end.
	stopEngine context.CancelFunc
	drained    chan error
}

// Start opens the database, which it waits for as the configuration allows, migrates it, and
// serves. ctx bounds only the start.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	listen, database, err := cfg.check()
	if err != nil {
		return nil, err
	}
	if err := cfg.loadRemotes(); err != nil {
		return nil, err
	}
	database.clock = store.ClockOptions{SuspectFor: cfg.ClockDoubt, Trust: cfg.TrustClock, Report: cfg.tellClock}
	n := &Node{cfg: cfg, database: database, failed: make(chan error, 3), drained: make(chan error, 1), worker: newWorker(), began: time.Now()}
	n.metrics = metrics.New(cfg.Version, n.worker)
	if cfg.NamedDestinations != 0 {
		n.metrics.NameDestinations(cfg.NamedDestinations)
	}
	if n.tracer, err = tracing.FromEnv(ctx, tracing.Config{Version: cfg.Version, Instance: n.worker, Log: cfg.Log}); err != nil {
		return nil, err
	}
	if n.tracer != nil {
		cfg.Log.Info("spans are exported, as the variables OTEL_… say")
	}
	if err := n.start(ctx, listen); err != nil {
		return nil, errors.Join(err, n.abandon())
	}
	return n, nil
}

func (n *Node) start(ctx context.Context, listen addresses) error {
	// Before anything is opened: a missing name of the key file fails here.
	source, err := n.database.keys(n.cfg.Keys, n.cfg.KeyFile)
	if err != nil {
		return err
	}
	zones, err := recur.OpenZones(n.cfg.TZDataDir)
	if err != nil {
		return fmt.Errorf("--tzdata-dir: %w", err)
	}
	n.database.stateDir, n.database.noteFailed, n.database.namespace = n.cfg.StateDir, n.cfg.tellNotes, n.cfg.Namespace
	if n.cfg.StateDir == "" && n.database.url != "" {
		n.database.stateDir = source.stateDir()
	}
	apps, err := n.cfg.loadApps()
	if err != nil {
		return err
	}
	pages, pagesURL, err := n.cfg.dashboard()
	if err != nil {
		return err
	}
	if err := n.openPorts(listen); err != nil {
		return err
	}
	keys, err := n.openDatabase(ctx, source)
	if err != nil {
		return err
	}
	n.cfg.Log.Info("effect keys use this namespace: back it up apart from the database, and give it to no other installation",
		"namespace", n.meta.Namespace)
	n.sender = transport.NewSender(transport.Config{Egress: n.cfg.egress(), Version: n.cfg.Version})
	media := kit.NewMedia(kit.MediaConfig{
		Egress: n.cfg.egress(), Version: n.cfg.Version, HTTPSOnly: n.cfg.httpsOnly(),
	})
	registry, err := n.connectors(media)
	if err != nil {
		return err
	}
	tokens, err := n.openOAuth(apps, keys)
	if err != nil {
		return err
	}
	n.tellPauses(ctx)
	n.cfg.Log.Info("attempts and events name this process by its worker", "worker", n.worker, "host", hostname(), "pid", os.Getpid())
	eng, err := engine.New(engine.Config{
		Store: n.store, Connectors: registry, Open: opener(keys), Refresh: n.renewer, Log: n.cfg.Log, Metrics: n.metrics,
		Tracer: n.tracer, Worker: n.worker, Process: n.process(), Namespace: n.meta.Namespace, NewID: newID, Senders: n.cfg.Senders, Grace: n.cfg.Grace, Lease: n.cfg.Lease,
		BreakAfter: max(cmp.Or(n.cfg.BreakAfter, engine.DefaultBreakAfter), 0), BreakWithin: cmp.Or(n.cfg.BreakWithin, engine.DefaultBreakWithin),
	})
	if err != nil {
		return err
	}
	n.scheduler = schedule.New(schedule.Config{
		Store: n.cfg.firings(n.store), Connectors: registry, Zones: zones, Namespace: n.meta.Namespace, NewID: newID, Log: n.cfg.Log, Metrics: n.metrics,
	})
	if n.server, err = server.New(server.Config{
		Store: n.store, Creator: n.cfg.creator(eng.DirectStart(n.store)), Connectors: registry, Vault: keys, Media: media, Scheduler: n.scheduler, Quiet: eng.Quiet,
		OAuthApps: apps, OAuthClient: tokens, Refresher: n.renewer, Log: n.cfg.Log, Metrics: n.metrics, Tracer: n.tracer, Version: n.cfg.Version,
		APIKey: n.cfg.APIKey, NextAPIKey: n.cfg.NextAPIKey, Worker: n.worker, Namespace: n.meta.Namespace, StoreID: n.meta.StoreID, RequireKey: n.cfg.RequireAPIKey, AllowedOrigins: n.cfg.AllowOrigins, AllowedHosts: n.cfg.AllowHosts,
		NewID: newID, Quotas: n.cfg.Quotas, Keep: n.keep(registry), Try: n.cfg.receiver(),
		Dashboard: pages, DashboardURL: pagesURL,
	}); err != nil {
		return err
	}
	n.notices = notice.New(notice.Config{
		Store: n.store, Wire: n.server, Connectors: registry, NewID: newID, Worker: n.worker, Link: n.cfg.NoticeLink, Log: n.cfg.Log,
	})
	if err := n.listenGRPC(listen.grpc); err != nil {
		return err
	}
	for _, w := range n.cfg.warnings() {
		n.cfg.Log.Warn(w)
	}
	n.run(eng, n.keep(registry))
	n.try = n.offerTry(ctx)
	return nil
}

// connectors makes the built-in connectors and the operator's own.
func (n *Node) connectors(media *kit.Media) (*connector.Registry, error) {
	var all []connector.Connector
	for _, p := range builtin.Platforms {
		c, err := p.New(n.platformEnv(p.Name, media))
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	var err error
	if n.remotes, err = n.makeRemotes(); err != nil {
		return nil, err
	}
	for _, c := range n.remotes {
		all = append(all, c)
	}
	return connector.NewRegistry(all...)
}

// keep returns how long each kind of record is kept.
func (n *Node) keep(registry *connector.Registry) store.Keep {
	keep := n.cfg.keep()
	keep.EndlessKeys = registry.EndlessKeys()
	return keep
}

// run starts the parts. A quarantined database is served, but the engine claims nothing until an
// operator has released it.
func (n *Node) run(eng *engine.Engine, keep store.Keep) {
	n.front.set(n.server.Handler())
	n.serveOps()
	if n.grpc != nil {
		go func() {
			if err := n.grpc.Serve(n.grpcListener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				n.failed <- fmt.Errorf("serve gRPC: %w", err)
			}
		}()
	}
	ctx, stop := context.WithCancel(context.Background())
	n.stopEngine = stop
	if n.meta.Quarantined != "" {
		n.cfg.Log.Error("QUARANTINED: nothing will be sent", "why", n.meta.Quarantined,
			"then", "make sure that no other copy of this database is at work, and run `fireonce recover`")
	}
	var beside sync.WaitGroup
	beside.Go(func() {
		retention.Run(ctx, retention.Config{Store: n.store, Keep: keep, Owner: newID(), Log: n.cfg.Log})
	})
	beside.Go(func() { rollup.Run(ctx, rollup.Config{Store: n.store, Owner: newID(), Log: n.cfg.Log}) })
	beside.Go(func() { n.askRemotes(ctx) })
	beside.Go(func() { n.warnOfKeys(ctx) })
	beside.Go(func() { n.watchNeighbors(ctx) })
	if n.authority != nil {
		// The shutdown does not wait for an order that is under way.
		go n.authority.Obtain(ctx)
	}
	beside.Go(func() { n.notices.Run(ctx) })
	beside.Go(func() { n.scheduler.Run(ctx) })
	beside.Go(func() { n.server.RunPlans(ctx) })
	go func() {
		err := eng.Run(ctx)
		beside.Wait()
		n.drained <- err
	}()
}

// URL is where the API is served.
func (n *Node) URL() string { return n.scheme() + "://" + n.listener.Addr().String() }

// Port is the API's port.
func (n *Node) Port() int { return n.listener.Addr().(*net.TCPAddr).Port }

// Ready returns one line with the addresses and the database, and with --dev another one with a call to try.
func (n *Node) Ready() string {
	key := "API key required"
	if !n.cfg.keyRequired() {
		key = "no API key (FIREONCE_API_KEY): loopback only"
	}
	if n.tls != nil && n.tls.Clients != nil {
		key += " and client certificate"
	}
	where := n.URL()
	if n.grpc != nil {
		where += ", gRPC " + n.grpcListener.Addr().String()
	}
	if n.ops != nil {
		where += ", operations " + n.opsListener.Addr().String()
	}
	line := fmt.Sprintf("fireonce %s ready: %s, database %s, %s", n.cfg.Version, where, n.database, key)
	if n.meta.Quarantined != "" {
		line += ", QUARANTINED: nothing will be sent (" + n.meta.Quarantined + "); see `fireonce recover --help`"
	} else if n.try != "" {
		line += "\n" + n.try
	}
	return line
}

// Run waits until ctx ends or a part fails, then ends the node in order:
// nothing new is claimed, sends under way are settled, streams end, calls end,
// the store is closed. It returns nil after a clean end.
func (n *Node) Run(ctx context.Context) error {
	var err error
	select {
	case <-ctx.Done():
		n.server.NotReady()
		n.cfg.Log.Info("shutting down; a second signal ends it immediately", "after", n.cfg.ShutdownDelay.String())
		err = n.linger()
	case err = <-n.failed:
	case err = <-lost(n.store):
		n.cfg.Log.Error("THE DATABASE WAS REPLACED under this server: nothing more is sent, and the server ends", "why", err,
			"then", "see \"A database that was restored\" in docs/operations.md before the next start")
	}
	return errors.Join(err, n.shutdown())
}

// linger keeps serving for as long as balancers need to see that this server is not ready. It fails
// when a part does.
func (n *Node) linger() error {
	select {
	case <-time.After(n.cfg.ShutdownDelay):
		return nil
	case err := <-n.failed:
		return err
	case err := <-lost(n.store):
		return err
	}
}

func (n *Node) shutdown() error {
	n.stopEngine()
	n.drain()
	err := <-n.drained

	ctx, cancel := context.WithTimeout(context.Background(), streamsEnd)
	err = errors.Join(err, n.server.Shutdown(ctx))
	cancel()
	err = errors.Join(err, n.endCalls())
	ctx, cancel = context.WithTimeout(context.Background(), renewalsEnd)
	defer cancel()
	return errors.Join(err, n.renewer.Close(ctx), n.abandon()) // which ends the operations listener last
}

// endCalls waits for the calls of both listeners, for a bounded time.
func (n *Node) endCalls() error {
	ctx, cancel := context.WithTimeout(context.Background(), callsEnd)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if n.grpc != nil {
			n.grpc.GracefulStop()
		}
	}()
	var err error
	if n.http.Shutdown(ctx) != nil {
		// A call is slow. Whatever was answered OK is durable in any case.
		err = n.http.Close()
	}
	select {
	case <-ended:
	case <-ctx.Done():
		n.grpc.Stop() // ends GracefulStop too
		<-ended
	}
	return err
}

// endTraces exports the last spans, after everything else has ended.
func (n *Node) endTraces() {
	ctx, cancel := context.WithTimeout(context.Background(), tracesEnd)
	defer cancel()
	if err := n.tracer.Close(ctx); err != nil {
		n.cfg.Log.Warn("the last spans are lost", "err", err)
	}
}

// abandon closes everything that was opened.
func (n *Node) abandon() error {
	defer n.endTraces()
	if n.http != nil {
		_ = n.http.Close() // after a failed start; at a regular end it is closed already
	}
	if n.opsHTTP != nil {
		_ = n.opsHTTP.Close() // its answers need not be finished
	}
	for _, s := range append([]*transport.Sender{n.sender}, n.inside...) {
		if s != nil {
			s.Close()
		}
	}
	if n.store == nil {
		return nil
	}
	if err := n.store.Close(); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}

// opener decrypts credentials for the engine.
func opener(keys *vault.Vault) engine.Opener {
	return func(c store.Connection, s store.Sealed) (connector.Credential, error) {
		data, err := seal.Open(keys, c, s)
		if err != nil {
			return connector.Credential{}, err
		}
		return connector.Credential{Version: s.Version, Data: data}, nil
	}
}

// newWorker makes this process's name in attempts and events. Clients see it, so it names nothing
// of the machine. The log and ListServers map it to the host.
func newWorker() string {
	id := uuid.New()
	return "server-" + hex.EncodeToString(id[:5])
}

func hostname() string {
	host, err := os.Hostname()
	if err != nil {
		return "unnamed"
	}
	return host
}

// newID makes a UUID of version 7. It panics when the system has no randomness: there is no safe
// way to go on.
func newID() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }
