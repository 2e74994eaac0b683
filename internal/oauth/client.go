package oauth

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/redact"
)

// Rules of this file: a code, and most often a refresh token, is good for one request.
//   - A request to a token endpoint is made once: on a new connection, without a redirect, and
//     with one way to name the client.
//   - Every failure reports whether the platform may have seen the request.
//   - Of a platform's answer, errors and logs hold the error code only.

const (
	// tokenTime bounds one request to a token endpoint.
	tokenTime = 10 * time.Second
	// maxAnswer bounds its answer, in bytes.
	maxAnswer = 64 << 10
	// maxToken is how long a token may be, in bytes: the contract's bound.
	maxToken = 8192
)

// Token is what a platform issued.
type Token struct {
	redact.All

	Access, Refresh string
	// Issued is the time of the request, Expires the end of the token; zero: the platform named
	// none.
	Issued, Expires time.Time
}

// Fate is the outcome of a request to a token endpoint that returned no token.
type Fate int

const (
	// Refused: the platform does not accept the code or the refresh token (any more).
	Refused Fate = iota + 1
	// Misconfigured: it does not accept the app, or not its request.
	Misconfigured
	// Busy: it declined for now, before it did anything.
	Busy
	// Unsent: the request did not reach it.
	Unsent
	// Lost: it may have issued tokens; its answer did not arrive or cannot be read.
	Lost
)

// TokenError is why there is no token. It holds no secret.
type TokenError struct {
	Fate Fate
	// Code is the platform's error code, if it has the form of one; Status the HTTP
	// status, 0 without an answer.
	Code   string
	Status int
	// Cause is the network's error.
	Cause error
}

func (e *TokenError) Error() string {
	what := map[Fate]string{
		Refused: "the grant is refused", Misconfigured: "the app is refused", Busy: "the platform is busy",
		Unsent: "the platform cannot be reached", Lost: "the platform's answer is not known",
	}[e.Fate]
	if e.Status != 0 {
		what += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	if e.Code != "" {
		what += ": " + e.Code
	}
	if e.Cause != nil {
		what += ": " + e.Cause.Error()
	}
	return what
}

func (e *TokenError) Unwrap() error { return e.Cause }

// Client talks to token endpoints.
type Client struct {
	transport http.RoundTripper
	now       func() time.Time
}

// NewClient makes a client that dials what egress allows. A nil now is time.Now.
func NewClient(egress *transport.Egress, now func() time.Time) *Client {
	if now == nil {
		now = time.Now
	}
	dialer := &net.Dialer{Timeout: tokenTime, ControlContext: egress.Control}
	return &Client{now: now, transport: &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: tokenTime, ResponseHeaderTimeout: tokenTime,
		MaxResponseHeaderBytes: maxAnswer, DisableCompression: true,
		// A connection that was used before may be lost as the request starts. The transport would
		// then repeat the request.
		DisableKeepAlives: true,
		TLSNextProto:      map[string]func(string, *tls.Conn) http.RoundTripper{},
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12},
	}}
}

// config is the app in the form of the protocol's library.
func (a App) config(redirect string) *oauth2.Config {
	style := oauth2.AuthStyleInHeader
	if a.AuthStyle == StyleBody {
		style = oauth2.AuthStyleInParams
	}
	c := &oauth2.Config{
		ClientID: a.ClientID, ClientSecret: a.ClientSecret, RedirectURL: redirect,
		Endpoint: oauth2.Endpoint{AuthURL: a.AuthorizationURL, TokenURL: a.TokenURL, AuthStyle: style},
	}
	if len(a.Scopes) > 0 {
		c.Scopes = []string{strings.Join(a.Scopes, a.ScopeSeparator)}
	}
	return c
}

// LoginURL is the page on which a person allows the app to act for them.
func (a App) LoginURL(redirect, state, verifier string) (string, error) {
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}
	for name, value := range a.AuthorizationParams {
		options = append(options, oauth2.SetAuthURLParam(name, value))
	}
	u, err := url.Parse(a.config(redirect).AuthCodeURL(state, options...))
	if err != nil {
		return "", fmt.Errorf("%s: %w", a, err)
	}
	u.RawQuery = a.renamed(u.Query()).Encode()
	return u.String(), nil
}

// renamed uses the platform's name for the client's id.
func (a App) renamed(q url.Values) url.Values {
	if id, ok := q["client_id"]; ok && a.ClientIDParam != "client_id" {
		q.Del("client_id")
		q[a.ClientIDParam] = id
	}
	return q
}

// Exchange returns the tokens for a code. It is called once for each code. It fails with
// *TokenError.
func (c *Client) Exchange(ctx context.Context, a App, code, verifier, redirect string) (Token, error) {
	return c.ask(ctx, a, func(ctx context.Context) (*oauth2.Token, error) {
		return a.config(redirect).Exchange(ctx, code, oauth2.VerifierOption(verifier))
	})
}

// Refresh returns new tokens for a refresh token. There is no new refresh token where the platform
// keeps the old one. It fails with *TokenError.
func (c *Client) Refresh(ctx context.Context, a App, refresh string) (Token, error) {
	return c.ask(ctx, a, func(ctx context.Context) (*oauth2.Token, error) {
		return a.config("").TokenSource(ctx, &oauth2.Token{RefreshToken: refresh}).Token()
	})
}

func (c *Client) ask(ctx context.Context, a App, call func(context.Context) (*oauth2.Token, error)) (Token, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTime)
	defer cancel()
	once := &once{app: a, to: c.transport}
	issued := c.now()
	got, err := call(context.WithValue(ctx, oauth2.HTTPClient, &http.Client{
		Transport:     once,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}))
	if err != nil {
		return Token{}, once.fate(err)
	}
	out := Token{Access: got.AccessToken, Refresh: got.RefreshToken, Issued: issued}
	if !fit(out.Access) || out.Refresh != "" && !fit(out.Refresh) {
		return Token{}, &TokenError{Fate: Lost, Status: once.status, Cause: errors.New("a token that cannot be used")}
	}
	// The library counts the life of a token from its own clock.
	if got.ExpiresIn > 0 {
		out.Expires = issued.Add(time.Duration(got.ExpiresIn) * time.Second)
	}
	return out, nil
}

func fit(token string) bool {
	return token != "" && len(token) <= maxToken && !strings.ContainsFunc(token, func(r rune) bool { return r < '!' || r > '~' })
}

// once makes one request and records its outcome.
type once struct {
	app     App
	to      http.RoundTripper
	used    bool
	written atomic.Bool
	status  int
}

var errTwice = errors.New("a second request to the token endpoint")

// RoundTrip implements http.RoundTripper.
func (o *once) RoundTrip(req *http.Request) (*http.Response, error) {
	if o.used {
		return nil, errTwice
	}
	o.used = true
	form, err := io.ReadAll(io.LimitReader(req.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if o.app.ClientIDParam != "client_id" {
		values, err := url.ParseQuery(string(form))
		if err != nil {
			return nil, errors.New("no form")
		}
		form = []byte(o.app.renamed(values).Encode())
	}
	req = req.Clone(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		WroteHeaders: func() { o.written.Store(true) },
	}))
	req.Body, req.ContentLength, req.GetBody = io.NopCloser(bytes.NewReader(form)), int64(len(form)), nil
	req.Header.Set("Accept", "application/json")
	resp, err := o.to.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	o.status = resp.StatusCode
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	return resp, nil
}

var codeForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// fate classifies a failure.
func (o *once) fate(err error) *TokenError {
	var said *oauth2.RetrieveError
	var denied *transport.EgressError
	out := &TokenError{Fate: Lost, Status: o.status}
	switch {
	case errors.As(err, &said):
		if codeForm.MatchString(said.ErrorCode) {
			out.Code = said.ErrorCode
		}
		out.Fate = o.judged(out.Code)
	case errors.As(err, &denied):
		out.Fate, out.Cause = Unsent, denied
	case !o.written.Load():
		out.Fate, out.Cause = Unsent, network(err)
	case o.status == 0:
		out.Cause = network(err)
	default:
		out.Cause = errors.New("an answer that cannot be read")
	}
	return out
}

// network describes a failure of the network without the library's text, which quotes the URL and
// the answer.
func network(err error) error {
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	case errors.As(err, &dns):
		return dns
	case errors.As(err, &op):
		return op
	default:
		return errors.New("the connection failed")
	}
}

// judged classifies an answer with an error.
func (o *once) judged(code string) Fate {
	switch {
	case o.status == http.StatusTooManyRequests, code == "temporarily_unavailable", code == "ratelimited", code == "slow_down":
		return Busy
	case o.status >= http.StatusInternalServerError, o.status == http.StatusRequestTimeout, code == "server_error":
		return Lost
	case code == "invalid_grant", code != "" && o.app.refuses(code):
		return Refused
	default:
		return Misconfigured
	}
}

func (a App) refuses(code string) bool {
	return slices.Contains(a.RefusedCodes, code)
}

// Credential is the token as the contract has it.
func (t Token) Credential(a App) *connectionsv1.Credential {
	pb := &connectionsv1.OAuth2Token{App: a.Name}
	t.into(pb)
	return &connectionsv1.Credential{Kind: &connectionsv1.Credential_Oauth2{Oauth2: pb}}
}
