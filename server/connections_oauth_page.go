package server

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"regexp"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a page is for a person's browser, which may come from a hostile
// place. It has no script, loads nothing, and shows nothing that came with the request.

// page is a page for a person.
type page struct {
	status      int
	Title, Text string
	// Ask, when set, is the question that the person confirms.
	Ask *question
}

// question is confirmed by a person before an account is connected.
type question struct {
	// Project will be able to use the account; Platform is where it is.
	Project, Platform string
	// Name is what the project calls the connection; empty: nothing.
	Name string
	// Account is the one that the connection is known to be; empty: a new connection, or
	// one whose account is not known.
	Account string
	// Token proves that the form came from this page.
	Token string
}

// The fields of the form, and the labels of its buttons.
const (
	fieldToken   = "token"
	fieldMine    = "mine"
	fieldAnswer  = "answer"
	answerYes    = "connect"
	confirmedOwn = "yes"
)

var pageText = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
</head>
<body>
<h1>{{.Title}}</h1>
{{with .Ask}}<p>Project <strong>{{.Project}}</strong> of this Fireonce will be able to act as the {{.Platform}} account that you have just logged in with: it can post, and read what the access that you allowed lets it read, until you take that access back at {{.Platform}}.</p>
{{if .Name}}<p>The project calls the connection <strong>{{.Name}}</strong>.</p>
{{end}}{{if .Account}}<p>The connection is known to be the account <strong>{{.Account}}</strong>. Another account will be refused.</p>
{{end}}<p>Only go on if you began this yourself, or were asked to by somebody whom you know. If you did not expect this page, somebody may want to use your account: choose “Do not connect”.</p>
<form method="post">
<input type="hidden" name="token" value="{{.Token}}">
<p><label><input type="checkbox" name="mine" value="yes" required> I know who asked for this, and I want project {{.Project}} to use my account.</label></p>
<p><button name="answer" value="connect">Connect the account</button>
<button name="answer" value="no" formnovalidate>Do not connect</button></p>
</form>
{{else}}<p>{{.Text}}</p>
{{end}}</body>
</html>
`))

// show writes a page. A form on it can be sent to this server only.
func (p *page) show(w http.ResponseWriter) {
	forms := "'none'"
	if p.Ask != nil {
		forms = "'self'"
	}
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action "+forms+"; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(p.status)
	_ = pageText.Execute(w, p) // a browser that has gone reads nothing
}

// askPage asks a person whether to connect the account that they have logged in with.
func (s *connectionService) askPage(ctx context.Context, login *openLogin, token string) *page {
	q := &question{Project: login.Project, Platform: s.cfg.OAuthApps.Title(login.app.Connector), Token: token}
	if create := login.req.GetCreate(); create != nil {
		q.Name = create.GetConnection().GetDisplayName()
	} else {
		conn, err := s.usableConnection(asStarter(ctx, login), login.req)
		if err != nil {
			return s.failedPage(ctx, err)
		}
		q.Name, q.Account = conn.DisplayName, text(conn.AccountIdentity)
	}
	return &page{status: http.StatusOK, Title: "Connect this account?", Ask: q}
}

// notConnected is a page after a login that has connected nothing.
func notConnected(status int, words string) *page {
	return &page{status: status, Title: "Not connected", Text: words}
}

// The words of pages.
const (
	wordsConnected = "The account is connected. You can close this window."
	wordsNotWanted = "Nothing was stored, and the login has ended. If you allowed the access by mistake, " +
		"take it back in your account's settings at the platform."
	wordsOtherBrowser = "This login was not begun in this browser, or the browser keeps no cookies for this site. " +
		"Nothing was connected. If you want to connect an account, open the link that you were given, " +
		"in one browser from begin to end."
	wordsMismatch = "What came back does not belong to this login, so it was used for nothing, " +
		"and the account was not connected. Begin again."
	wordsBusy = "The platform cannot log anybody in at the moment. The account was not connected. Begin again later."
	wordsShut = "The platform does not let this service ask for access, so the account was not connected. " +
		"Those who run the service have to put that right."
	wordsFailed = "Something went wrong on this side, and the account was not connected. Begin again."
)

// otherBrowserPage is for a browser that did not begin the login.
func otherBrowserPage() *page { return notConnected(http.StatusForbidden, wordsOtherBrowser) }

// errorForm is that of the error codes of RFC 6749, section 4.1.2.1.
var errorForm = regexp.MustCompile(`^[a-z][a-z_]{0,63}$`)

// readable returns a platform's error code, or words for one that is none.
func readable(code string) string {
	if !errorForm.MatchString(code) {
		return "not readable"
	}
	return code
}

// notLetInPage is for a platform's error that is no person's word.
func (s *connectionService) notLetInPage(ctx context.Context, login store.Login, said string) *page {
	said = readable(said)
	s.log.WarnContext(ctx, "a platform did not begin a login", "request_id", requestID(ctx), "app", login.App, "error", said)
	if said == "server_error" || said == "temporarily_unavailable" {
		return notConnected(http.StatusBadGateway, wordsBusy)
	}
	return notConnected(http.StatusBadGateway, wordsShut)
}

// failedPage is for an error. What a client may not read, a person may not.
func (s *connectionService) failedPage(ctx context.Context, err error) *page {
	if known, ok := errors.AsType[*fault](err); ok {
		return faultPage(known)
	}
	wire, hidden := toWire(err, requestID(ctx))
	if hidden != nil {
		s.log.ErrorContext(ctx, "a login failed", "request_id", requestID(ctx), "err", hidden)
	}
	s.log.WarnContext(ctx, "a login failed", "request_id", requestID(ctx), "code", wire.Code().String())
	return notConnected(http.StatusServiceUnavailable, wordsFailed)
}

func faultPage(f *fault) *page {
	switch f.reason {
	case fireoncev1.ErrorReason_ERROR_REASON_OAUTH_LOGIN_NOT_FOUND:
		return notConnected(http.StatusNotFound,
			"This login has ended already, or took too long. If the account is not connected, begin again.")
	case fireoncev1.ErrorReason_ERROR_REASON_OAUTH_REFUSED:
		return notConnected(http.StatusBadRequest, "The login was declined, or is no longer valid. "+
			"The account was not connected. To connect it, begin again and allow access.")
	case fireoncev1.ErrorReason_ERROR_REASON_OAUTH_MISMATCH:
		return notConnected(http.StatusBadRequest, wordsMismatch)
	case fireoncev1.ErrorReason_ERROR_REASON_IDENTITY_MISMATCH:
		return notConnected(http.StatusConflict, "You have logged in as another account than the one that is connected here. "+
			"Log out at the platform, begin again, and log in as that account. Or connect this account as a new one.")
	case fireoncev1.ErrorReason_ERROR_REASON_OAUTH_UNFINISHED:
		return notConnected(http.StatusBadGateway, "The platform did not answer as expected, and the account was not connected. "+
			"A login can be used only once: begin again.")
	default:
		return notConnected(http.StatusBadRequest, "The account was not connected. Begin again.")
	}
}
