package server_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/litetest"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/server/grpcserver"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/postgres"
	"github.com/fireonce/fireonce/store/sqlite"
)

// clock is a clock that only tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// logs keeps what the server logs.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// stub is a connector without a platform. Its verdict on a payload is what the
// payload's schema asks for.
type stub struct {
	name    string
	classes []job.Class
	replies bool
}

// away is what a connector says that has to ask another process, and cannot.
var away = &connector.Refusal{Kind: job.FailHeld, Msg: "waiting for the connector stub: nobody there"}

func (s stub) Describe() connector.Description {
	return connector.Description{
		Name: s.name, Payloads: []string{"custom", "webhook"}, Classes: s.classes, Promise: "none", Replies: s.replies,
	}
}

func (s stub) Check(settings []byte, cred connector.Credential) (connector.Capability, error) {
	var secret connectionsv1.Credential
	if err := proto.Unmarshal(cred.Data, &secret); err != nil {
		return connector.Capability{}, err
	}
	switch {
	case secret.GetBasic() != nil:
		return connector.Capability{}, &connector.InputError{Reason: connector.BadCredential, Field: "credential", Msg: "no basic auth here"}
	case len(secret.GetHeaders()) > 0:
		return connector.Capability{}, &connector.InputError{Reason: connector.BadHeader, Field: "credential.headers[0].name", Msg: "not allowed"}
	case bytes.Contains(settings, []byte("away")):
		return connector.Capability{}, away
	case bytes.Contains(settings, []byte("wrong")):
		return connector.Capability{}, &connector.InputError{Reason: connector.BadSettings, Field: "settings.custom", Msg: "wrong"}
	}
	return connector.Capability{Traits: job.Traits{Class: job.Opaque}, Identity: "account-1"}, nil
}

func (s stub) Prepare(r connector.Request) (connector.Prepared, error) {
	var p fireoncev1.Payload
	if err := proto.Unmarshal(r.Payload, &p); err != nil {
		return connector.Prepared{}, err
	}
	if r.PayloadKind == "email" {
		return connector.Prepared{}, &connector.InputError{Reason: connector.PayloadMismatch, Field: "payload", Msg: "no e-mails here"}
	}
	switch {
	case strings.HasPrefix(p.GetCustom().GetSchema(), "bad"):
		return connector.Prepared{}, &connector.InputError{Reason: connector.BadPayload, Field: "payload.custom.data", Msg: "too bad"}
	case strings.HasPrefix(p.GetCustom().GetSchema(), "header"):
		return connector.Prepared{}, &connector.InputError{Reason: connector.BadHeader, Field: "payload.custom", Msg: "not that one"}
	case strings.HasPrefix(p.GetCustom().GetSchema(), "away"):
		return connector.Prepared{HoldKey: "hold of one who is away"}, away
	case strings.HasPrefix(p.GetCustom().GetSchema(), "panic"):
		panic("a connector with a bug, and a secret-in-the-panic")
	}
	return connector.Prepared{HoldKey: "hold of " + p.GetCustom().GetSchema(), Frozen: r.Payload}, nil
}

// Limits implements connector.Limiter.
func (s stub) Limits(r connector.Request) ([]connector.Over, error) {
	var p fireoncev1.Payload
	if err := proto.Unmarshal(r.Payload, &p); err != nil {
		return nil, err
	}
	switch schema := p.GetCustom().GetSchema(); {
	case strings.HasPrefix(schema, "above"):
		return nil, &connector.InputError{Reason: connector.BadPayload, Field: "payload.custom.data", Msg: "it takes less"}
	case strings.HasPrefix(schema, "long"):
		return []connector.Over{{Field: "payload.custom.data", Msg: "most take less"}}, nil
	}
	return nil, nil
}

func (s stub) Open(context.Context, connector.Opening) (connector.Session, error) {
	panic("the server opens no connection")
}

// fixture is a server on a real socket, with a store of its own.
type fixture struct {
	tb     testing.TB
	store  store.Store
	server *server.Server
	http   *http.Server
	clock  *clock
	logs   *logs
	addr   string
	native string // the address of the listener for gRPC alone
	// dial is how Connect clients reach the server; nil: over the network.
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// protocols are what Connect clients speak when they have a dial.
	protocols http.Protocols
	conn      string   // a connection's id
	sealed    []job.ID // connections of sealedWith
}

// start serves on a loopback port with the configuration that edit leaves.
func start(tb testing.TB, edit ...func(*server.Config)) *fixture {
	tb.Helper()
	return prepareOn(tb, testEngine(tb), edit...).listen()
}

// listen serves a prepared server on loopback ports.
func (f *fixture) listen() *fixture {
	f.tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	f.must(err)
	f.addr = listener.Addr().String()
	f.serve(listener)
	f.serveNative()
	return f
}

// serveNative answers gRPC alone on a port of its own until the test ends.
func (f *fixture) serveNative() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	f.must(err)
	f.native = listener.Addr().String()
	g := grpcserver.New(f.server, nil)
	done := make(chan error, 1)
	go func() { done <- g.Serve(listener) }()
	f.tb.Cleanup(func() {
		g.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			f.tb.Errorf("serve gRPC: %v", err)
		}
	})
}

// serve answers on a listener until the test ends.
func (f *fixture) serve(listener net.Listener) {
	f.http = f.server.HTTPServer("")
	done := make(chan error, 1)
	go func() { done <- f.http.Serve(listener) }()
	f.tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := f.server.Shutdown(ctx); err != nil {
			f.tb.Errorf("shut down: %v", err)
		}
		_ = f.http.Close()
		<-done
	})
}

// prepare makes a server without a socket, on SQLite: PostgreSQL's sockets
// cannot live in a synctest bubble.
func prepare(tb testing.TB, edit ...func(*server.Config)) *fixture {
	tb.Helper()
	if engine := testEngine(tb); engine != "sqlite" {
		tb.Skipf("this test is on SQLite, also in a run on %s: the other run has it", engine)
	}
	return prepareOn(tb, "sqlite", edit...)
}

// testEngine returns which engine the tests over real sockets run on: `make test`
// runs them on both.
func testEngine(tb testing.TB) string {
	tb.Helper()
	switch name := os.Getenv("FIREONCE_TEST_ENGINE"); name {
	case "", "sqlite":
		return "sqlite"
	case "postgres":
		return name
	default:
		tb.Fatalf("FIREONCE_TEST_ENGINE=%s: must be sqlite or postgres", name)
		return ""
	}
}

func openStore(tb testing.TB, engine string, now func() time.Time) (store.Store, error) {
	tb.Helper()
	if engine == "postgres" {
		return postgres.Open(tb.Context(), postgres.Options{URL: pgtest.Reused(tb, postgres.Migrate), Now: now})
	}
	return sqlite.Open(tb.Context(), sqlite.Options{
		Path: litetest.New(tb), Now: now, Host: "test", Readers: 2,
	})
}

// theFixtures is the connection of every fixture.
var theFixtures = store.Connection{
	ID: job.ID{1, 2, 3, 15: 1}, Project: server.DefaultProject, Connector: "stub", Class: job.Opaque, DisplayName: "the fixture's",
}

// prepareOn makes a server without a socket, its store and one connection.
func prepareOn(tb testing.TB, engine string, edit ...func(*server.Config)) *fixture {
	tb.Helper()
	f := &fixture{tb: tb, clock: &clock{now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}, logs: &logs{}}
	var err error
	if f.store, err = openStore(tb, engine, f.clock.Now); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.store.Close() })
	connectors, err := connector.NewRegistry(
		stub{"stub", []job.Class{job.Opaque}, true}, stub{"webhook", []job.Class{job.Opaque}, false})
	if err != nil {
		tb.Fatal(err)
	}
	safe, err := vault.New(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		tb.Fatal(err)
	}
	cfg := server.Config{
		Store: f.store, Connectors: connectors, Vault: safe, Version: "test", Now: f.clock.Now,
		Quiet: func(_ context.Context, limit time.Duration) (time.Duration, error) { return limit, nil },
		Log:   slog.New(slog.NewJSONHandler(f.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, e := range edit {
		e(&cfg)
	}
	meta, err := cfg.Store.Meta(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	cfg.StoreID = meta.StoreID
	if f.server, err = server.New(cfg); err != nil {
		tb.Fatal(err)
	}
	_, _, err = f.store.CreateConnection(tb.Context(), store.NewConnection{Key: "fixture", Connection: theFixtures})
	if err != nil {
		tb.Fatal(err)
	}
	f.conn = theFixtures.ID.String()
	return f
}

// request is a valid ScheduleJobRequest.
func (f *fixture) request(key string, edit ...func(*fireoncev1.ScheduleJobRequest)) *fireoncev1.ScheduleJobRequest {
	r := &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: key, Connection: onConnection(f.conn),
		Payload: custom("good/v1", "hello"),
	}
	for _, e := range edit {
		e(r)
	}
	return r
}

func custom(schema, data string) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Custom{Custom: &fireoncev1.CustomPayload{
		Schema: schema, Data: []byte(data),
	}}}
}

func webhookSettings() *connectionsv1.Connection_Webhook {
	return &connectionsv1.Connection_Webhook{Webhook: &connectionsv1.WebhookSettings{
		ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(time.Hour),
	}}
}

// schedule stores a job over Connect.
func (f *fixture) schedule(r *fireoncev1.ScheduleJobRequest) *fireoncev1.Job {
	f.tb.Helper()
	var res fireoncev1.ScheduleJobResponse
	f.must(overConnect(f).call(f.tb.Context(), "/fireonce.v1.JobService/ScheduleJob", r, &res))
	return res.GetJob()
}

func (f *fixture) must(err error) {
	f.tb.Helper()
	if err != nil {
		f.tb.Fatal(err)
	}
}

// stored counts what the store has: every event is a write that took effect.
func (f *fixture) stored() (jobs int, end int64) {
	f.tb.Helper()
	page, err := f.store.List(f.tb.Context(), store.JobQuery{Project: server.DefaultProject, Limit: store.MaxBatch})
	f.must(err)
	conns, err := f.store.ListConnections(f.tb.Context(), store.ConnectionQuery{Project: server.DefaultProject, Limit: store.MaxBatch, Deleted: true})
	f.must(err)
	return len(page.Jobs) + len(conns.Connections), page.Position
}

func (f *fixture) id(text string) job.ID {
	f.tb.Helper()
	id, err := job.ParseID(text)
	f.must(err)
	return id
}

func (f *fixture) snapshot(text string) job.Snapshot {
	f.tb.Helper()
	snap, err := f.store.Job(f.tb.Context(), store.Ref{Project: server.DefaultProject, ID: f.id(text)})
	f.must(err)
	return snap
}

// claim leases the one job that is due.
func (f *fixture) claim() store.Leased {
	f.tb.Helper()
	leased, err := f.store.Claim(f.tb.Context(), store.ClaimParams{Worker: "worker", Lease: time.Minute, Limit: 1})
	f.must(err)
	if len(leased) != 1 {
		f.tb.Fatalf("claimed %d jobs, want 1", len(leased))
	}
	return leased[0]
}

// arm claims and arms the one job that is due.
func (f *fixture) arm() job.Snapshot {
	f.tb.Helper()
	l := f.claim()
	armed, err := f.store.Arm(f.tb.Context(), []store.Arm{{
		Job: l.ID, Version: l.Version, Claim: l.ClaimToken, Token: l.ClaimToken, Worker: "worker", Class: job.Opaque,
		EffectKey: l.EffectKey(""), Digest: bytes.Repeat([]byte{1}, 32), Frozen: []byte("frozen"),
		SendBy: 10 * time.Second, AnswerBy: 30 * time.Second, Fence: time.Minute,
	}})
	f.must(err)
	f.must(armed[0].Err)
	return armed[0].Snapshot.Of(l.Spec)
}

// learn lets the store write what evidence means for a job.
func (f *fixture) learn(id job.ID, e job.Evidence) job.Snapshot {
	f.tb.Helper()
	snap := f.snapshot(id.String())
	d, err := job.Decide(snap.View(job.Traits{Class: snap.Class}, 0), e)
	f.must(err)
	applied, err := f.store.Apply(f.tb.Context(), []store.Change{{Job: id, Version: snap.Version, Decision: d, Actor: "worker"}})
	f.must(err)
	f.must(applied[0].Err)
	return applied[0].Snapshot
}

// fail brings the one job that is due to FAILED.
func (f *fixture) fail() job.Snapshot {
	f.tb.Helper()
	snap := f.arm()
	return f.learn(snap.ID, job.Outcome{
		Attempt: snap.Attempt, Result: job.ResultRejected, Kind: job.FailPermanent, HTTPStatus: 400, Message: "no",
	})
}

// needResolution brings the one job that is due to NEEDS_RESOLUTION.
func (f *fixture) needResolution() job.Snapshot {
	f.tb.Helper()
	snap := f.arm()
	f.learn(snap.ID, job.Outcome{Attempt: snap.Attempt, Result: job.ResultUnknown, Kind: job.FailAmbiguous, Message: "reset"})
	f.clock.advance(2 * time.Minute)
	snap = f.learn(snap.ID, job.LookDue{})
	if snap.State != job.NeedsResolution {
		f.tb.Fatalf("state %s, want NEEDS_RESOLUTION", snap.State)
	}
	return snap
}

// claimAny leases whatever is due.
func (f *fixture) claimAny() {
	if _, err := f.store.Claim(f.tb.Context(), store.ClaimParams{Worker: "worker", Lease: time.Minute, Limit: 1}); err != nil {
		f.tb.Errorf("claim: %v", err)
	}
}

// history reads a job's events from the store.
func (f *fixture) history(id string) []job.Event {
	f.tb.Helper()
	page, err := f.store.Events(f.tb.Context(), store.EventQuery{Project: server.DefaultProject, Job: f.id(id)})
	f.must(err)
	return page.Events
}

// onConnection and replyingTo name what a job is for by its id.
func onConnection(id string) *fireoncev1.ScheduleJobRequest_ConnectionId {
	return &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: id}
}

func replyingTo(id string) *fireoncev1.ScheduleJobRequest_ReplyToJobId {
	return &fireoncev1.ScheduleJobRequest_ReplyToJobId{ReplyToJobId: id}
}
