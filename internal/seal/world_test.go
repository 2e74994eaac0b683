//go:build unix

package seal_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

type jobID = job.ID

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// courier is a connector that delivers to the place that its settings name, and records what it
// delivered there.
type courier struct {
	name string
	mail *mail
}

// mail records what couriers have delivered.
type mail struct {
	mu   sync.Mutex
	jobs map[string]string // job to "account@place credential"
}

func (c courier) Describe() connector.Description {
	return connector.Description{Name: c.name, Payloads: []string{"custom"}, Classes: []job.Class{job.Opaque}, Credentials: []string{"bearer_token"}}
}

func (c courier) Check(_ []byte, cred connector.Credential) (connector.Capability, error) {
	_, err := kit.OpenAuth(cred, kit.AuthBearer)
	return connector.Capability{Traits: job.Traits{Class: job.Opaque}}, err
}

func (c courier) Prepare(r connector.Request) (connector.Prepared, error) {
	return connector.Prepared{HoldKey: "account", Frozen: r.Payload}, nil
}

func (c courier) Open(_ context.Context, o connector.Opening) (connector.Session, error) {
	return delivery{c.mail, o}, nil
}

func (c courier) Test(_ context.Context, o connector.Opening) (connector.Tested, error) {
	_, account, _ := given(o)
	return connector.Tested{Identity: account}, nil
}

// given returns what a courier gets: a place, an account, and the account's secret.
func given(o connector.Opening) (place, account, secret string) {
	var settings connectionsv1.CustomSettings
	var cred connectionsv1.Credential
	if err := proto.Unmarshal(o.Settings, &settings); err != nil {
		return "", "", ""
	}
	if err := proto.Unmarshal(o.Credential.Data, &cred); err != nil {
		return "", "", ""
	}
	account, _, _ = strings.Cut(cred.GetBearerToken().GetToken(), "-")
	return settings.GetValues()["to"], account, cred.GetBearerToken().GetToken()
}

type delivery struct {
	mail *mail
	o    connector.Opening
}

func (delivery) Close() {}

func (d delivery) Publish(c connector.Commit) job.Outcome {
	if err := c.MaySend(); err != nil {
		return job.Outcome{Result: job.ResultNotSent, Kind: job.FailTransient, Message: err.Error()}
	}
	place, account, secret := given(d.o)
	d.mail.mu.Lock()
	defer d.mail.mu.Unlock()
	d.mail.jobs[d.o.Job.String()] = fmt.Sprintf("%s@%s %s", account, place, secret)
	return job.Outcome{Result: job.ResultSucceeded}
}

// logs keeps the lines that are logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// world is one server without its process.
type world struct {
	*testing.T
	store  store.Store
	api    connectionsv1connect.ConnectionServiceClient
	access adminv1connect.AccessServiceClient
	mail   *mail
	log    *logs
	stop   func()
}

// start starts a server on a database, with sealing keys of 32 times each of these bytes.
func start(t *testing.T, d database, keys ...byte) *world {
	t.Helper()
	if len(keys) == 0 {
		keys = []byte{1}
	}
	var all [][]byte
	for _, fill := range keys {
		all = append(all, bytes.Repeat([]byte{fill}, 32))
	}
	v, err := vault.New(all[0], all[1:]...)
	must(t, err)
	w := &world{T: t, store: d.open(t), mail: &mail{jobs: map[string]string{}}, log: &logs{}}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	registry, err := connector.NewRegistry(courier{"courier", w.mail}, courier{"other", w.mail})
	must(t, err)
	newID := func() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }
	e, err := engine.New(engine.Config{
		Store: w.store, Connectors: registry, Log: log, Worker: "test " + newID().String(), NewID: newID, Poll: 50 * time.Millisecond,
		Open: func(c store.Connection, sealed store.Sealed) (connector.Credential, error) {
			data, err := seal.Open(v, c, sealed)
			return connector.Credential{Version: sealed.Version, Data: data}, err
		},
	})
	must(t, err)
	meta, err := w.store.Meta(t.Context())
	must(t, err)
	s, err := server.New(server.Config{Store: w.store, StoreID: meta.StoreID, Connectors: registry, Vault: v, Log: log, NewID: newID})
	must(t, err)
	web := httptest.NewServer(s.Handler())
	w.api = connectionsv1connect.NewConnectionServiceClient(http.DefaultClient, web.URL)
	w.access = adminv1connect.NewAccessServiceClient(http.DefaultClient, web.URL)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		web.Close()
		cancel()
		must(t, <-ended)
		must(t, w.store.Close())
	})
	t.Cleanup(w.stop)
	return w
}

func tokenOf(secret string) *connectionsv1.Credential {
	return &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: secret}}}
}

func at(place string) *connectionsv1.CustomSettings {
	return &connectionsv1.CustomSettings{Values: map[string]string{"to": place}}
}

func updateTo(conn jobID, place string) *connectionsv1.UpdateConnectionRequest {
	return &connectionsv1.UpdateConnectionRequest{
		Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: conn.String()}, Settings: &connectionsv1.UpdateConnectionRequest_Custom{Custom: at(place)},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"custom"}},
	}
}

// connect makes the connection of an account at a place.
func (w *world) connect(account, place string) jobID {
	w.Helper()
	res, err := w.api.CreateConnection(w.Context(), &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: account, Credential: tokenOf(account + "-secret"), Connection: &connectionsv1.Connection{
			Connector: "courier", Settings: &connectionsv1.Connection_Custom{Custom: at(place)},
		},
	})
	must(w.T, err)
	id, err := job.ParseID(res.GetConnection().GetConnectionId())
	must(w.T, err)
	return id
}

// schedule schedules a job for now.
func (w *world) schedule(conn jobID, key string) jobID {
	w.Helper()
	return w.scheduleIn(server.DefaultProject, conn, key)
}

func (w *world) scheduleIn(project string, conn jobID, key string) jobID {
	w.Helper()
	id := job.ID(uuid.Must(uuid.NewV7()))
	payload, err := proto.Marshal(&fireoncev1.Payload{Kind: &fireoncev1.Payload_Custom{Custom: &fireoncev1.CustomPayload{Schema: "s/v1", Data: []byte(key)}}})
	must(w.T, err)
	created, err := w.store.Create(w.Context(), []store.NewJob{{
		Class: job.Opaque, Actor: "test", ScheduleTime: job.Micros(time.Now()), Spec: job.Spec{
			ID: id, Project: project, Key: key, Connection: conn, HoldKey: "account", PayloadKind: "custom",
			Payload: payload, StartWindow: job.DefaultWindow, Delivery: job.OnceOrAsk,
		},
	}})
	must(w.T, err)
	must(w.T, created[0].Err)
	return id
}

// until waits until a job is as expected.
func (w *world) until(id jobID, what string, as func(job.Snapshot) bool) job.Snapshot {
	w.Helper()
	hint, stop := w.store.Watch(store.WatchEvents)
	defer stop()
	end := time.NewTimer(time.Minute)
	defer end.Stop()
	for {
		s, err := w.store.Job(w.Context(), store.Ref{ID: id})
		must(w.T, err)
		if as(s) {
			return s
		}
		select {
		case <-hint:
		case <-time.After(time.Second):
		case <-end.C:
			w.Fatalf("the job is %s, not %s; blocked: %q", s.State, what, s.Blocked)
		}
	}
}

// blocked waits until a job waits for a reason.
func (w *world) blocked(id jobID) job.Snapshot {
	w.Helper()
	return w.until(id, "blocked", func(s job.Snapshot) bool { return s.Blocked != "" || s.State.Terminal() })
}

// delivered waits until a job was delivered, and compares the delivery.
func (w *world) delivered(id jobID, want string) {
	w.Helper()
	w.until(id, "delivered", func(s job.Snapshot) bool { return s.State == job.Succeeded })
	w.mail.mu.Lock()
	defer w.mail.mu.Unlock()
	if got := w.mail.jobs[id.String()]; got != want {
		w.Errorf("delivered %q, want %q", got, want)
	}
}

// sent counts the deliveries with a secret.
func (w *world) sent(secret string) (n int) {
	w.mail.mu.Lock()
	defer w.mail.mu.Unlock()
	for _, got := range w.mail.jobs {
		if strings.HasSuffix(got, secret) {
			n++
		}
	}
	return n
}

// logged counts the ERROR lines of the log that contain words.
func (w *world) logged(words string) (n int) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	for line := range strings.Lines(w.log.buf.String()) {
		if strings.Contains(line, "level=ERROR") && strings.Contains(line, words) {
			n++
		}
	}
	return n
}
