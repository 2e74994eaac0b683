package server

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/oauth"
)

// Rules of this file: a login that ends at this server's own page goes through one browser, and
// its person sees the project and the connection that it is for.
//   - The browser gets a cookie where it begins the login. What comes back from the platform
//     is looked at only with this cookie.
//   - A code is used when the person has confirmed, on a page that names the project and the
//     connection: a link that is sent to another person can begin a login, and cannot confirm it.
//   - Only a navigation counts: programs that open links before people do, and pages of other
//     sites that embed one, get nothing and use nothing up.
//   - A login that ends at an application is handed over, and stays open for it.

// The bounds of what a platform sends along, in bytes: CompleteOAuth's.
const (
	maxState  = 128
	maxCode   = 4096
	maxIssuer = 2048
	// maxForm bounds the form of the confirmation.
	maxForm = 4 << 10
)

var (
	stateForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	codeForm  = regexp.MustCompile(`^[!-~]+$`)
)

// browserHandler makes a handler for browsers. answer returns the page, or nil if it has
// answered.
func (s *connectionService) browserHandler(answer func(ctx context.Context, w http.ResponseWriter, r *http.Request) *page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		if r.Method == http.MethodHead {
			h.Set("Allow", http.MethodGet)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if !navigates(r) {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Limits.MaxDeadline)
		defer cancel()
		if p := answer(ctx, w, r); p != nil {
			p.show(w)
		}
	}
}

// navigates reports whether a request may be a browser that opens a page, by the headers that
// browsers send. A form comes from our own page.
func navigates(r *http.Request) bool {
	h := r.Header
	if h.Get("Sec-Purpose") != "" || h.Get("Purpose") == "prefetch" {
		return false
	}
	is := func(name, want string) bool { return h.Get(name) == "" || h.Get(name) == want }
	if !is("Sec-Fetch-Mode", "navigate") || !is("Sec-Fetch-Dest", "document") {
		return false
	}
	return r.Method == http.MethodGet || is("Sec-Fetch-Site", "same-origin")
}

// oauthStart is GET /oauth/start: it remembers the browser, and sends it to the platform. It
// changes nothing here, so that programs that open links before people do spoil no login.
func (s *connectionService) oauthStart(ctx context.Context, w http.ResponseWriter, r *http.Request) *page {
	ticket := r.URL.Query().Get(oauth.TicketParam)
	if len(ticket) > maxState || !stateForm.MatchString(ticket) {
		return faultPage(loginNotFound())
	}
	state := oauth.StateOf(ticket)
	login, err := s.readLogin(ctx, state)
	if err == nil && !endsHere(login.req) {
		err = loginNotFound()
	}
	var to string
	if err == nil {
		to, err = login.app.LoginURL(login.RedirectURL, state, login.verifier)
	}
	if err != nil {
		return s.failedPage(ctx, err)
	}
	http.SetCookie(w, s.loginCookie(state, ticket))
	redirect(w, to)
	return nil
}

// loginCookie is the cookie of the browser that has begun a login, or, without a ticket,
// the end of it. Each login has one of its own, so that a person can begin several.
func (s *connectionService) loginCookie(state, ticket string) *http.Cookie {
	public, err := url.Parse(s.cfg.OAuthApps.PublicURL)
	if err != nil {
		public = &url.URL{} // it was read at the start
	}
	c := &http.Cookie{ //nolint:gosec // without Secure only where the operator allows a public_url of http
		Name: "fireonce-login-" + hex.EncodeToString(oauth.Mark(state)[:8]), Value: ticket,
		HttpOnly: true, Secure: public.Scheme == "https", SameSite: http.SameSiteLaxMode, MaxAge: int(oauth.LoginTime.Seconds()),
	}
	if ticket == "" {
		c.MaxAge = -1
	}
	switch below := strings.TrimSuffix(public.Path, "/"); {
	case c.Secure && below == "":
		// The name holds a browser to it: no other host, and no page without TLS, has set it.
		c.Name, c.Path = "__Host-"+c.Name, "/"
	default:
		c.Path = below + oauth.CallbackPath
	}
	return c
}

// callbackParams are the parameters that a browser brings from a platform.
type callbackParams struct{ state, code, said, issuer string }

// parseCallback reads them. RFC 6749 forbids a parameter that comes twice.
func parseCallback(q url.Values) (callbackParams, bool) {
	for _, name := range []string{"state", "code", "error", "iss"} {
		if len(q[name]) > 1 {
			return callbackParams{}, false
		}
	}
	b := callbackParams{q.Get("state"), q.Get("code"), q.Get("error"), q.Get("iss")}
	return b, len(b.state) <= maxState && stateForm.MatchString(b.state) && len(b.issuer) <= maxIssuer
}

// oauthCallback is GET and POST /oauth/callback/APP.
func (s *connectionService) oauthCallback(ctx context.Context, w http.ResponseWriter, r *http.Request) *page {
	back, ok := parseCallback(r.URL.Query())
	if !ok {
		return faultPage(loginNotFound())
	}
	login, err := s.readLogin(ctx, back.state)
	if err == nil && login.req.GetRedirectUrl() != "" {
		err = loginNotFound() // its callback is another URL
	}
	if err == nil && (r.PathValue("app") != login.app.Name || login.RedirectURL != s.cfg.OAuthApps.Callback(login.app)) {
		s.log.WarnContext(ctx, "a code came to another app's redirect URL; it was sent nowhere",
			"request_id", requestID(ctx), "app", login.app.Name)
		err = refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_MISMATCH, "another app's redirect URL")
	}
	if err == nil {
		err = s.checkIssuer(ctx, login.app, back.issuer)
	}
	if err != nil {
		return s.failedPage(ctx, err)
	}
	if to := login.ReturnURL; to != "" {
		return s.handOver(w, r, to, back)
	}
	return s.endLogin(ctx, w, r, login, back)
}

// handOver sends a browser on to the application that ends its login.
func (s *connectionService) handOver(w http.ResponseWriter, r *http.Request, to string, back callbackParams) *page {
	u, err := url.Parse(to)
	if err != nil || !s.cfg.OAuthApps.MayReturn(to) || r.Method != http.MethodGet {
		return notConnected(http.StatusBadRequest, wordsMismatch)
	}
	q := u.Query()
	for _, name := range []string{"code", "error", "error_description", "error_uri", "iss"} {
		q.Del(name) // what the stored URL has must not pass as the authorization server's answer
	}
	q.Set("state", back.state)
	if back.said != "" || len(back.code) > maxCode || !codeForm.MatchString(back.code) {
		if !errorForm.MatchString(back.said) {
			back.said = "server_error"
		}
		q.Set("error", back.said)
	} else {
		q.Set("code", back.code)
	}
	if back.issuer != "" {
		q.Set("iss", back.issuer)
	}
	u.RawQuery = q.Encode()
	redirect(w, u.String())
	return nil
}

// redirect sends a browser to a URL that the operator allows. Unlike http.Redirect, it writes
// the URL to no page.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// endLogin ends a login at this server's own page.
func (s *connectionService) endLogin(ctx context.Context, w http.ResponseWriter, r *http.Request, login *openLogin, back callbackParams) *page {
	cookie, err := r.Cookie(s.loginCookie(back.state, "").Name)
	if err != nil || !oauth.Begins(cookie.Value, back.state) {
		return otherBrowserPage()
	}
	ticket := cookie.Value
	switch {
	case back.said != "" && back.said != "access_denied":
		return s.abandonLogin(ctx, w, back.state, s.notLetInPage(ctx, login.Login, back.said))
	case back.said != "", len(back.code) > maxCode, !codeForm.MatchString(back.code):
		declined := refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_REFUSED, "the login was declined, or its code cannot be one")
		return s.abandonLogin(ctx, w, back.state, faultPage(declined))
	case r.Method == http.MethodGet:
		return s.askPage(ctx, login, oauth.Confirmation(ticket, back.code))
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil || !oauth.Confirms(r.PostForm.Get(fieldToken), ticket, back.code) {
		return otherBrowserPage()
	}
	switch {
	case r.PostForm.Get(fieldAnswer) != answerYes:
		return s.abandonLogin(ctx, w, back.state, notConnected(http.StatusOK, wordsNotWanted))
	case r.PostForm.Get(fieldMine) != confirmedOwn:
		return s.askPage(ctx, login, oauth.Confirmation(ticket, back.code))
	}
	return s.connect(ctx, w, login, back)
}

// abandonLogin ends a login that has failed, and returns its page.
func (s *connectionService) abandonLogin(ctx context.Context, w http.ResponseWriter, state string, p *page) *page {
	if err := s.takeLogin(ctx, "", state); err != nil {
		return s.failedPage(ctx, err)
	}
	http.SetCookie(w, s.loginCookie(state, ""))
	return p
}

// connect uses the code of a login that the person has confirmed.
func (s *connectionService) connect(ctx context.Context, w http.ResponseWriter, login *openLogin, back callbackParams) *page {
	if err := s.takeLogin(ctx, "", back.state); err != nil {
		return s.failedPage(ctx, err)
	}
	http.SetCookie(w, s.loginCookie(back.state, ""))
	done, err := s.completeLogin(ctx, login, back.code)
	if err != nil {
		return s.failedPage(ctx, err)
	}
	s.log.InfoContext(ctx, "an account was connected", "request_id", requestID(ctx), "project", login.Project,
		"connection", done.GetConnection().GetConnectionId(), "created", done.GetCreated())
	return &page{status: http.StatusOK, Title: "Connected", Text: wordsConnected}
}
