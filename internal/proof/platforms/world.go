// Package platforms runs connectors against platforms, real ones and simulated
// ones, with everything that stands between a job and its effect: the engine, a
// database, real sockets, and a proxy that loses requests and answers. What is
// counted is what the platform has.
package platforms

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/litetest"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/postgres"
	"github.com/fireonce/fireonce/store/sqlite"
)

const (
	// project owns everything.
	project = "default"
	// answerTime is many times what any answer takes, also on a busy machine with the
	// race detector: an answer that comes too late is another attempt, and cases count
	// attempts. With Grace it makes a fence of twelve seconds.
	answerTime = 10 * time.Second
	// Grace is how long after its answer's deadline a request may still act.
	Grace = 2 * time.Second
	// patience is how long a job may take to its end, fences and back-off included.
	patience = 5 * time.Minute
)

// World is an engine over a database, with one connection to one platform.
type World struct {
	t *testing.T
	// Proxy stands before the platform.
	Proxy *faultproxy.Proxy
	// Store is the engine's.
	Store store.Store
	// Connection is the one connection.
	Connection store.Connection

	platform Platform
	code     connector.Connector
}

// NewWorld makes a world and starts its engine. It ends with the test.
func NewWorld(t *testing.T, p Platform) *World {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: litetest.New(t), Now: time.Now, Readers: 2})
	if err != nil {
		t.Fatal(err)
	}
	return newWorld(t, p, 0, func(*store.Connection) {}, s)
}

// fleetSenders is how many jobs one server of a fleet sends concurrently. A connection has
// half of them, so that no single server can use what the connection's limits allow.
const fleetSenders = 4

// NewFleet makes a world of two servers over one PostgreSQL, whose connection has limits
// of its own. Each server sends four jobs concurrently, two of one connection.
func NewFleet(t *testing.T, p Platform, limits func(*store.Connection)) *World {
	t.Helper()
	return newFleet(t, p, fleetSenders, limits)
}

// NewPair is a fleet whose servers each work on one job at a time: of two jobs that are under
// way, each has one.
func NewPair(t *testing.T, p Platform) *World {
	t.Helper()
	return newFleet(t, p, 1, func(*store.Connection) {})
}

func newFleet(t *testing.T, p Platform, senders int, limits func(*store.Connection)) *World {
	t.Helper()
	url := pgtest.NewFrom(t, postgres.Migrate)
	stores := make([]store.Store, 2)
	for i := range stores {
		s, err := postgres.Open(t.Context(), postgres.Options{URL: url, Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		stores[i] = s
	}
	return newWorld(t, p, senders, limits, stores...)
}

// newWorld makes a world with an engine over each of the stores, which lead to one
// database. senders is how many jobs each sends concurrently; 0: the usual number.
func newWorld(t *testing.T, p Platform, senders int, limits func(*store.Connection), stores ...store.Store) *World {
	t.Helper()
	w := &World{t: t, platform: p, Store: stores[0]}
	for _, s := range stores {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	var err error
	if w.Proxy, err = faultproxy.Start(p.URL, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Proxy.Close() })
	for i, s := range stores {
		sender := transport.NewSender(transport.Config{
			Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), RootCAs: p.Roots,
		})
		t.Cleanup(sender.Close)
		w.code = p.Connector(sender, w.Proxy.URL())
		if i == 0 {
			w.Connection = w.connect("connection", limits)
		}
		w.run(s, fmt.Sprintf("server %d", i+1), senders)
	}
	return w
}

// Again stores another connection to the account.
func (w *World) Again() store.Connection {
	w.t.Helper()
	return w.connect("connection again", func(*store.Connection) {})
}

// Through has a job sent through another connection than the world's.
func Through(c store.Connection) Change {
	return func(n *store.NewJob) { n.Spec.Connection = c.ID }
}

// connect stores a connection with the platform's first credential.
func (w *World) connect(key string, limits func(*store.Connection)) store.Connection {
	w.t.Helper()
	settings := w.platform.Settings(w.Proxy.URL())
	secret := marshal(w.t, w.platform.Credential)
	capability, err := w.code.Check(settings, connector.Credential{Version: 1, Data: secret})
	if err != nil {
		w.t.Fatal(err)
	}
	conn := store.Connection{
		ID: newID(), Project: project, Connector: w.code.Describe().Name, Class: capability.Class,
		KeyWindow: capability.KeyWindow, AccountIdentity: capability.Identity, Settings: settings, CredentialVersion: 1,
	}
	limits(&conn)
	sealed := &store.Sealed{Version: 1, KeyID: "none", Data: secret, Fingerprint: "1"}
	if conn, _, err = w.Store.CreateConnection(w.t.Context(), store.NewConnection{Key: key, Connection: conn, Sealed: sealed}); err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// Rotate returns the connection its next credential, and so ends an auth hold.
func (w *World) Rotate(credential *connectionsv1.Credential) {
	w.t.Helper()
	conn := w.connection()
	next := conn.CredentialVersion + 1
	_, err := w.Store.ChangeConnection(w.t.Context(), store.ConnectionChange{
		Project: project, ID: conn.ID, Version: conn.Version,
		Credential: &store.Sealed{Version: next, KeyID: "none", Data: marshal(w.t, credential), Fingerprint: strconv.Itoa(next)},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// connection reads the connection as it is now.
func (w *World) connection() store.Connection {
	w.t.Helper()
	conn, err := w.Store.Connection(w.t.Context(), store.Ref{Project: project, ID: w.Connection.ID})
	if err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// run starts an engine.
func (w *World) run(s store.Store, name string, senders int) {
	w.t.Helper()
	registry, err := connector.NewRegistry(w.code)
	if err != nil {
		w.t.Fatal(err)
	}
	e, err := engine.New(engine.Config{
		Store: s, Connectors: registry, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Worker: name,
		NewID: newID, Grace: Grace, Poll: 50 * time.Millisecond, Senders: senders,
		Open: func(_ store.Connection, s store.Sealed) (connector.Credential, error) {
			return connector.Credential{Version: s.Version, Data: s.Data}, nil // these secrets are not sealed
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
}

// Change alters a job before it is stored.
type Change func(*store.NewJob)

// Delivery sets what becomes of a job whose outcome stays unknown.
func Delivery(p job.Delivery) Change { return func(n *store.NewJob) { n.Spec.Delivery = p } }

// Submit stores a job with the payload, due now.
func (w *World) Submit(key string, payload *fireoncev1.Payload, changes ...Change) job.ID {
	w.t.Helper()
	kind := string(payload.ProtoReflect().WhichOneof(payload.ProtoReflect().Descriptor().Oneofs().ByName("kind")).Name())
	encoded := marshal(w.t, payload)
	prepared, err := w.code.Prepare(connector.Request{
		EffectKey: "checked", Settings: w.Connection.Settings, PayloadKind: kind, Payload: encoded,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	n := store.NewJob{Class: w.Connection.Class, Actor: "test", Spec: job.Spec{
		ID: newID(), Project: project, Key: key, Connection: w.Connection.ID, HoldKey: prepared.HoldKey,
		PayloadKind: kind, Payload: encoded, StartWindow: job.DefaultWindow, Delivery: job.OnceOrAsk,
		Retry: job.RetryPolicy{MaxAttempts: 20, AttemptTimeout: answerTime, MinBackoff: 10 * time.Millisecond},
	}}
	for _, c := range changes {
		c(&n)
	}
	created, err := w.Store.Create(w.t.Context(), []store.NewJob{n})
	if err != nil || created[0].Err != nil {
		w.t.Fatal(err, created)
	}
	return created[0].Snapshot.ID
}

// Job reads a job.
func (w *World) Job(id job.ID) job.Snapshot {
	w.t.Helper()
	s, err := w.Store.Job(w.t.Context(), store.Ref{Project: project, ID: id})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// Until waits until the job is as wanted.
func (w *World) Until(id job.ID, what string, as func(job.Snapshot) bool) job.Snapshot {
	w.t.Helper()
	hint, stop := w.Store.Watch(store.WatchEvents)
	defer stop()
	end, again := time.NewTimer(patience), time.NewTicker(time.Second) // of what another server did
	defer end.Stop()
	defer again.Stop()
	for {
		s := w.Job(id)
		if as(s) {
			return s
		}
		select {
		case <-hint:
		case <-again.C:
		case <-end.C:
			w.t.Fatalf("after %v the job is %s, not %s\n%s", patience, s.State, what, w.Story(id))
		}
	}
}

// UntilState waits until the job is in the state.
func (w *World) UntilState(id job.ID, want job.State) job.Snapshot {
	w.t.Helper()
	return w.Until(id, want.String(), func(s job.Snapshot) bool { return s.State == want })
}

// RunNow makes a waiting job due, as a client does.
func (w *World) RunNow(id job.ID) {
	w.t.Helper()
	s := w.Job(id)
	d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), job.RunNowAsked{})
	if err != nil {
		w.t.Fatal(err)
	}
	applied, err := w.Store.Apply(w.t.Context(), []store.Change{{Job: s.ID, Version: s.Version, Decision: d, Actor: "test"}})
	if err != nil || applied[0].Err != nil {
		w.t.Fatal(err, applied)
	}
}

// Attempts reads a job's attempts.
func (w *World) Attempts(id job.ID) []job.Attempt {
	w.t.Helper()
	a, err := w.Store.Attempts(w.t.Context(), store.Ref{Project: project, ID: id}, 0, job.MaxAttempts)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// Story is a job's history, for failures.
func (w *World) Story(id job.ID) string {
	page, err := w.Store.Events(w.t.Context(), store.EventQuery{Project: project, Job: id, Limit: store.MaxBatch})
	if err != nil {
		return err.Error()
	}
	out := ""
	for _, e := range page.Events {
		out += fmt.Sprintf("%s %3d %s -> %s %s attempt %d %s\n",
			e.At.Format("15:04:05.000"), e.Sequence, e.From, e.To, e.Cause, e.Attempt, e.Detail)
	}
	return out
}

func newID() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
