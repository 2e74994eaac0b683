package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/builtin"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/memory"
)

// fate is what a test does to a request to the token endpoint.
type fate int

const (
	pass fate = iota
	lostAfter
	lostBefore
	unsent
	status503
	status429
	badApp
	endless // the platform is slow
)

var errLine = errors.New("the line is dead")

// tokenServer is a token endpoint that replaces refresh tokens, and ends a login when one
// comes twice.
type tokenServer struct {
	mu       sync.Mutex
	fates    []fate
	requests int
	current  string
	n        int
	life     time.Duration
	// grace lets the last refresh token be used once more.
	grace    bool
	spent    string
	dead     bool
	bodies   []url.Values
	released chan struct{}
}

func (p *tokenServer) next() fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	if len(p.fates) == 0 {
		return pass
	}
	f := p.fates[0]
	p.fates = p.fates[1:]
	return f
}

func (p *tokenServer) asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests
}

// RoundTrip implements http.RoundTripper.
func (p *tokenServer) RoundTrip(req *http.Request) (*http.Response, error) {
	f := p.next()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, err
	}
	if f == unsent {
		return nil, errLine
	}
	httptrace.ContextClientTrace(req.Context()).WroteHeaders()
	answer := func(status int, text string) (*http.Response, error) {
		return &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(text)), Request: req,
		}, nil
	}
	switch f {
	case lostBefore:
		return nil, errLine
	case status503:
		return answer(503, "<html>secret words</html>")
	case status429:
		return answer(429, `{"error":"slow_down"}`)
	case badApp:
		return answer(401, `{"error":"invalid_client"}`)
	case endless:
		select {
		case <-p.released:
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	status, text := p.refresh(form)
	if f == lostAfter {
		return nil, errLine
	}
	return answer(status, text)
}

func (p *tokenServer) refresh(form url.Values) (int, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bodies = append(p.bodies, form)
	switch token := form.Get("refresh_token"); {
	case p.dead:
		return 400, `{"error":"invalid_grant"}`
	case p.grace && token == p.spent && token != "":
		p.spent = ""
	case token != p.current:
		p.dead = true
		return 400, `{"error":"invalid_grant","error_description":"` + token + `"}`
	}
	p.n++
	p.spent, p.current = p.current, fmt.Sprintf("refresh-%d", p.n)
	return 200, fmt.Sprintf(`{"access_token":"access-%d","token_type":"bearer","expires_in":%d,"refresh_token":%q}`,
		p.n, int(p.life.Seconds()), p.current)
}

// shaky is a store that fails as a test says.
type shaky struct {
	store.Store
	change func() error
}

func (s *shaky) ChangeConnection(ctx context.Context, c store.ConnectionChange) (store.Connection, error) {
	if s.change != nil {
		if err := s.change(); err != nil {
			return store.Connection{}, err
		}
	}
	return s.Store.ChangeConnection(ctx, c)
}

type fixture struct {
	*testing.T
	p     *tokenServer
	store *shaky
	keys  *vault.Vault
	id    job.ID
	log   *journal
}

func newID() job.ID { return job.ID(uuid.Must(uuid.NewV7())) }

// in runs a test in a bubble, with a connection whose token lives for two hours.
func in(t *testing.T, test func(f *fixture), edit ...func(*connectionsv1.OAuth2Token)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		keys, err := vault.New(make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		f := &fixture{
			T: t, keys: keys, id: newID(), store: &shaky{Store: memory.Open(memory.Options{})},
			p: &tokenServer{current: "refresh-0", life: 2 * time.Hour, released: make(chan struct{})}, log: &journal{},
		}
		now := time.Now()
		token := &connectionsv1.OAuth2Token{
			AccessToken: "access-0", RefreshToken: "refresh-0", App: "x",
			IssueTime: timestamppb.New(now), ExpireTime: timestamppb.New(now.Add(2 * time.Hour)),
		}
		for _, e := range edit {
			e(token)
		}
		f.connect(&connectionsv1.Credential{Kind: &connectionsv1.Credential_Oauth2{Oauth2: token}})
		test(f)
		for _, secret := range []string{"access-", "refresh-", "secret words", "hush"} {
			if strings.Contains(f.log.String(), secret) {
				t.Errorf("the log has %q:\n%s", secret, f.log)
			}
		}
	})
}

func (f *fixture) connect(cred *connectionsv1.Credential, edit ...func(*store.Connection)) {
	f.Helper()
	secret, err := proto.Marshal(cred)
	f.ok(err)
	conn := store.Connection{ID: f.id, Project: "default", Connector: "x", Class: job.Observable}
	for _, e := range edit {
		e(&conn)
	}
	sealed, err := seal.Credential(f.keys, conn, 1, secret)
	f.ok(err)
	if at := cred.GetOauth2().GetExpireTime(); at != nil {
		sealed.Expires = at.AsTime()
	}
	_, _, err = f.store.CreateConnection(f.Context(), store.NewConnection{Connection: conn, Sealed: sealed})
	f.ok(err)
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// node makes a renewer, as one server has it.
func (f *fixture) node() *Renewer {
	f.Helper()
	apps, err := parseApps([]byte(`{"apps":[{"name":"x","connector":"x","client_id":"me","client_secret":"hush"},
		{"name":"social","connector":"mastodon","client_id":"me","client_secret":"hush","server":"https://social.example.org"}]}`), source{}, builtin.Platforms, false)
	f.ok(err)
	r, err := NewRenewer(Config{
		Apps: apps, Client: &Client{transport: f.p, now: time.Now}, Store: f.store, Vault: f.keys, NewID: newID,
		Log: slog.New(slog.NewTextHandler(f.log, nil)),
	})
	f.ok(err)
	return r
}

// journal keeps what is logged.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (f *fixture) conn() store.Connection {
	f.Helper()
	c, err := f.store.Connection(f.Context(), store.Ref{Project: "default", ID: f.id})
	f.ok(err)
	return c
}

// stored is the newest credential's access token and version.
func (f *fixture) stored() (string, int) {
	f.Helper()
	sealed, err := f.store.Credential(f.Context(), f.id)
	f.ok(err)
	data, err := seal.Open(f.keys, f.conn(), sealed)
	f.ok(err)
	token, _ := tokenOf(connector.Credential{Data: data})
	return token.GetAccessToken(), sealed.Version
}

// fresh asks as an engine does: with the newest credential, if it may be due.
func (f *fixture) fresh(r *Renewer) (string, error) {
	f.Helper()
	conn := f.conn()
	cred, err := r.present(f.Context(), conn)
	f.ok(err)
	if r.Due(conn) {
		if cred, err = r.Fresh(f.Context(), conn, cred); err != nil {
			return "", err
		}
	}
	token, _ := tokenOf(cred)
	return token.GetAccessToken(), nil
}

// wantToken checks the token that is used, that it is the stored one, and the number of requests so
// far.
func (f *fixture) wantToken(r *Renewer, want string, requests int) {
	f.Helper()
	got, err := f.fresh(r)
	stored, _ := f.stored()
	if err != nil || got != want || stored != want || f.p.asked() != requests {
		f.Fatalf("token %q, error %v, stored %q, %d requests; want %q, %d\n%s", got, err, stored, f.p.asked(), want, requests, f.log)
	}
}

// refuses makes sure of a refusal and of the requests so far.
func (f *fixture) refuses(r *Renewer, kind job.FailureKind, words string, requests int) *connector.Refusal {
	f.Helper()
	got, err := f.fresh(r)
	var refusal *connector.Refusal
	if !errors.As(err, &refusal) || refusal.Kind != kind || !strings.Contains(refusal.Msg, words) || f.p.asked() != requests {
		f.Fatalf("token %q, error %v, %d requests; want %s with %q, %d\n%s", got, err, f.p.asked(), kind, words, requests, f.log)
	}
	return refusal
}
