//go:build unix

package live_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
)

// mixUp is a server with an app at each of two platforms. The hostile one sends the
// person on to the honest one, in the name of the honest one's app, and hopes for its code
// and the verifier.
type mixUp struct {
	*testing.T
	honest, evil *provider
	api          connectionsv1connect.ConnectionServiceClient
	public       string
	// redirect is where the hostile platform has the honest one send the code.
	redirect string
}

// shared is a redirect URL of the operator's own, which both apps have.
const shared = "http://127.0.0.1:1/shared"

// newMixUp makes one. issuers says that the platforms name themselves, and that the
// operator has said so.
func newMixUp(t *testing.T, issuers bool) *mixUp {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	m := &mixUp{T: t, public: "http://" + listener.Addr().String()}
	m.redirect = m.public + "/oauth/callback/honest"
	m.honest = newProvider(t, time.Hour, m.redirect, shared)
	m.evil = newProvider(t, time.Hour, m.public+"/oauth/callback/evil", shared)
	m.evil.instead = func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		q.Set("redirect_uri", m.redirect)
		http.Redirect(w, r, m.honest.URL+"/authorize?"+q.Encode(), http.StatusFound)
	}
	app := func(name string, p *provider) string {
		p.silent = !issuers
		more := ""
		if issuers {
			more = fmt.Sprintf(`, "issuer": %q, "redirect_urls": [%q]`, p.URL, shared)
		}
		return fmt.Sprintf(`{"name": %q, "connector": "poster", "client_id": %q, "client_secret": %q, "scopes": ["post", "offline"],
			"authorization_url": "%s/authorize", "token_url": "%s/token"%s}`, name, clientID, clientSecret, p.URL, p.URL, more)
	}
	n := startWith(t, onSQLite(t), m.honest, fmt.Sprintf(`{"public_url": %q, "apps": [%s, %s]}`, m.public, app("honest", m.honest), app("evil", m.evil)))
	web := httptest.NewUnstartedServer(n.server.Handler())
	_ = web.Listener.Close()
	web.Listener = listener
	web.Start()
	t.Cleanup(web.Close)
	m.api = connectionsv1connect.NewConnectionServiceClient(http.DefaultClient, m.public)
	return m
}

func (m *mixUp) begin(app, redirect string) *connectionsv1.StartOAuthResponse {
	m.Helper()
	begun, err := m.api.StartOAuth(m.Context(), &connectionsv1.StartOAuthRequest{
		App: app, RedirectUrl: redirect, Target: &connectionsv1.StartOAuthRequest_Create{Create: &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: app, Connection: &connectionsv1.Connection{Connector: "poster"},
		}},
	})
	must(m.T, err)
	return begun
}

// untold makes sure that neither platform got anything of a login.
func (m *mixUp) untold() {
	m.Helper()
	for name, p := range map[string]*provider{"honest": m.honest, "evil": m.evil} {
		p.mu.Lock()
		if len(p.forms) != 0 {
			m.Errorf("the %s platform's token endpoint got %v", name, p.forms)
		}
		p.mu.Unlock()
	}
}

// A code of the honest platform and the verifier of a login at the hostile one stay here.
func TestMixUp(t *testing.T) {
	t.Parallel()
	t.Run("at our page", func(t *testing.T) {
		t.Parallel()
		m := newMixUp(t, false)
		got := newPerson(t).open(m.begin("evil", "").GetAuthorizationUrl())
		if at := got.Request.URL; at.Path != "/oauth/callback/honest" || !at.Query().Has("code") || got.StatusCode != http.StatusBadRequest || tokenField.MatchString(got.body) {
			t.Errorf("%s at %s\n%s", got.Status, at, got.body)
		}
		m.untold()
	})
	t.Run("at the hostile app's page", func(t *testing.T) {
		t.Parallel()
		m := newMixUp(t, true)
		// The browser itself is sent to where the code would have to arrive.
		ann := newPerson(t)
		at := ann.open(m.begin("evil", "").GetAuthorizationUrl()).Request.URL
		at.Path = "/oauth/callback/evil"
		if got := ann.open(at.String()); got.StatusCode != http.StatusBadRequest || tokenField.MatchString(got.body) {
			t.Errorf("with the honest issuer: %s\n%s", got.Status, got.body)
		}
		q := at.Query()
		q.Del("iss")
		at.RawQuery = q.Encode()
		if got := ann.open(at.String()); got.StatusCode != http.StatusBadRequest || tokenField.MatchString(got.body) {
			t.Errorf("without an issuer: %s\n%s", got.Status, got.body)
		}
		// And the honest platform sends no code to another app's URL.
		m.redirect = m.public + "/oauth/callback/evil"
		if got := newPerson(t).open(m.begin("evil", "").GetAuthorizationUrl()); got.Request.URL.Query().Has("code") {
			t.Errorf("a code came to %s", got.Request.URL)
		}
		m.untold()
	})
	t.Run("at an application that has one URL for both", func(t *testing.T) {
		t.Parallel()
		m := newMixUp(t, true)
		m.redirect = shared
		begun := m.begin("evil", shared)
		back := m.follow(begun.GetAuthorizationUrl())
		q := back.Query()
		if q.Get("state") != begun.GetState() || q.Get("iss") != m.honest.URL {
			t.Fatalf("came back with %v", q)
		}
		_, err := m.api.CompleteOAuth(t.Context(), &connectionsv1.CompleteOAuthRequest{
			State: q.Get("state"), Code: q.Get("code"), RedirectUrl: shared, Issuer: q.Get("iss"),
		})
		if connect.CodeOf(err) != connect.CodeFailedPrecondition {
			t.Errorf("%v", err)
		}
		m.untold()
	})
	t.Run("the honest one works", func(t *testing.T) {
		t.Parallel()
		m := newMixUp(t, true)
		ann := newPerson(t)
		if status := ann.confirm(ann.open(m.begin("honest", "").GetAuthorizationUrl())); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
		m.evil.mu.Lock()
		defer m.evil.mu.Unlock()
		if len(m.evil.forms) != 0 {
			t.Errorf("the hostile platform got %v", m.evil.forms)
		}
	})
}

// follow is a browser that is sent on until it comes to the operator's own URL.
func (m *mixUp) follow(at string) *url.URL {
	m.Helper()
	var last *url.URL
	h := &http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if r.URL.Host == "127.0.0.1:1" || len(via) > 5 {
			last = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}}
	res, err := h.Get(at)
	must(m.T, err)
	defer res.Body.Close()
	if last == nil {
		m.Fatalf("%s at %s", res.Status, res.Request.URL)
	}
	return last
}
