package oauth

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
)

func loopbackClient() *Client {
	return NewClient(transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), nil)
}

// endpoint serves a token endpoint and counts its requests.
func endpoint(t *testing.T, serve func(w http.ResponseWriter, r *http.Request)) (tokenURL string, requests *atomic.Int32) {
	t.Helper()
	requests = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		serve(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/token", requests
}

func app(tokenURL string, edit ...func(*App)) App {
	a := App{
		Name: "x", Connector: "x", ClientID: "me", ClientSecret: "hush", TokenURL: tokenURL, AuthorizationURL: "https://example.org/login",
		AuthStyle: StyleBody, ClientIDParam: "client_id", ScopeSeparator: " ", RefusedCodes: []string{"invalid_code"},
	}
	for _, e := range edit {
		e(&a)
	}
	return a
}

func TestExchange(t *testing.T) {
	var got url.Values
	var basic string
	at, _ := endpoint(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		got = r.PostForm
		user, password, _ := r.BasicAuth()
		basic = user + ":" + password
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, `{"access_token":"a","token_type":"Bearer","expires_in":3600,"refresh_token":"r"}`)
	})
	for name, tt := range map[string]struct {
		edit  func(*App)
		id    string
		basic string
	}{
		"in the body":   {func(*App) {}, "client_id", ":"},
		"in the header": {func(a *App) { a.AuthStyle = StyleHeader }, "", "me:hush"},
		"a client key":  {func(a *App) { a.ClientIDParam = "client_key" }, "client_key", ":"},
	} {
		t.Run(name, func(t *testing.T) {
			before := time.Now()
			token, err := loopbackClient().Exchange(t.Context(), app(at, tt.edit), "code", "verifier", "https://example.org/back")
			if err != nil || token.Access != "a" || token.Refresh != "r" {
				t.Fatalf("%+v, %v", token, err)
			}
			if life := token.Expires.Sub(token.Issued); life != time.Hour || token.Issued.Before(before) {
				t.Errorf("issued %v, expires %v", token.Issued, token.Expires)
			}
			want := url.Values{
				"grant_type": {"authorization_code"}, "code": {"code"}, "code_verifier": {"verifier"}, "redirect_uri": {"https://example.org/back"},
			}
			if tt.id != "" {
				want.Set(tt.id, "me")
				want.Set("client_secret", "hush")
			}
			if got.Encode() != want.Encode() || basic != tt.basic {
				t.Errorf("asked %v with %q, want %v", got, basic, want)
			}
		})
	}
}

// Every failure reports whether the platform may have seen the request, makes one request, and
// repeats nothing of the answer.
func TestTokenErrors(t *testing.T) {
	answer := func(status int, body string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, tt := range map[string]struct {
		serve func(http.ResponseWriter, *http.Request)
		want  Fate
		code  string
	}{
		"refused":                  {answer(400, `{"error":"invalid_grant","error_description":"secret words"}`), Refused, "invalid_grant"},
		"refused with 200":         {answer(200, `{"ok":false,"error":"invalid_code"}`), Refused, "invalid_code"},
		"refused with 401":         {answer(401, `{"error":"invalid_grant"}`), Refused, "invalid_grant"},
		"the app is refused":       {answer(401, `{"error":"invalid_client"}`), Misconfigured, "invalid_client"},
		"not understood":           {answer(400, `{"error":"invalid_request"}`), Misconfigured, "invalid_request"},
		"a page":                   {answer(403, `<html>secret words</html>`), Misconfigured, ""},
		"a code that is none":      {answer(400, `{"error":"secret words"}`), Misconfigured, ""},
		"too many":                 {answer(429, `{}`), Busy, ""},
		"busy":                     {answer(400, `{"error":"temporarily_unavailable"}`), Busy, "temporarily_unavailable"},
		"broken":                   {answer(500, `{"error":"invalid_grant"}`), Lost, "invalid_grant"},
		"a gateway":                {answer(502, `secret words`), Lost, ""},
		"an answer that is none":   {answer(200, `{"access_token":"secret words`), Lost, ""},
		"no token":                 {answer(200, `{"token_type":"bearer"}`), Lost, ""},
		"a token that is none":     {answer(200, `{"access_token":"secret words","token_type":"bearer"}`), Lost, ""},
		"an answer without an end": {answer(200, `{"access_token":"`+strings.Repeat("a", 2*maxAnswer)+`"}`), Lost, ""},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/token", http.StatusTemporaryRedirect)
		}, Misconfigured, ""},
	} {
		t.Run(name, func(t *testing.T) {
			at, requests := endpoint(t, tt.serve)
			_, err := loopbackClient().Refresh(t.Context(), app(at), "refresh-secret")
			var failed *TokenError
			if !errors.As(err, &failed) || failed.Fate != tt.want || failed.Code != tt.code {
				t.Fatalf("error %v (%+v)", err, failed)
			}
			if requests.Load() != 1 {
				t.Errorf("%d requests", requests.Load())
			}
			for _, secret := range []string{"secret", "hush"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error tells: %v", err)
				}
			}
		})
	}
}

// What networks do to the request.
func TestTokenLines(t *testing.T) {
	for fault, want := range map[faultproxy.Fault]Fate{
		faultproxy.DropBefore: Lost, faultproxy.DropAfter: Lost, faultproxy.FailAfter: Lost, faultproxy.TruncateAfter: Lost,
	} {
		t.Run(fault.String(), func(t *testing.T) {
			at, requests := endpoint(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"access_token":"a","token_type":"bearer"}`)
			})
			u, err := url.Parse(at)
			if err != nil {
				t.Fatal(err)
			}
			p, err := faultproxy.Start("http://"+u.Host, faultproxy.On(http.MethodPost, "/token", faultproxy.Fate{Fault: fault}))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.Close() }()
			_, err = loopbackClient().Refresh(t.Context(), app(p.URL()+"/token"), "refresh-secret")
			var failed *TokenError
			if !errors.As(err, &failed) || failed.Fate != want || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v", err)
			}
			if requests.Load() > 1 || p.Delivered()[fault] != 1 {
				t.Errorf("%d requests arrived, %v", requests.Load(), p.Delivered())
			}
		})
	}
}

func TestTokenUnsent(t *testing.T) {
	at, requests := endpoint(t, func(http.ResponseWriter, *http.Request) {})
	for name, tt := range map[string]struct {
		client *Client
		url    string
	}{
		"an address that the policy refuses": {NewClient(transport.NewEgress(), nil), at},
		"nobody there":                       {loopbackClient(), "http://127.0.0.1:1/token"},
		"no TLS":                             {loopbackClient(), strings.Replace(at, "http:", "https:", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tt.client.Refresh(t.Context(), app(tt.url), "refresh-secret")
			var failed *TokenError
			if !errors.As(err, &failed) || failed.Fate != Unsent || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v", err)
			}
		})
	}
	if requests.Load() != 0 {
		t.Errorf("%d requests", requests.Load())
	}
}

func TestLoginURL(t *testing.T) {
	a := app("https://example.org/token", func(a *App) {
		a.Scopes, a.ScopeSeparator, a.ClientIDParam = []string{"read", "write"}, ",", "client_key"
		a.AuthorizationParams = map[string]string{"prompt": "consent"}
		a.AuthorizationURL = "https://example.org/login?lang=en"
	})
	text, err := a.LoginURL("https://example.org/back", "state", "verifier")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	want := url.Values{
		"client_key": {"me"}, "redirect_uri": {"https://example.org/back"}, "response_type": {"code"}, "scope": {"read,write"},
		"state": {"state"}, "prompt": {"consent"}, "lang": {"en"}, "code_challenge_method": {"S256"},
		// RFC 7636: the SHA-256 of "verifier".
		"code_challenge": {"iMnq5o6zALKXGivsnlom_0F5_WYda32GHkxlV7mq7hQ"},
	}
	if u.Host != "example.org" || u.Path != "/login" || u.Query().Encode() != want.Encode() {
		t.Errorf("%s\nwant %v", text, want)
	}
}

func TestStates(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		ticket, err := NewTicket()
		state := StateOf(ticket)
		if err != nil || len(state) != 43 || seen[state] || len(Mark(state)) != 32 || string(Mark(state)) == state {
			t.Fatalf("%q, %v", state, err)
		}
		seen[state] = true
		if v := NewVerifier(); len(v) < 43 {
			t.Fatalf("a verifier of %d bytes", len(v))
		}
	}
}

func TestSecretsAreHidden(t *testing.T) {
	a, token := app("u"), Token{Access: "hush", Refresh: "hush"}
	for _, v := range []any{a, &a, token, &token, []App{a}, map[string]App{"k": a}} {
		for _, form := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(form, v); strings.Contains(text, "hush") {
				t.Errorf("%s of %T tells: %s", form, v, text)
			}
		}
	}
}
