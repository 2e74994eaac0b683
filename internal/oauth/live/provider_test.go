// Package live_test runs logins and renewals against a real OAuth 2 server, with what
// networks and other servers do in between.
package live_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ory/fosite"
	"github.com/ory/fosite/compose"
	"github.com/ory/fosite/storage"
	"golang.org/x/crypto/bcrypt"
)

const (
	clientID     = "fireonce"
	clientSecret = "a-secret-of-the-app"
	redirectURL  = "http://127.0.0.1:1/cb"
)

// provider is fosite with PKCE enforced and refresh tokens that are replaced: one that comes twice
// ends the login. Every login is ann's, and posts are effects.
type provider struct {
	*httptest.Server
	oauth fosite.OAuth2Provider

	mu sync.Mutex
	// refreshed counts the renewals that gave tokens, refused those that did not.
	refreshed, refused int
	posts              map[string]int
	unauthorized       int
	// forms are the requests to the token endpoint.
	forms []url.Values
	// instead, when set, answers in place of the page at which a person says yes.
	instead http.HandlerFunc
	// silent: it does not name itself with the codes that it sends.
	silent bool
}

func newProvider(t *testing.T, life time.Duration, redirects ...string) *provider {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(clientSecret), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	kept := storage.NewMemoryStore()
	kept.Clients[clientID] = &fosite.DefaultClient{
		ID: clientID, Secret: hash, RedirectURIs: append(redirects, redirectURL), ResponseTypes: []string{"code"},
		GrantTypes: []string{"authorization_code", "refresh_token"}, Scopes: []string{"post", "offline"},
	}
	config := &fosite.Config{
		AccessTokenLifespan: life, EnforcePKCE: true, GlobalSecret: []byte("32 bytes that nobody has to know"),
		RefreshTokenScopes: []string{"offline"},
	}
	p := &provider{posts: map[string]int{}}
	p.oauth = compose.Compose(config, kept, compose.NewOAuth2HMACStrategy(config),
		compose.OAuth2AuthorizeExplicitFactory, compose.OAuth2RefreshTokenGrantFactory, compose.OAuth2PKCEFactory,
		compose.OAuth2TokenIntrospectionFactory)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /me", p.me)
	mux.HandleFunc("POST /posts", p.post)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// authorize is a person who says yes.
func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	if p.instead != nil {
		p.instead(w, r)
		return
	}
	ctx := r.Context()
	ar, err := p.oauth.NewAuthorizeRequest(ctx, r)
	if err != nil {
		p.oauth.WriteAuthorizeError(ctx, w, ar, err)
		return
	}
	for _, scope := range ar.GetRequestedScopes() {
		ar.GrantScope(scope)
	}
	resp, err := p.oauth.NewAuthorizeResponse(ctx, ar, &fosite.DefaultSession{Subject: "ann"})
	if err != nil {
		p.oauth.WriteAuthorizeError(ctx, w, ar, err)
		return
	}
	if !p.silent {
		resp.AddParameter("iss", p.URL) // RFC 9207
	}
	p.oauth.WriteAuthorizeResponse(ctx, w, ar, resp)
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	// fosite's store in memory has no transactions. Requests run one at a time, so that it detects
	// reuse correctly.
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx := context.WithoutCancel(r.Context())
	_ = r.ParseForm()
	p.forms = append(p.forms, r.PostForm)
	renewal := r.PostForm.Get("grant_type") == "refresh_token"
	req, err := p.oauth.NewAccessRequest(ctx, r, &fosite.DefaultSession{})
	if err == nil {
		var resp fosite.AccessResponder
		if resp, err = p.oauth.NewAccessResponse(ctx, req); err == nil {
			if renewal {
				p.refreshed++
			}
			p.oauth.WriteAccessResponse(ctx, w, req, resp)
			return
		}
	}
	if renewal {
		p.refused++
	}
	p.oauth.WriteAccessError(ctx, w, req, err)
}

// subject returns the account of a request's token.
func (p *provider) subject(r *http.Request) (string, bool) {
	_, ar, err := p.oauth.IntrospectToken(r.Context(), fosite.AccessTokenFromRequest(r), fosite.AccessToken, &fosite.DefaultSession{}, "post")
	if err != nil {
		return "", false
	}
	return ar.GetSession().GetSubject(), true
}

func (p *provider) me(w http.ResponseWriter, r *http.Request) {
	if name, ok := p.subject(r); ok {
		_, _ = fmt.Fprint(w, name)
		return
	}
	w.WriteHeader(http.StatusUnauthorized)
}

func (p *provider) post(w http.ResponseWriter, r *http.Request) {
	_, ok := p.subject(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !ok {
		p.unauthorized++
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	p.posts[r.Header.Get("Effect-Key")]++
	w.WriteHeader(http.StatusCreated)
}

// counts are what the provider has seen.
type counts struct{ refreshed, refused, posts, twice, unauthorized int }

func (p *provider) counts() counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := counts{refreshed: p.refreshed, refused: p.refused, posts: len(p.posts), unauthorized: p.unauthorized}
	for _, n := range p.posts {
		if n > 1 {
			c.twice++
		}
	}
	return c
}

// login opens a login's URL as a browser and returns where it is redirected.
func login(t *testing.T, authorizationURL string) *url.URL {
	t.Helper()
	h := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := h.Get(authorizationURL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	to, err := url.Parse(res.Header.Get("Location"))
	if err != nil || to.Query().Get("code") == "" {
		t.Fatalf("%s: sent to %s, %v", res.Status, strings.Split(to.String(), "code=")[0], err)
	}
	return to
}
