package server

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"regexp"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the page is for a person's browser, which a platform has sent
// here with a code.
//   - It has no script, loads nothing, and shows nothing that came with the request.
//   - Only a navigation ends a login: what looks at links before people do gets
//     nothing, and uses nothing up.
//   - It leads on only to what StartOAuth was given and the operator allows.

// The bounds of what a platform sends along, in bytes: CompleteOAuth's.
const (
	maxState = 128
	maxCode  = 4096
)

var (
	stateForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	codeForm  = regexp.MustCompile(`^[!-~]+$`)
)

// page is what a person reads.
type page struct {
	Title, Text string
	// Back leads to where the login was begun; empty: the page does not know.
	Back string
}

var pageText = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
</head>
<body>
<h1>{{.Title}}</h1>
<p>{{.Text}}</p>
{{if .Back}}<p><a href="{{.Back}}">Go back</a></p>
{{end}}</body>
</html>
`))

// oauthCallback is GET /oauth/callback.
func (s *Server) oauthCallback(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet || r.Header.Get("Sec-Purpose") != "" || r.Header.Get("Purpose") == "prefetch" {
		h.Set("Allow", http.MethodGet)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Limits.MaxDeadline)
	defer cancel()
	status, p, to := s.endLogin(ctx, r.URL.Query())
	if to != "" {
		http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // what StartOAuth was given, and the operator allows
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = pageText.Execute(w, p) // a browser that has gone reads nothing
}

// endLogin gives the page for what came back, or where to go on.
func (s *Server) endLogin(ctx context.Context, q url.Values) (status int, p page, to string) {
	svc := &connectionService{Server: s}
	state, code := q.Get("state"), q.Get("code")
	if len(state) > maxState || !stateForm.MatchString(state) {
		return pageOf(loginNotFound(), "")
	}
	login, err := svc.takeLogin(ctx, "", state)
	if err != nil {
		return s.failedPage(ctx, err, "")
	}
	switch said := q.Get("error"); {
	case said != "" && said != "access_denied":
		return s.notLetIn(ctx, login, said)
	case said != "" || code == "":
		return pageOf(refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_REFUSED, "the login was declined"), login.ReturnURL)
	case len(code) > maxCode || !codeForm.MatchString(code):
		return pageOf(refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_REFUSED, "a code that cannot be one"), login.ReturnURL)
	case login.RedirectURL != s.cfg.OAuthApps.Callback():
		return pageOf(loginNotFound(), "")
	}
	done, err := svc.completeLogin(ctx, login, code)
	if err != nil {
		return s.failedPage(ctx, err, login.ReturnURL)
	}
	s.log.InfoContext(ctx, "an account was connected", "request_id", requestID(ctx), "project", login.Project,
		"connection", done.GetConnection().GetConnectionId(), "created", done.GetCreated())
	if to := returnTo(login, done.GetConnection().GetConnectionId()); to != "" {
		return http.StatusSeeOther, page{}, to
	}
	return http.StatusOK, page{Title: "Connected", Text: "The account is connected. You can close this window."}, ""
}

// errorForm is that of the error codes of RFC 6749, section 4.1.2.1.
var errorForm = regexp.MustCompile(`^[a-z][a-z_]{0,63}$`)

// notLetIn is the page for a platform's error that is no person's word.
func (s *Server) notLetIn(ctx context.Context, login store.Login, said string) (int, page, string) {
	if !errorForm.MatchString(said) {
		said = "not readable"
	}
	s.log.WarnContext(ctx, "a platform did not begin a login", "request_id", requestID(ctx), "app", login.App, "error", said)
	p := page{Title: "Not connected", Back: login.ReturnURL}
	if said == "server_error" || said == "temporarily_unavailable" {
		p.Text = "The platform cannot log anybody in at the moment. The account was not connected. Go back and log in again later."
		return http.StatusBadGateway, p, ""
	}
	p.Text = "The platform does not let this service ask for access, so the account was not connected. Those who run the service have to put that right."
	return http.StatusBadGateway, p, ""
}

// returnTo is where a browser goes on to, with what was connected.
func returnTo(login store.Login, connection string) string {
	u, err := url.Parse(login.ReturnURL)
	if err != nil || login.ReturnURL == "" {
		return ""
	}
	q := u.Query()
	q.Set("connection_id", connection)
	u.RawQuery = q.Encode()
	return u.String()
}

// failedPage is the page for an error. What a client may not read, a person may not.
func (s *Server) failedPage(ctx context.Context, err error, back string) (int, page, string) {
	known := new(fault)
	if errors.As(err, &known) {
		return pageOf(known, back)
	}
	wire, hidden := toWire(err, requestID(ctx))
	if hidden != nil {
		s.log.ErrorContext(ctx, "a login failed", "request_id", requestID(ctx), "err", hidden)
	}
	s.log.WarnContext(ctx, "a login failed", "request_id", requestID(ctx), "code", wire.Code().String())
	return http.StatusServiceUnavailable, page{
		Title: "Not connected", Back: back,
		Text: "Something went wrong on this side, and the account was not connected. Go back and log in again.",
	}, ""
}

// pageOf is the page for a fault.
func pageOf(f *fault, back string) (int, page, string) {
	status, text := http.StatusBadRequest, "The account was not connected. Go back and log in again."
	switch f.reason {
	case fireoncev1.ErrorReason_ERROR_REASON_OAUTH_LOGIN_NOT_FOUND:
		status, text = http.StatusNotFound, "This login has ended already, or took too long. If the account is not connected, go back and log in again."
	case fireoncev1.ErrorReason_ERROR_REASON_OAUTH_REFUSED:
		text = "The login was declined, or is no longer valid. The account was not connected. To connect it, go back, log in again and allow access."
	case fireoncev1.ErrorReason_ERROR_REASON_IDENTITY_MISMATCH:
		status = http.StatusConflict
		text = "You have logged in as another account than the one that is connected here. Log out at the platform, go back, and log in again as that account. Or connect this account as a new one."
	case fireoncev1.ErrorReason_ERROR_REASON_OAUTH_UNFINISHED:
		status = http.StatusBadGateway
		text = "The platform did not answer as expected, and the account was not connected. A login can be used only once: go back and log in again."
	default:
	}
	return status, page{Title: "Not connected", Text: text, Back: back}, ""
}
