package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/oauth"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

const (
	publicURL   = "https://fireonce.example.org"
	callbackURL = publicURL + "/oauth/callback/app"
	ownURL      = "https://app.example.org/cb"
	issuedURL   = "https://app.example.org/issued"
	doneURL     = "https://app.example.org/done?user=7"
)

// member is a connector whose platform names the account of a token: what is before its first
// dash.
type member struct {
	stub
	// asked, when set, runs while the platform is asked whose a token is.
	asked func(token string)
}

func (m member) Check(settings []byte, cred connector.Credential) (connector.Capability, error) {
	capability, err := m.stub.Check(settings, cred)
	capability.Identity = ""
	return capability, err
}

func (m member) Test(_ context.Context, o connector.Opening) (connector.Tested, error) {
	var c connectionsv1.Credential
	if err := proto.Unmarshal(o.Credential.Data, &c); err != nil {
		return connector.Tested{}, err
	}
	token := c.GetOauth2().GetAccessToken()
	if m.asked != nil {
		m.asked(token)
	}
	name, _, _ := strings.Cut(token, "-")
	return connector.Tested{Identity: name}, nil
}

// tokens is a token endpoint: a code is the name of an account, and good once.
type tokens struct {
	*httptest.Server
	mu       sync.Mutex
	used     map[string]bool
	requests atomic.Int32
	last     url.Values
	// answer, when set, says something else.
	answer func(w http.ResponseWriter)
}

func (p *tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := p.requests.Add(1)
	_ = r.ParseForm()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = r.PostForm
	w.Header().Set("Content-Type", "application/json")
	code := r.PostForm.Get("code")
	switch {
	case p.answer != nil:
		p.answer(w)
	case p.used[code]:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
	default:
		p.used[code] = true
		_, _ = fmt.Fprintf(w, `{"access_token":"%s-secret-access-%d","token_type":"bearer","expires_in":7200,"refresh_token":"secret-refresh"}`, code, n)
	}
}

func (p *tokens) asked() url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// withOAuth adds to a server a connector "member" with an app "app", and its platform.
func withOAuth(t *testing.T) (*tokens, func(*server.Config)) {
	t.Helper()
	p := &tokens{used: map[string]bool{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	path := filepath.Join(t.TempDir(), "apps.json")
	text := fmt.Sprintf(`{"public_url": "https://fireonce.example.org", "return_urls": ["https://app.example.org/done"], "apps": [
		{"name": "app", "connector": "member", "client_id": "me", "client_secret": "hush", "auth_style": "body",
		 "authorization_url": "https://platform.example.org/login", "token_url": "%s/token", "redirect_urls": ["%s"]},
		{"name": "issued", "connector": "member", "client_id": "me", "issuer": "https://issuer.example.org", "redirect_urls": [%q],
		 "authorization_url": "https://platform.example.org/login", "token_url": "%s/token"},
		{"name": "other", "connector": "stub", "client_id": "me", "authorization_url": "https://platform.example.org/login", "token_url": "%s/token"}
	]}`, p.URL, ownURL, issuedURL, p.URL, p.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	apps, err := oauth.LoadApps(path, builtin.Platforms, true)
	if err != nil {
		t.Fatal(err)
	}
	return p, func(c *server.Config) {
		registry, err := connector.NewRegistry(
			stub{"stub", []job.Class{job.Opaque}, true}, member{stub: stub{"member", []job.Class{job.Opaque}, false}})
		if err != nil {
			t.Fatal(err)
		}
		c.Connectors, c.OAuthApps = registry, apps
		c.OAuthClient = oauth.NewClient(transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), c.Now)
	}
}

// onlyMember makes a server with the connector "member" alone, which calls asked for each
// question.
func onlyMember(t *testing.T, asked func(token string)) func(*server.Config) {
	t.Helper()
	registry, err := connector.NewRegistry(member{stub{"member", []job.Class{job.Opaque}, false}, asked})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *server.Config) { c.Connectors = registry }
}

func newMember(key string) *connectionsv1.StartOAuthRequest {
	return &connectionsv1.StartOAuthRequest{App: "app", Target: &connectionsv1.StartOAuthRequest_Create{Create: &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: key, Connection: &connectionsv1.Connection{Connector: "member", DisplayName: "Ann"},
	}}}
}

func reconnect(id string) *connectionsv1.StartOAuthRequest {
	return &connectionsv1.StartOAuthRequest{App: "app", Target: &connectionsv1.StartOAuthRequest_ConnectionId{ConnectionId: id}}
}

func own(r *connectionsv1.StartOAuthRequest) *connectionsv1.StartOAuthRequest {
	r.RedirectUrl = ownURL
	return r
}

func (f *fixture) startLogin(c client, r *connectionsv1.StartOAuthRequest) *connectionsv1.StartOAuthResponse {
	f.tb.Helper()
	res, err := ask[connectionsv1.StartOAuthResponse](f.tb, c, connsPath+"StartOAuth", r)
	f.must(err)
	return res
}

func (f *fixture) endLogin(c client, state, code string) (*connectionsv1.CompleteOAuthResponse, error) {
	return ask[connectionsv1.CompleteOAuthResponse](f.tb, c, connsPath+"CompleteOAuth", &connectionsv1.CompleteOAuthRequest{
		State: state, Code: code, RedirectUrl: ownURL,
	})
}

// quiet makes sure that no secret got into the log.
func (f *fixture) quiet(also ...string) {
	f.tb.Helper()
	for _, secret := range append(also, "secret", "hush") {
		if strings.Contains(f.logs.String(), secret) {
			f.tb.Errorf("the log has %q:\n%s", secret, f.logs)
		}
	}
}

func TestLoginOverEveryProtocol(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			p, with := withOAuth(t)
			f := start(t, with)
			c := dial(f)
			begun := f.startLogin(c, own(newMember("k")))
			u, err := url.Parse(begun.GetAuthorizationUrl())
			f.must(err)
			q := u.Query()
			if u.Host != "platform.example.org" || q.Get("state") != begun.GetState() || q.Get("client_id") != "me" ||
				q.Get("redirect_uri") != ownURL || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 ||
				!begun.GetExpireTime().AsTime().Equal(f.clock.Now().Add(10*time.Minute)) {
				t.Errorf("begun: %v", begun)
			}
			done, err := f.endLogin(c, begun.GetState(), "ann")
			f.must(err)
			conn := done.GetConnection()
			if !done.GetCreated() || conn.GetAccountIdentity() != "ann" || conn.GetConnector() != "member" ||
				!conn.GetCredentialExpireTime().AsTime().Equal(f.clock.Now().Add(2*time.Hour)) || conn.GetCredentialFingerprint() == "" {
				t.Errorf("done: %v", done)
			}
			if got := p.asked(); got.Get("code") != "ann" || len(got.Get("code_verifier")) < 43 || got.Get("redirect_uri") != ownURL {
				t.Errorf("asked %v", got)
			}
			_, err = f.endLogin(c, begun.GetState(), "ann")
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_OAUTH_LOGIN_NOT_FOUND)

			// The same account again, on the connection that there is.
			again := f.startLogin(c, own(reconnect(conn.GetConnectionId())))
			done, err = f.endLogin(c, again.GetState(), "ann-again")
			f.must(err)
			if done.GetCreated() || done.GetConnection().GetConnectionId() != conn.GetConnectionId() ||
				done.GetConnection().GetCredentialFingerprint() == conn.GetCredentialFingerprint() {
				t.Errorf("again: %v", done)
			}
			// And another account, which is refused.
			other := f.startLogin(c, own(reconnect(conn.GetConnectionId())))
			_, err = f.endLogin(c, other.GetState(), "bob")
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDENTITY_MISMATCH)
			if p.requests.Load() != 3 {
				t.Errorf("%d requests", p.requests.Load())
			}
			f.quiet(begun.GetState(), q.Get("code_challenge"))
		})
	}
}

// The connection that a login was to make is there by now: it gets the tokens.
// TestLoginKnowsItsAccount makes sure that a client that waits for the connection of a
// login never reads it without its account.
func TestLoginKnowsItsAccount(t *testing.T) {
	var f *fixture
	get := func() (*connectionsv1.GetConnectionResponse, error) {
		return ask[connectionsv1.GetConnectionResponse](t, overConnect(f), connsPath+"GetConnection", &connectionsv1.GetConnectionRequest{
			Connection: &connectionsv1.GetConnectionRequest_IdempotencyKey{IdempotencyKey: "k"},
		})
	}
	var asked int
	_, with := withOAuth(t)
	f = start(t, with, onlyMember(t, func(string) {
		asked++
		if early, err := get(); err == nil {
			t.Errorf("the connection is there before its account is known: %v", early)
		}
	}))
	c := overConnect(f)
	if _, err := f.endLogin(c, f.startLogin(c, own(newMember("k"))).GetState(), "ann"); err != nil {
		t.Fatal(err)
	}
	got, err := get()
	f.must(err)
	if account := got.GetConnection().GetAccountIdentity(); account != "ann" || asked != 1 {
		t.Errorf("account %q after the platform was asked %d times, want ann after once", account, asked)
	}
}

func TestLoginTwiceForOneKey(t *testing.T) {
	_, with := withOAuth(t)
	f := start(t, with)
	c := overConnect(f)
	a, b := f.startLogin(c, own(newMember("k"))), f.startLogin(c, own(newMember("k")))
	first, err := f.endLogin(c, a.GetState(), "ann")
	f.must(err)
	second, err := f.endLogin(c, b.GetState(), "ann-again")
	f.must(err)
	if second.GetCreated() || second.GetConnection().GetConnectionId() != first.GetConnection().GetConnectionId() ||
		second.GetConnection().GetCredentialFingerprint() == first.GetConnection().GetCredentialFingerprint() {
		t.Errorf("first %v, second %v", first, second)
	}
}

func TestLoginLiftsHold(t *testing.T) {
	_, with := withOAuth(t)
	f := start(t, with)
	c := overConnect(f)
	begun := f.startLogin(c, own(newMember("k")))
	done, err := f.endLogin(c, begun.GetState(), "ann")
	f.must(err)
	f.conn = done.GetConnection().GetConnectionId()
	f.schedule(f.request("job"))
	leased := f.claim()
	f.learn(leased.ID, job.Deferred{Kind: job.FailAuth, Message: "Reconnect this account", CredentialVersion: 1})
	if got := f.connection(c, f.conn); got.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_AUTH_HOLD {
		t.Fatalf("%v", got)
	}
	begun = f.startLogin(c, own(reconnect(f.conn)))
	done, err = f.endLogin(c, begun.GetState(), "ann-again")
	f.must(err)
	if got := done.GetConnection(); got.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_ACTIVE {
		t.Errorf("%v", got)
	}
}

func TestStartLoginRefused(t *testing.T) {
	_, with := withOAuth(t)
	f := start(t, with)
	c := overConnect(f)
	reason := func(name string) fireoncev1.ErrorReason {
		return fireoncev1.ErrorReason(fireoncev1.ErrorReason_value["ERROR_REASON_"+name])
	}
	for name, tt := range map[string]struct {
		edit func(*connectionsv1.StartOAuthRequest)
		want string
	}{
		"no such app":           {func(r *connectionsv1.StartOAuthRequest) { r.App = "gone" }, "OAUTH_APP_UNKNOWN"},
		"another connector's":   {func(r *connectionsv1.StartOAuthRequest) { r.App = "other" }, "OAUTH_APP_UNKNOWN"},
		"redirect elsewhere":    {func(r *connectionsv1.StartOAuthRequest) { r.RedirectUrl = "https://evil.example.org" }, "REDIRECT_NOT_ALLOWED"},
		"return elsewhere":      {func(r *connectionsv1.StartOAuthRequest) { r.ReturnUrl = "https://evil.example.org" }, "REDIRECT_NOT_ALLOWED"},
		"return from elsewhere": {func(r *connectionsv1.StartOAuthRequest) { r.RedirectUrl, r.ReturnUrl = ownURL, doneURL }, "REDIRECT_NOT_ALLOWED"},
		"no such connector":     {func(r *connectionsv1.StartOAuthRequest) { r.GetCreate().Connection.Connector = "gone" }, "CONNECTOR_UNKNOWN"},
		"settings of another":   {func(r *connectionsv1.StartOAuthRequest) { r.GetCreate().Connection.Settings = webhookSettings() }, "SETTINGS_INVALID"},
		"wrong settings": {func(r *connectionsv1.StartOAuthRequest) {
			r.GetCreate().Connection.Settings = &connectionsv1.Connection_Custom{Custom: &connectionsv1.CustomSettings{Values: map[string]string{"wrong": "x"}}}
		}, "SETTINGS_INVALID"},
		"a reserved key": {func(r *connectionsv1.StartOAuthRequest) { r.GetCreate().IdempotencyKey = "fireonce:x" }, "KEY_RESERVED"},
		"a credential": {func(r *connectionsv1.StartOAuthRequest) {
			r.GetCreate().Credential = &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: "x"}}}
		}, ""},
		"no such connection": {func(r *connectionsv1.StartOAuthRequest) {
			r.Target = &connectionsv1.StartOAuthRequest_ConnectionId{ConnectionId: job.ID{15: 9}.String()}
		}, "CONNECTION_NOT_FOUND"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newMember("k")
			tt.edit(r)
			_, err := ask[connectionsv1.StartOAuthResponse](t, c, connsPath+"StartOAuth", r)
			if tt.want == "" {
				if err == nil || !strings.Contains(err.Error(), "comes of the login") {
					t.Error(err)
				}
				return
			}
			wantReason(t, err, reason(tt.want))
		})
	}
	_, err := ask[connectionsv1.StartOAuthResponse](t, c, connsPath+"StartOAuth", &connectionsv1.StartOAuthRequest{App: "app"})
	if err == nil {
		t.Error("a login for nothing")
	}
}

// A server without apps has no logins.
func TestNoApps(t *testing.T) {
	f := start(t)
	_, err := ask[connectionsv1.StartOAuthResponse](t, overConnect(f), connsPath+"StartOAuth", reconnect(f.conn))
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_OAUTH_APP_UNKNOWN)
	if res, _ := f.do(http.MethodGet, oauth.CallbackPath+"app?state=x&code=y", "", nil); res.StatusCode != http.StatusNotFound {
		t.Errorf("callback: %s", res.Status)
	}
}

// However an exchange fails, it is said, nothing is stored, and the login is over.
func TestLoginFails(t *testing.T) {
	say := func(status int, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, tt := range map[string]struct {
		answer func(http.ResponseWriter)
		want   fireoncev1.ErrorReason
		words  string
	}{
		"refused":        {say(400, `{"error":"invalid_grant","error_description":"secret"}`), fireoncev1.ErrorReason_ERROR_REASON_OAUTH_REFUSED, "log in again"},
		"the app":        {say(401, `{"error":"invalid_client"}`), fireoncev1.ErrorReason_ERROR_REASON_OAUTH_UNFINISHED, "its operator"},
		"busy":           {say(429, `{}`), fireoncev1.ErrorReason_ERROR_REASON_OAUTH_UNFINISHED, "could not be asked"},
		"broken":         {say(502, `secret`), fireoncev1.ErrorReason_ERROR_REASON_OAUTH_UNFINISHED, "it is not known"},
		"lost":           {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, fireoncev1.ErrorReason_ERROR_REASON_OAUTH_UNFINISHED, "it is not known"},
		"not understood": {say(200, `{"access_token":"sec`), fireoncev1.ErrorReason_ERROR_REASON_OAUTH_UNFINISHED, "it is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			p, with := withOAuth(t)
			p.answer = tt.answer
			f := start(t, with)
			c := overConnect(f)
			begun := f.startLogin(c, own(newMember("k")))
			_, err := f.endLogin(c, begun.GetState(), "ann")
			wantReason(t, err, tt.want)
			if !strings.Contains(err.Error(), tt.words) || strings.Contains(err.Error(), "secret") || p.requests.Load() != 1 {
				t.Errorf("%v, %d requests", err, p.requests.Load())
			}
			_, err = f.endLogin(c, begun.GetState(), "ann")
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_OAUTH_LOGIN_NOT_FOUND)
			conns, err := f.store.ListConnections(t.Context(), store.ConnectionQuery{Project: server.DefaultProject})
			f.must(err)
			if len(conns.Connections) != 1 {
				t.Errorf("%d connections", len(conns.Connections))
			}
			f.quiet()
		})
	}
}

func TestLoginTakesTooLong(t *testing.T) {
	p, with := withOAuth(t)
	f := start(t, with)
	c := overConnect(f)
	begun := f.startLogin(c, own(newMember("k")))
	f.clock.advance(oauth.LoginTime)
	_, err := f.endLogin(c, begun.GetState(), "ann")
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_OAUTH_LOGIN_NOT_FOUND)
	if p.requests.Load() != 0 {
		t.Errorf("%d requests", p.requests.Load())
	}
}

// freshening returns another credential in place of every one.
type freshening struct{ token string }

func (r freshening) Fresh(_ context.Context, _ store.Connection, cred connector.Credential) (connector.Credential, error) {
	if r.token == "" {
		return cred, &connector.Refusal{Kind: job.FailAuth, Msg: "Reconnect this account"}
	}
	data, err := proto.Marshal(&connectionsv1.Credential{Kind: &connectionsv1.Credential_Oauth2{Oauth2: &connectionsv1.OAuth2Token{AccessToken: r.token}}})
	return connector.Credential{Version: cred.Version + 1, Data: data}, err
}

// A test of a connection is made with tokens that have not ended.
func TestTestRenews(t *testing.T) {
	for token, want := range map[string]bool{"ann-new": true, "": false} {
		var asked string
		_, with := withOAuth(t)
		f := start(t, with, onlyMember(t, func(token string) { asked = token }), func(c *server.Config) { c.Refresher = freshening{token} })
		c := overConnect(f)
		begun := f.startLogin(c, own(newMember("k")))
		done, err := f.endLogin(c, begun.GetState(), "ann")
		f.must(err)
		got := f.test(c, done.GetConnection().GetConnectionId())
		if want && asked != token {
			t.Errorf("the platform was asked about %q, want the renewed token %q", asked, token)
		}
		if got.GetOk() != want || want && got.GetAccountIdentity() != "ann" || !want && got.GetDetail() != "Reconnect this account" {
			t.Errorf("%q: %v", token, got)
		}
	}
}
