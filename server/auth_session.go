package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/seal"
)

// Rules of this file: the dashboard's browser signs in with an API key once, and holds a session
// from then on.
//   - A session is a sealed cookie that no script can read. It names the key and does not
//     contain it, so a cookie that leaks ends with its session and reveals no key. Any server that has the
//     sealing keys reads it; none stores it.
//   - A session is worth what its key is worth now. A key that is revoked, or replaced at the
//     operator's, ends its sessions.
//   - The cookie counts only for calls of the dashboard's own origin. A program sends its key, as
//     Authorization: Bearer, and gets no cookie. Where no key is required there are no sessions.

const (
	// SessionPath is where a browser signs in and out, and learns who it is.
	SessionPath = "/session"
	// sessionTime is how long a session lasts. Then the person signs in again.
	sessionTime = 12 * time.Hour
	// maxSignIn bounds the body of a sign-in.
	maxSignIn = 4 << 10
	// maxCookie bounds the cookie: what Seal adds to a session is about 150 bytes.
	maxCookie = 2 << 10
	// sessionMark is the length of the part of a key's hash that a session has.
	sessionMark = 16
)

// session is what a cookie holds.
type session struct {
	// Key is the id of the key of the store; empty: the operator's.
	Key string `json:"k,omitempty"`
	// Mark is the beginning of the key's hash: it distinguishes the operator's keys.
	Mark []byte `json:"m"`
	// End is in seconds since 1970.
	End int64 `json:"e"`
}

// sessions makes and reads cookies.
type sessions struct {
	server *Server
	// name is the cookie's, and of this installation: ports of a host share their cookies.
	name, path string
	// public is where browsers see the dashboard; nil: where they reach this port.
	public *url.URL
	guard  *http.CrossOriginProtection
}

func newSessions(s *Server) (*sessions, error) {
	out := &sessions{
		server: s, name: "fireonce-" + s.cfg.StoreID.String()[24:], path: s.cfg.dashboardBase(), public: s.cfg.DashboardURL,
		guard: http.NewCrossOriginProtection(),
	}
	if out.public != nil {
		if err := out.guard.AddTrustedOrigin(out.public.Scheme + "://" + out.public.Host); err != nil {
			return nil, fmt.Errorf("server: dashboard URL: %w", err)
		}
	}
	return out, nil
}

// secure reports whether the browser reaches the dashboard over TLS.
func (s *sessions) secure(r *http.Request) bool {
	if s.public != nil {
		return s.public.Scheme == "https"
	}
	return r.TLS != nil
}

// mayCarry reports whether a browser may send a key, and then a cookie, as it reaches the dashboard. Over plain
// HTTP it may only on its own machine, or where the operator has set the dashboard's URL.
func (s *sessions) mayCarry(r *http.Request) bool {
	return s.secure(r) || s.public != nil || hostAllowed(r.Host, nil)
}

// ownOrigin reports whether a request is of the dashboard's own pages.
func (s *sessions) ownOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return s.guard.Check(r) == nil
	default: // also a GET, which the guard allows
		return false
	}
}

// cookie returns a session's cookie, or, without a value, its end. It has the prefix that holds a browser to it
// where a cookie may have that: no other host has set it, and no page without TLS.
func (s *sessions) cookie(r *http.Request, value string) *http.Cookie {
	c := &http.Cookie{ //nolint:gosec // without Secure only where mayCarry allows plain HTTP
		Name: s.name, Value: value, Path: s.path, HttpOnly: true, Secure: s.secure(r), SameSite: http.SameSiteStrictMode,
		MaxAge: int(sessionTime.Seconds()),
	}
	if c.Secure && c.Path == "/" {
		c.Name = "__Host-" + c.Name
	}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

// seal returns the value of a session's cookie.
func (s *sessions) seal(in session) (string, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return "", fmt.Errorf("session: %w", err)
	}
	vault := s.server.cfg.Vault
	sealed, err := vault.Seal(text, seal.Session(s.server.cfg.StoreID))
	if err != nil {
		return "", fmt.Errorf("session: %w", err)
	}
	return vault.KeyID() + "." + base64.RawURLEncoding.EncodeToString(sealed), nil
}

// open returns the session of a request; false: it has none that counts.
func (s *sessions) open(r *http.Request) (session, bool) {
	c, err := r.Cookie(s.cookie(r, "").Name)
	if err != nil || len(c.Value) > maxCookie || !s.ownOrigin(r) {
		return session{}, false
	}
	keyID, text, _ := strings.Cut(c.Value, ".")
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return session{}, false
	}
	opened, err := s.server.cfg.Vault.Open(sealed, keyID, seal.Session(s.server.cfg.StoreID))
	if err != nil {
		return session{}, false
	}
	var out session
	if json.Unmarshal(opened, &out) != nil || len(out.Mark) != sessionMark || !s.server.cfg.Now().Before(time.Unix(out.End, 0)) {
		return session{}, false
	}
	return out, true
}

// caller returns the caller of a request: of its key, or of its session if it comes without one.
func (s *sessions) caller(r *http.Request) (caller, *fault) {
	authorization := r.Header.Get("Authorization")
	if authorization == "" && s.server.auth.required && r.Header.Get("Cookie") != "" {
		if in, ok := s.open(r); ok {
			return s.server.auth.inSession(r.Context(), in)
		}
	}
	return s.server.auth.identify(r.Context(), authorization)
}

// inSession returns the caller that a session belongs to, if its key is still good.
func (a *authenticator) inSession(ctx context.Context, in session) (caller, *fault) {
	is := func(sum [sha256.Size]byte) bool { return subtle.ConstantTimeCompare(sum[:sessionMark], in.Mark) == 1 }
	if in.Key == "" {
		if a.hasKey && is(a.keySum) || a.hasNextKey && is(a.nextKeySum) {
			return caller{project: DefaultProject, actor: "api:key", all: true}, nil
		}
		return caller{}, unknownKey()
	}
	k, err := a.keys.get(ctx, in.Key)
	switch {
	case err != nil:
		return caller{}, a.keyUnread(ctx, err)
	case !k.found, !bytes.Equal(k.Hash[:sessionMark], in.Mark), !k.Live():
		return caller{}, keyOver(in.Key)
	}
	a.keys.used(context.WithoutCancel(ctx), k)
	return caller{project: k.Project, actor: actorOf(k.APIKey), scopes: k.Scopes, key: k.ID}, nil
}

// whoReport is the answer of SessionPath: what the dashboard shows of its caller, and which buttons it has.
type whoReport struct {
	// SignedIn is false when calls need a key, and this browser has no session.
	SignedIn bool `json:"signedIn"`
	// KeyRequired is false when any caller may do everything: there is nothing to sign in to.
	KeyRequired bool     `json:"keyRequired"`
	Project     string   `json:"project,omitempty"`
	Actor       string   `json:"actor,omitempty"`
	Scopes      []string `json:"scopes"`
	// Refusal is why no one can sign in here; empty: a person can.
	Refusal string `json:"refusal,omitempty"`
	Version string `json:"version,omitempty"`
}

func (s *sessions) report(r *http.Request, who *caller) whoReport {
	out := whoReport{KeyRequired: s.server.auth.required, Scopes: []string{}}
	if who == nil {
		if !s.mayCarry(r) {
			out.Refusal = plainHTTP
		}
		return out
	}
	out.SignedIn, out.Project, out.Actor, out.Scopes = true, who.project, who.actor, who.scopes
	if who.all {
		out.Scopes = Scopes()
	}
	out.Version = s.server.cfg.Version
	return out
}

// plainHTTP refuses a sign-in over a network without TLS.
const plainHTTP = "An API key would cross the network unencrypted. Serve over TLS, or pass --dashboard-url with the address that you see."

// ServeHTTP implements http.Handler: GET returns who the browser is, POST signs it in, DELETE out.
func (s *sessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		who, refused := s.caller(r)
		if refused != nil {
			s.answer(w, http.StatusOK, s.report(r, nil))
			return
		}
		s.answer(w, http.StatusOK, s.report(r, &who))
	case http.MethodPost, http.MethodDelete:
		if !s.ownOrigin(r) {
			http.Error(w, "a session begins and ends at the dashboard's own page", http.StatusForbidden)
			return
		}
		if r.Method == http.MethodPost {
			s.signIn(w, r)
			return
		}
		http.SetCookie(w, s.cookie(r, ""))
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// signIn takes a key, as {"key": "…"}, and returns a session of it.
func (s *sessions) signIn(w http.ResponseWriter, r *http.Request) {
	if !s.mayCarry(r) {
		http.Error(w, plainHTTP, http.StatusForbidden)
		return
	}
	if r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "send JSON", http.StatusUnsupportedMediaType)
		return
	}
	var in struct {
		Key string `json:"key"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxSignIn)).Decode(&in); err != nil {
		http.Error(w, `send {"key": "…"}`, http.StatusBadRequest)
		return
	}
	key := strings.TrimSpace(in.Key)
	who, refused := s.server.auth.identify(r.Context(), "Bearer "+key)
	if refused != nil {
		s.server.logTurnedAway(r.Context(), SessionPath, refused)
		http.Error(w, refused.msg, signInStatus(refused))
		return
	}
	sum := sha256.Sum256([]byte(key))
	value, err := s.seal(session{Key: who.key, Mark: sum[:sessionMark], End: s.server.cfg.Now().Add(sessionTime).Unix()})
	if err != nil {
		s.server.log.ErrorContext(r.Context(), "a session could not be sealed", "request_id", requestID(r.Context()), "cause", err.Error())
		http.Error(w, "the session could not be made", http.StatusInternalServerError)
		return
	}
	http.SetCookie(w, s.cookie(r, value))
	s.answer(w, http.StatusOK, s.report(r, &who))
}

// signInStatus is the HTTP status of a sign-in that failed.
func signInStatus(f *fault) int {
	switch f.reason {
	case fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID:
		return http.StatusUnauthorized
	case fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE:
		return http.StatusServiceUnavailable
	default:
		return http.StatusTooManyRequests
	}
}

func (s *sessions) answer(w http.ResponseWriter, status int, report whoReport) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(report) // a client that has gone gets no answer
}
