package live_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/oauth"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// poster is a connector that posts with a token. Its posts cannot be looked up.
type poster struct{ url string }

func (p poster) Describe() connector.Description {
	return connector.Description{Name: "poster", Payloads: []string{"custom"}, Classes: []job.Class{job.Opaque}, Credentials: []string{"oauth2"}}
}

func (p poster) Check(_ []byte, cred connector.Credential) (connector.Capability, error) {
	_, err := kit.OpenAuth(cred, kit.AuthOAuth2)
	return connector.Capability{Traits: job.Traits{Class: job.Opaque}}, err
}

func (p poster) Prepare(r connector.Request) (connector.Prepared, error) {
	return connector.Prepared{HoldKey: "account", Frozen: r.Payload}, nil
}

func (p poster) Open(_ context.Context, o connector.Opening) (connector.Session, error) {
	return post{p.url, o.Credential}, nil
}

// Test returns the account of a token.
func (p poster) Test(ctx context.Context, o connector.Opening) (connector.Tested, error) {
	status, body, err := request(ctx, http.MethodGet, p.url+"/me", o.Credential, "")
	switch {
	case err != nil:
		return connector.Tested{}, err
	case status != http.StatusOK:
		return connector.Tested{}, &connector.Refusal{Kind: job.FailAuth, Msg: "Reconnect this account"}
	}
	return connector.Tested{Identity: body}, nil
}

type post struct {
	url  string
	cred connector.Credential
}

func (s post) Close() {}

func (s post) Publish(c connector.Commit) job.Outcome {
	if err := c.MaySend(); err != nil {
		return job.Outcome{Result: job.ResultNotSent, Kind: job.FailTransient, Message: err.Error()}
	}
	status, _, err := request(context.Background(), http.MethodPost, s.url+"/posts", s.cred, c.EffectKey)
	switch {
	case err != nil:
		return job.Outcome{Result: job.ResultUnknown, Kind: job.FailAmbiguous, Message: "lost"}
	case status == http.StatusUnauthorized:
		return job.Outcome{Result: job.ResultRejected, Kind: job.FailAuth, HTTPStatus: status, Message: "Reconnect this account"}
	}
	return job.Outcome{Result: job.ResultSucceeded, HTTPStatus: status}
}

func request(ctx context.Context, method, url string, cred connector.Credential, key string) (int, string, error) {
	auth, err := kit.OpenAuth(cred, kit.AuthOAuth2)
	if err != nil {
		return 0, "", err
	}
	r, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	r.Header.Set(auth.Headers[0].Name, auth.Headers[0].Value)
	r.Header.Set("Effect-Key", key)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

func newID() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }

// node is one server process, less its process.
type node struct {
	server  *server.Server
	client  *oauth.Client
	apps    *oauth.Apps
	keys    *vault.Vault
	store   store.Store
	renewer *oauth.Renewer
}

// start makes a server over a store and runs its engine until the test ends. tokenURL
// is where tokens are asked for.
func start(t *testing.T, s store.Store, p *provider, tokenURL, publicURL string) *node {
	t.Helper()
	return startWith(t, s, p, fmt.Sprintf(`{"public_url": %q, "apps": [{"name": "app", "connector": "poster", "client_id": %q, "client_secret": %q,
		"authorization_url": "%s/authorize", "token_url": "%s/token", "scopes": ["post", "offline"], "redirect_urls": [%q]}]}`,
		publicURL, clientID, clientSecret, p.URL, tokenURL, redirectURL))
}

// startWith makes a server with a file of apps.
func startWith(t *testing.T, s store.Store, p *provider, text string) *node {
	t.Helper()
	path := filepath.Join(t.TempDir(), "apps.json")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	n := &node{store: s, client: oauth.NewClient(transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), nil)}
	var err error
	n.apps, err = oauth.LoadApps(path, builtin.Platforms, true)
	must(t, err)
	n.keys, err = vault.New(make([]byte, 32))
	must(t, err)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	n.renewer, err = oauth.NewRenewer(oauth.Config{Apps: n.apps, Client: n.client, Store: s, Vault: n.keys, Log: log, NewID: newID})
	must(t, err)
	registry, err := connector.NewRegistry(poster{p.URL})
	must(t, err)
	e, err := engine.New(engine.Config{
		Store: s, Connectors: registry, Refresh: n.renewer, Log: log, Worker: "test " + newID().String(), NewID: newID,
		Poll: 100 * time.Millisecond,
		Open: func(c store.Connection, sealed store.Sealed) (connector.Credential, error) {
			data, err := seal.Open(n.keys, c, sealed)
			return connector.Credential{Version: sealed.Version, Data: data}, err
		},
	})
	must(t, err)
	meta, err := s.Meta(t.Context())
	must(t, err)
	n.server, err = server.New(server.Config{
		Store: s, StoreID: meta.StoreID, Connectors: registry, Vault: n.keys, OAuthApps: n.apps, OAuthClient: n.client, Refresher: n.renewer, Log: log, NewID: newID,
	})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
		must(t, n.renewer.Close(context.Background()))
	})
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// connect logs in without a server and stores the tokens, changed by edit.
func (n *node) connect(t *testing.T, edit ...func(*connectionsv1.OAuth2Token)) store.Connection {
	t.Helper()
	app, ok := n.apps.Find("app", "poster")
	if !ok {
		t.Fatal("no app")
	}
	verifier := oauth.NewVerifier()
	to, err := app.LoginURL(redirectURL, "a-state-of-some-length", verifier)
	must(t, err)
	token, err := n.client.Exchange(t.Context(), app, login(t, to).Query().Get("code"), verifier, redirectURL)
	must(t, err)
	cred := token.Credential(app)
	for _, e := range edit {
		e(cred.GetOauth2())
	}
	secret, err := proto.Marshal(cred)
	must(t, err)
	expires := cred.GetOauth2().GetExpireTime().AsTime()
	made := store.Connection{
		ID: newID(), Project: server.DefaultProject, Connector: "poster", Class: job.Opaque, CredentialVersion: 1, CredentialExpires: expires,
		AccountIdentity: "ann",
	}
	sealed, err := seal.Credential(n.keys, made, 1, secret)
	must(t, err)
	sealed.Expires = expires
	conn, _, err := n.store.CreateConnection(t.Context(), store.NewConnection{Key: "k", Connection: made, Sealed: sealed})
	must(t, err)
	return conn
}

// submit stores a job that is due after a while.
func (n *node) submit(t *testing.T, conn store.Connection, key string, after time.Duration) job.ID {
	t.Helper()
	payload, err := proto.Marshal(&fireoncev1.Payload{Kind: &fireoncev1.Payload_Custom{Custom: &fireoncev1.CustomPayload{Schema: "s/v1", Data: []byte(key)}}})
	must(t, err)
	created, err := n.store.Create(t.Context(), []store.NewJob{{
		Class: job.Opaque, Actor: "test", ScheduleTime: job.Micros(time.Now().Add(after)), Spec: job.Spec{
			ID: newID(), Project: server.DefaultProject, Key: key, Connection: conn.ID, HoldKey: "account", PayloadKind: "custom",
			Payload: payload, StartWindow: job.DefaultWindow, Delivery: job.OnceOrAsk,
		},
	}})
	must(t, err)
	must(t, created[0].Err)
	return created[0].Snapshot.ID
}

// until waits for a job.
func (n *node) until(t *testing.T, id job.ID, what string, as func(job.Snapshot) bool) job.Snapshot {
	t.Helper()
	hint, stop := n.store.Watch(store.WatchEvents)
	defer stop()
	end := time.NewTimer(time.Minute)
	defer end.Stop()
	for {
		s, err := n.store.Job(t.Context(), store.Ref{ID: id})
		must(t, err)
		if as(s) {
			return s
		}
		select {
		case <-hint:
		case <-time.After(time.Second):
		case <-end.C:
			t.Fatalf("the job is %s, not %s; %+v, blocked: %s\n%s", s.State, what, s.LastError, s.Blocked, n.story(id))
		}
	}
}

func (n *node) succeeded(t *testing.T, id job.ID) job.Snapshot {
	t.Helper()
	return n.until(t, id, "SUCCEEDED", func(s job.Snapshot) bool { return s.State == job.Succeeded })
}

func (n *node) story(id job.ID) string {
	page, err := n.store.Events(context.Background(), store.EventQuery{Job: id, Limit: store.MaxBatch})
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, e := range page.Events {
		_, _ = fmt.Fprintf(&out, "%s %s -> %s %s %s\n", e.At.Format("15:04:05.000"), e.From, e.To, e.Cause, e.Detail)
	}
	return out.String()
}
