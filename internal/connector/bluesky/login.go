package bluesky

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/redact"
)

// Rules of this file:
//   - Passwords are rarely exchanged for sessions: servers allow 30 sign-ins in 5
//     minutes and 300 a day for an account. So sessions are kept in memory, one for
//     each server, name and password, and refreshed before they end.
//   - One caller at a time signs in to an account; the others wait for its result.
//   - Nothing here is visible to other users, and every call may repeat: a refresh
//     whose answer was lost costs a sign-in.

const (
	// early is how long before its end a session is refreshed: longer than an attempt
	// takes, with the images that are uploaded before it.
	early = 5 * time.Minute
	// unstated is how long a session lasts whose end cannot be read.
	unstated = 10 * time.Minute
	// maxLogins bounds the sessions that are kept.
	maxLogins = 4096
	// maxToken bounds a token, in bytes.
	maxToken = 8 << 10
)

// login is a session with a server. It prints as nothing.
type login struct {
	redact.All

	base            *url.URL
	key             [sha256.Size]byte // among the sessions
	did, handle     string
	access, refresh string
	password        string
	ends            time.Time
	// fresh reports that the password was accepted just now, for this very use.
	fresh bool
}

func (in login) hidden() transport.Secrets {
	return transport.Secrets{}.With(in.password, in.access, in.refresh)
}

// cachedLogin is one account's session. The holder of the permit signs in.
type cachedLogin struct {
	permit chan struct{}
	mu     sync.Mutex
	in     login
}

func (a account) key() [sha256.Size]byte {
	return sha256.Sum256(job.NewCanon().Field("base", []byte(a.base.String())).
		Field("user", []byte(a.secret.user)).Field("password", []byte(a.secret.password)).Bytes())
}

// cachedLogin returns the session of an account, which may have to be signed in first.
func (c *Connector) cachedLogin(key [sha256.Size]byte) *cachedLogin {
	return c.logins.GetOrPut(key, func() *cachedLogin { return &cachedLogin{permit: make(chan struct{}, 1)} })
}

// lock waits for the permit to sign in. It fails with *connector.Refusal.
func (s *cachedLogin) lock(ctx context.Context) error {
	select {
	case s.permit <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &connector.Refusal{
			Kind: job.FailTransient, Msg: "out of time while another job signs in to " + platformName, Err: ctx.Err(),
		}
	}
}

func (s *cachedLogin) unlock() { <-s.permit }

func (s *cachedLogin) get() login {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.in
}

func (s *cachedLogin) put(in login) {
	in.fresh = false
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in = in
}

// forget discards a session whose token the server does not accept.
func (c *Connector) forget(in login, errorName string) {
	if errorName != errInvalidToken && errorName != errExpiredToken && !refused[errorName] {
		return
	}
	s := c.cachedLogin(in.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.in.access != in.access {
		return // there is a newer one
	}
	s.in.access = ""
	if errorName != errExpiredToken {
		s.in.refresh = ""
	}
}

// signedIn returns a session that lasts for an attempt. It fails with
// *connector.Refusal.
func (c *Connector) signedIn(ctx context.Context, a account) (login, error) {
	s := c.cachedLogin(a.key())
	if in := s.get(); c.lasts(in) {
		return in, nil
	}
	if err := s.lock(ctx); err != nil {
		return login{}, err
	}
	defer s.unlock()
	in := s.get()
	if c.lasts(in) {
		return in, nil
	}
	if in.refresh != "" {
		next, again, err := c.refreshed(ctx, a, in)
		if err != nil {
			return login{}, err
		}
		if !again {
			s.put(next)
			return next, nil
		}
	}
	return c.createSession(ctx, a, s)
}

// signIn exchanges the password for a session, whatever session there is.
func (c *Connector) signIn(ctx context.Context, a account) (login, error) {
	s := c.cachedLogin(a.key())
	if err := s.lock(ctx); err != nil {
		return login{}, err
	}
	defer s.unlock()
	return c.createSession(ctx, a, s)
}

func (c *Connector) lasts(in login) bool {
	return in.access != "" && c.cfg.Now().Add(early).Before(in.ends)
}

func (c *Connector) createSession(ctx context.Context, a account, s *cachedLogin) (login, error) {
	body, err := json.Marshal(map[string]string{"identifier": a.secret.user, "password": a.secret.password})
	if err != nil {
		return login{}, kit.UnusableCredential(err)
	}
	secrets := transport.Secrets{}.With(a.secret.password)
	answer, err := c.ask(ctx, a.base, question{
		method: methodCreateSession, post: true, contentType: jsonType, body: bytes.NewReader(body), length: int64(len(body)),
	})
	if err != nil {
		return login{}, err
	}
	if err := unanswered(answer, secrets); err != nil {
		return login{}, err
	}
	in, err := c.session(a, answer.Excerpt)
	if err != nil {
		return login{}, err
	}
	in.fresh = true
	s.put(in)
	return in, nil
}

// refreshed exchanges the refresh token. It returns again = true if the token is no
// longer valid and the account must sign in.
func (c *Connector) refreshed(ctx context.Context, a account, old login) (in login, again bool, err error) {
	answer, err := c.ask(ctx, a.base, question{method: methodRefreshSession, post: true, token: old.refresh})
	if err != nil {
		return login{}, false, err
	}
	if answer.Complete && answer.Status >= 400 && answer.Status < 500 && answer.Status != 429 {
		return login{}, true, nil
	}
	if err := unanswered(answer, old.hidden()); err != nil {
		return login{}, false, err
	}
	in, err = c.session(a, answer.Excerpt)
	if err == nil && in.did != old.did {
		return login{}, true, nil
	}
	return in, false, err
}

// session reads the answer to a sign-in.
func (c *Connector) session(a account, body []byte) (login, error) {
	var got struct {
		DID     string `json:"did"`
		Handle  string `json:"handle"`
		Access  string `json:"accessJwt"`
		Refresh string `json:"refreshJwt"`
		Active  *bool  `json:"active"`
	}
	if err := json.Unmarshal(body, &got); err != nil || !didForm.MatchString(got.DID) || !isToken(got.Access) ||
		got.Refresh != "" && !isToken(got.Refresh) {
		return login{}, &connector.Refusal{Kind: job.FailTransient, Msg: platformName + " answered the sign-in with something that is no session"}
	}
	if got.Active != nil && !*got.Active {
		return login{}, &connector.Refusal{
			Kind: job.FailAuth, Auth: job.AuthAccountBarred, Msg: "this Bluesky account is not active; activate it, then reconnect it",
		}
	}
	in := login{
		base: a.base, key: a.key(), did: got.DID, handle: got.Handle, access: got.Access, refresh: got.Refresh,
		password: a.secret.password, ends: c.cfg.Now().Add(unstated),
	}
	if ends, ok := endOf(got.Access); ok {
		in.ends = ends
	}
	return in, nil
}

// isToken reports whether a text can be sent as a token (RFC 6750, section 2.1).
func isToken(s string) bool {
	return s != "" && len(s) <= maxToken && strings.TrimFunc(s, visible) == ""
}

// endOf reads the end of a token that is a JWT (RFC 7519). Whether it is genuine is
// the server's business.
func endOf(token string) (time.Time, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, false
	}
	var claims struct {
		End int64 `json:"exp"`
	}
	if json.Unmarshal(raw, &claims) != nil || claims.End <= 0 {
		return time.Time{}, false
	}
	return time.Unix(claims.End, 0), true
}
