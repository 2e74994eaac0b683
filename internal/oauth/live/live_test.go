//go:build unix

package live_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/postgres"
	"github.com/fireonce/fireonce/store/sqlite"
)

func onSQLite(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "fireonce.db"), Migrate: true})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// A person logs in, in a browser, by this server's own page: the code is exchanged with its
// verifier, the account is known, and a job is sent with its token. Then they log in again.
func TestLogin(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	public := "http://" + listener.Addr().String()
	p := newProvider(t, time.Hour, public+"/oauth/callback/app")
	n := start(t, onSQLite(t), p, p.URL, public)
	web := httptest.NewUnstartedServer(n.server.Handler())
	_ = web.Listener.Close()
	web.Listener = listener
	web.Start()
	defer web.Close()
	api := connectionsv1connect.NewConnectionServiceClient(http.DefaultClient, public)

	begin := func(req *connectionsv1.StartOAuthRequest) string {
		t.Helper()
		req.App = "app"
		begun, err := api.StartOAuth(t.Context(), req)
		must(t, err)
		return begun.GetAuthorizationUrl()
	}
	ann := newPerson(t)
	back := begin(&connectionsv1.StartOAuthRequest{Target: &connectionsv1.StartOAuthRequest_Create{Create: &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "ann", Connection: &connectionsv1.Connection{Connector: "poster"},
	}}})
	asked := ann.open(back)
	if asked.StatusCode != http.StatusOK || asked.Request.URL.Path != "/oauth/callback/app" {
		t.Fatalf("%s at %s", asked.Status, asked.Request.URL.Path)
	}
	if got := newPerson(t).open(asked.Request.URL.String()); got.StatusCode != http.StatusForbidden {
		t.Errorf("another browser: %s", got.Status)
	}
	if status := ann.confirm(asked); status != http.StatusOK {
		t.Fatalf("confirmed: %d", status)
	}
	if got := ann.open(asked.Request.URL.String()); got.StatusCode != http.StatusNotFound {
		t.Errorf("the same login again: %s", got.Status)
	}
	list, err := api.ListConnections(t.Context(), &connectionsv1.ListConnectionsRequest{})
	must(t, err)
	made := list.GetConnections()[0]
	if len(list.GetConnections()) != 1 || made.GetAccountIdentity() != "ann" || made.GetCredentialExpireTime().AsTime().Before(time.Now().Add(50*time.Minute)) {
		t.Fatalf("%v", list)
	}
	id, err := job.ParseID(made.GetConnectionId())
	must(t, err)
	n.succeeded(t, n.submit(t, store.Connection{ID: id}, "job", 0))

	back = begin(&connectionsv1.StartOAuthRequest{Target: &connectionsv1.StartOAuthRequest_ConnectionId{ConnectionId: made.GetConnectionId()}})
	if status := ann.confirm(ann.open(back)); status != http.StatusOK {
		t.Fatalf("confirmed: %d", status)
	}
	got, err := api.GetConnection(t.Context(), &connectionsv1.GetConnectionRequest{Connection: &connectionsv1.GetConnectionRequest_ConnectionId{ConnectionId: made.GetConnectionId()}})
	must(t, err)
	if got.GetConnection().GetCredentialFingerprint() == made.GetCredentialFingerprint() {
		t.Error("the tokens are the old ones")
	}
	if c := p.counts(); c.posts != 1 || c.twice != 0 || c.unauthorized != 0 {
		t.Errorf("%+v", c)
	}
}

// A code without its login's verifier yields no token.
func TestLoginNeedsVerifier(t *testing.T) {
	t.Parallel()
	p := newProvider(t, time.Hour)
	n := start(t, onSQLite(t), p, p.URL, "")
	app, _ := n.apps.Find("app", "poster")
	to, err := app.LoginURL(redirectURL, "a-state-of-some-length", "the-verifier-of-this-login-is-long-enough-for-it")
	must(t, err)
	_, err = n.client.Exchange(t.Context(), app, login(t, to).Query().Get("code"), "another-verifier-that-somebody-else-has-made-up", redirectURL)
	if err == nil {
		t.Error("tokens for another verifier")
	}
}

// Two servers on one database send for minutes of tokens: each refresh token is used
// once, or the login would end, and each job has one effect.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	const life, jobs = 10 * time.Second, 60
	p := newProvider(t, life)
	url := pgtest.New(t)
	var nodes []*node
	for range 2 {
		s, err := postgres.Open(t.Context(), postgres.Options{URL: url, Migrate: true})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		nodes = append(nodes, start(t, s, p, p.URL, ""))
	}
	conn := nodes[0].connect(t)
	var ids []job.ID
	for i := range jobs {
		ids = append(ids, nodes[i%2].submit(t, conn, fmt.Sprint("job ", i), time.Duration(i)*life*3/jobs))
	}
	for _, id := range ids {
		if s := nodes[0].succeeded(t, id); s.Failures != 0 {
			t.Errorf("%d failures\n%s", s.Failures, nodes[0].story(id))
		}
	}
	c := p.counts()
	if c.posts != jobs || c.twice != 0 || c.refused != 0 || c.refreshed < 2 || c.refreshed > 5 {
		t.Errorf("%+v", c)
	}
	after, err := nodes[1].store.Connection(t.Context(), store.Ref{ID: conn.ID})
	must(t, err)
	if after.CredentialVersion != 1+c.refreshed || !after.AuthHoldAt.IsZero() {
		t.Errorf("version %d after %d renewals, held at %v", after.CredentialVersion, c.refreshed, after.AuthHoldAt)
	}
}

// ended has a token that is over.
func ended(token *connectionsv1.OAuth2Token) {
	token.ExpireTime = timestamppb.New(time.Now().Add(-time.Second))
}

// A renewal's request or answer is lost.
func TestLostRenewal(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, fault faultproxy.Fault) (*provider, *faultproxy.Proxy, *node, store.Connection, job.ID) {
		t.Helper()
		p := newProvider(t, time.Hour)
		proxy, err := faultproxy.Start(p.URL, nil)
		must(t, err)
		t.Cleanup(func() { _ = proxy.Close() })
		n := start(t, onSQLite(t), p, proxy.URL(), "")
		conn := n.connect(t, ended)
		proxy.Plan(faultproxy.On(http.MethodPost, "/token", faultproxy.Fate{Fault: fault}, faultproxy.Fate{}))
		return p, proxy, n, conn, n.submit(t, conn, "job", 0)
	}
	t.Run("before it arrives", func(t *testing.T) {
		t.Parallel()
		p, proxy, n, _, id := begin(t, faultproxy.DropBefore)
		if s := n.succeeded(t, id); s.Attempt != 1 || s.Failures != 0 {
			t.Errorf("attempt %d, %d failures", s.Attempt, s.Failures)
		}
		if c := p.counts(); c.refreshed != 1 || c.refused != 0 || c.posts != 1 || proxy.Delivered()[faultproxy.DropBefore] != 1 {
			t.Errorf("%+v, %v", c, proxy.Delivered())
		}
	})
	for _, fault := range []faultproxy.Fault{faultproxy.DropAfter, faultproxy.FailAfter, faultproxy.TruncateAfter} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			p, proxy, n, conn, id := begin(t, fault)
			s := n.until(t, id, "held", func(s job.Snapshot) bool { return s.Blocked != "" && !s.State.InFlight() })
			held, err := n.store.Connection(t.Context(), store.Ref{ID: conn.ID})
			must(t, err)
			if s.Failures != 0 || s.Attempt != 0 || !strings.HasPrefix(held.AuthHoldReason, "Reconnect this poster account: its login was being renewed") {
				t.Errorf("%d failures, held for %q", s.Failures, held.AuthHoldReason)
			}
			if c := p.counts(); c.refreshed != 1 || c.refused != 1 || c.posts != 0 || proxy.Delivered()[fault] != 1 {
				t.Errorf("%+v, %v", c, proxy.Delivered())
			}
			// The person logs in again, and the job goes on.
			web := httptest.NewServer(n.server.Handler())
			defer web.Close()
			api := connectionsv1connect.NewConnectionServiceClient(http.DefaultClient, web.URL)
			begun, err := api.StartOAuth(t.Context(), &connectionsv1.StartOAuthRequest{
				App: "app", RedirectUrl: redirectURL, Target: &connectionsv1.StartOAuthRequest_ConnectionId{ConnectionId: conn.ID.String()},
			})
			must(t, err)
			q := login(t, begun.GetAuthorizationUrl()).Query()
			if q.Get("state") != begun.GetState() {
				t.Error("another state came back")
			}
			_, err = api.CompleteOAuth(t.Context(), &connectionsv1.CompleteOAuthRequest{
				State: q.Get("state"), Code: q.Get("code"), RedirectUrl: redirectURL, Issuer: q.Get("iss"),
			})
			must(t, err)
			if s := n.succeeded(t, id); s.Attempt != 1 || s.Failures != 0 {
				t.Errorf("attempt %d, %d failures", s.Attempt, s.Failures)
			}
			if _, err := api.CompleteOAuth(t.Context(), &connectionsv1.CompleteOAuthRequest{
				State: q.Get("state"), Code: q.Get("code"), RedirectUrl: redirectURL, Issuer: q.Get("iss"),
			}); connect.CodeOf(err) != connect.CodeNotFound {
				t.Errorf("a second time: %v", err)
			}
			if c := p.counts(); c.posts != 1 || c.twice != 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}
