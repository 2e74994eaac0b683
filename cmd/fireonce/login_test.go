package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/node"
	"github.com/fireonce/fireonce/internal/connector/mastodon/mastodontest"
	"github.com/fireonce/fireonce/internal/proof/litetest"
)

// accounts is a Mastodon server with logins by authorization code with PKCE. Each code can be
// used once.
type accounts struct {
	*httptest.Server
	posts *mastodontest.Server

	mu sync.Mutex
	// codes maps issued codes to challenge and redirect URL.
	codes map[string][2]string
	// tokens are issued next; revoked ones are no longer accepted.
	tokens  []string
	revoked map[string]bool
}

func newAccounts(t *testing.T) *accounts {
	posts, err := mastodontest.Start(mastodontest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := &accounts{posts: posts, codes: map[string][2]string{}, revoked: map[string]bool{}}
	to, err := url.Parse(posts.URL())
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /oauth/authorize", a.authorize)
	mux.HandleFunc("POST /oauth/token", a.token)
	mux.HandleFunc("/", a.api(httputil.NewSingleHostReverseProxy(to)))
	a.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		a.Close()
		if err := posts.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// authorize answers for the page at which a person has allowed the access.
func (a *accounts) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != "me" || q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	code := fmt.Sprint("code-", len(a.codes))
	a.codes[code] = [2]string{q.Get("code_challenge"), q.Get("redirect_uri")}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

func (a *accounts) token(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	code := r.PostFormValue("code")
	want, known := a.codes[code]
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	w.Header().Set("Content-Type", "application/json")
	if !known || want != [2]string{base64.RawURLEncoding.EncodeToString(sum[:]), r.PostFormValue("redirect_uri")} || len(a.tokens) == 0 {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
		return
	}
	a.codes[code] = [2]string{}
	_, _ = fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer"}`, a.tokens[0])
	a.tokens = a.tokens[1:]
}

// api is the server's own API, except that tokens expire, and one belongs to another account.
func (a *accounts) api(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		a.mu.Lock()
		revoked := a.revoked[token]
		a.mu.Unlock()
		switch {
		case revoked:
			http.Error(w, `{"error":"The access token was revoked"}`, http.StatusUnauthorized)
		case token == "eve" && r.URL.Path == "/api/v1/accounts/verify_credentials":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"999","username":"eve","acct":"eve","url":"https://example.com/@eve"}`)
		default:
			next.ServeHTTP(w, r)
		}
	}
}

func (a *accounts) give(tokens ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens = append(a.tokens, tokens...)
}

func (a *accounts) revoke(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.revoked[token] = true
}

// pasteAt is a redirect URL at which no program listens.
const pasteAt = "http://127.0.0.1:9/done"

// loginWorld is a server with an app for an accounts server.
type loginWorld struct {
	*testing.T
	*accounts
	server string
}

func newLoginWorld(t *testing.T) *loginWorld {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	a := newAccounts(t)
	path := filepath.Join(t.TempDir(), "apps.json")
	text := fmt.Sprintf(`{"public_url": "http://127.0.0.1:8080", "apps": [{"name": "mastodon", "connector": "mastodon", "client_id": "me",
		"server": %q, "redirect_urls": [%q]}]}`, a.URL, pasteAt)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(t.Context(), node.Config{
		Listen: "127.0.0.1:0", Database: "sqlite:" + litetest.New(t), Dev: true, OAuthApps: path,
		Grace: 30 * time.Second, Log: slog.New(slog.DiscardHandler), Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- n.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &loginWorld{T: t, accounts: a, server: n.URL()}
}

// ran is the result of one run of the program.
type ran struct {
	code     int
	out, err string
}

// fireonce runs the program. person, if set, gets the URL that the program prints, and returns
// what the person pastes.
func (w *loginWorld) fireonce(person func(url string) string, args ...string) ran {
	w.Helper()
	in, keyboard := io.Pipe()
	defer in.Close()
	var out bytes.Buffer
	screen := &shownScreen{}
	if person != nil {
		screen.told = func(at string) {
			if text := person(at); text != "" {
				_, _ = io.WriteString(keyboard, text+"\n")
			}
		}
	}
	p := Program{Stdin: in, Stdout: &out, Stderr: screen, Version: "test"}
	code := p.Run(w.Context(), append(append([]string{"fireonce"}, args...), "--server", w.server))
	screen.wait.Wait()
	return ran{code, out.String(), screen.text()}
}

// shownScreen is what a person sees. told is called once, with the URL that it shows.
type shownScreen struct {
	told func(url string)
	wait sync.WaitGroup
	mu   sync.Mutex
	buf  bytes.Buffer
	seen bool
}

var loginURL = regexp.MustCompile(`http://\S+/oauth/(authorize|start)\?\S+`)

func (s *shownScreen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.buf.Write(p)
	if at := loginURL.FindString(s.buf.String()); at != "" && s.told != nil && !s.seen {
		s.seen = true
		s.wait.Go(func() { s.told(at) })
	}
	return n, err
}

func (s *shownScreen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// allow acts as a person who allows the access, and returns the URL at which the browser ends.
func (w *loginWorld) allow(at string) *url.URL {
	h := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := h.Get(at)
	if err != nil {
		w.Error(err)
		return &url.URL{}
	}
	defer res.Body.Close()
	to, err := res.Location()
	if err != nil {
		w.Errorf("%s, %v", res.Status, err)
		return &url.URL{}
	}
	return to
}

// browser returns a person's browser, which reaches the server by its public URL.
func (w *loginWorld) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

var tokenField = regexp.MustCompile(`name="token" value="([^"]+)"`)

// toServer acts as a person whose browser begins and ends the login at the server's pages. The
// person confirms the login, and the last page contains words.
func (w *loginWorld) toServer(words string) func(string) string {
	return func(start string) string {
		browser := w.browser()
		at, err := url.Parse(start)
		if err != nil {
			w.Error(err)
			return ""
		}
		res, err := browser.Get(w.server + at.RequestURI())
		if err != nil {
			w.Error(err)
			return ""
		}
		defer res.Body.Close()
		back := w.server + w.allow(res.Header.Get("Location")).RequestURI()
		asked := w.page(browser.Get(back))
		token := tokenField.FindStringSubmatch(asked)
		if token == nil || !strings.Contains(asked, "Project <strong>default</strong>") {
			w.Errorf("nothing is asked:\n%s", asked)
			return ""
		}
		done := w.page(browser.PostForm(back, url.Values{"token": {token[1]}, "mine": {"yes"}, "answer": {"connect"}}))
		if !strings.Contains(done, words) {
			w.Errorf("the page does not say %q:\n%s", words, done)
		}
		return ""
	}
}

// page reads a page.
func (w *loginWorld) page(res *http.Response, err error) string {
	if err != nil {
		w.Error(err)
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.Error(err)
	}
	return string(body)
}

// pastes acts as a person who pastes the URL at which the browser ended, after a change of it.
func (w *loginWorld) pastes(change func(*url.URL) string) func(string) string {
	return func(at string) string { return change(w.allow(at)) }
}

func asItIs(u *url.URL) string { return u.String() }

func (w *loginWorld) is(r ran, code int, out, err string) {
	w.Helper()
	if r.code != code || !regexp.MustCompile(out).MatchString(r.out) || !regexp.MustCompile(err).MatchString(r.err) {
		w.Fatalf("exit code %d, want %d\n%s\n%s", r.code, code, r.out, r.err)
	}
}

var connectionLine = regexp.MustCompile(`Connection +([0-9a-f-]{36})`)

// connect logs in a new account at the server's page.
func (w *loginWorld) connect(name string) string {
	w.Helper()
	w.give("first")
	r := w.fireonce(w.toServer("The account is connected"),
		"connections", "login", "--connector", "mastodon", "--base-url", w.URL, "--name", name, "--receiver-dedupes", "yes")
	w.is(r, 0, `Name +`+name+`(?s).*State +ACTIVE.*Account +\S`, `Open this URL(?s).*Waiting for the login`)
	return connectionLine.FindStringSubmatch(r.out)[1]
}

func TestLoginAtTheServersPage(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	w.connect("other")
	id := w.connect("mine")
	w.is(w.fireonce(nil, "connections", "test", id), 0, `Check +passed`, ``)
}

func TestLoginPasted(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	login := []string{"connections", "login", "--connector", "mastodon", "--base-url", w.URL, "--redirect-url", pasteAt}
	w.give("first")
	w.is(w.fireonce(w.pastes(asItIs), append(login, "--json")...), 0, `"created": true`, `paste here`)
	w.give("second")
	w.is(w.fireonce(w.pastes(asItIs), login...), 0, `Connection +`, ``)

	// None of these ends a login or makes a connection.
	for name, tt := range map[string]struct {
		change func(*url.URL) string
		code   int
		words  string
	}{
		"declined": {func(u *url.URL) string {
			return pasteAt + "?error=access_denied&error_description=%1b[31mred&state=" + u.Query().Get("state")
		}, 1, `the login was declined \(access_denied\)`},
		"another login's":   {func(u *url.URL) string { return pasteAt + "?code=" + u.Query().Get("code") + "&state=other" }, 1, `not of this login`},
		"no code":           {func(u *url.URL) string { return pasteAt + "?state=" + u.Query().Get("state") }, 1, `no code`},
		"a wrong code":      {func(u *url.URL) string { return pasteAt + "?code=code-of-mine&state=" + u.Query().Get("state") }, 3, `OAUTH_REFUSED`},
		"the code alone":    {func(u *url.URL) string { return u.Query().Get("code") }, 1, `not the whole URL`},
		"another app's URL": {func(u *url.URL) string { return strings.Replace(u.String(), "/done", "/other", 1) }, 3, `OAUTH_MISMATCH`},
		"nothing":           {func(*url.URL) string { return " " }, 2, `nothing was pasted`},
	} {
		r := w.fireonce(w.pastes(tt.change), login...)
		if w.is(r, tt.code, ``, tt.words); strings.Contains(r.err, "\x1b") {
			t.Errorf("%s: %q", name, r.err)
		}
	}
	r := w.fireonce(nil, "connections", "list")
	if n := strings.Count(r.out, "mastodon"); n != 2 {
		t.Errorf("%d connections\n%s", n, r.out)
	}
}

// TestLoginEnds checks that a login expires, and that mistakes are reported before the login begins.
func TestLoginEnds(t *testing.T) {
	t.Parallel()
	w := newLoginWorld(t)
	base := []string{"connections", "login", "--connector", "mastodon", "--base-url", w.URL}
	nobody := func(string) string { return "" }
	w.is(w.fireonce(nobody, append(base, "--wait", "50ms")...), 1, `^$`, `did not come back in time`)
	w.is(w.fireonce(nobody, append(base, "--wait", "50ms", "--redirect-url", pasteAt)...), 1, `^$`, `did not come back in time`)
	for _, tt := range []struct {
		args  []string
		code  int
		words string
	}{
		{[]string{"connections", "login"}, 2, `--connector`},
		{append(base, "--wait", "0s"), 2, `--wait`},
		{append(base, "extra"), 2, `unexpected argument`},
		{append(base, "--app", "gone"), 2, `it has mastodon`},
		{append(base, "--redirect-url", "http://127.0.0.1:9/other"), 2, `REDIRECT_NOT_ALLOWED`},
		{[]string{"connections", "login", "--connector", "mastodon"}, 2, `--base-url`},
		{[]string{"connections", "login", "--connection", "00000000-0000-7000-8000-000000000000"}, 4, `CONNECTION_NOT_FOUND`},
		{[]string{"connections", "login", "--connection", "x", "--name", "n"}, 2, `--name does not go with --connection`},
	} {
		w.is(w.fireonce(nil, tt.args...), tt.code, `^$`, tt.words)
	}
}

// TestLoginAgain refuses a token, so that its connection is held. After its owner logs in again, the
// job continues and is posted once. A login with another account changes nothing.
func TestLoginAgain(t *testing.T) {
	long(t)
	t.Parallel()
	w := newLoginWorld(t)
	id := w.connect("mine")
	w.revoke("first")
	payload := filepath.Join(t.TempDir(), "post.json")
	if err := os.WriteFile(payload, []byte(`{"socialPost":{"text":"once"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.is(w.fireonce(nil, "schedule", "--connection", id, "--payload-file", payload, "--key", "k"), 0, ``, ``)
	held := time.Now().Add(time.Minute)
	for !strings.Contains(w.fireonce(nil, "connections", "get", id).out, "AUTH_HOLD") {
		if time.Now().After(held) {
			t.Fatal(w.fireonce(nil, "get", "--key", "k").out)
		}
	}
	again := []string{"connections", "login", "--connection", id}
	w.give("eve")
	w.is(w.fireonce(w.pastes(asItIs), append(again, "--redirect-url", pasteAt)...), 3, `^$`, `IDENTITY_MISMATCH`)
	w.give("eve")
	w.is(w.fireonce(w.toServer("another account"), append(again, "--wait", "3s")...), 1, `^$`, `did not come back`)
	w.is(w.fireonce(nil, "connections", "get", id), 0, `AUTH_HOLD`, ``)
	w.give("second")
	w.is(w.fireonce(w.toServer("The account is connected"), again...), 0, `State +ACTIVE`, ``)
	w.is(w.fireonce(nil, "watch", "--key", "k"), 0, `SUCCEEDED`, ``)
	if n := len(w.posts.Posts()); n != 1 {
		t.Errorf("%d posts", n)
	}
}
