package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/oauth"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - a login ends at one place: at CompleteOAuth, which only the project that began it can
//     call, or at this server's own page (connections_oauth_page.go);
//   - a state ends one login: no state is kept, and the login is deleted from the store before
//     its code is used;
//   - a code is used once, and its exchange goes on when the client has gone;
//   - code, tokens and verifier are in no error and no log.

// StartOAuth implements the RPC.
func (s *connectionService) StartOAuth(ctx context.Context, req *connectionsv1.StartOAuthRequest) (*connectionsv1.StartOAuthResponse, error) {
	name, settings, err := s.loginTarget(ctx, req)
	if err != nil {
		return nil, err
	}
	app, known := s.cfg.OAuthApps.Find(req.GetApp(), name)
	if !known || !app.Serves(settings) {
		return nil, s.appUnknown(req.GetApp(), name)
	}
	redirect, allowed := s.cfg.OAuthApps.Redirect(app, req.GetRedirectUrl())
	if !allowed {
		return nil, redirectRefused("redirect_url", req.GetRedirectUrl())
	}
	if to := req.GetReturnUrl(); to != "" && (!s.cfg.OAuthApps.MayReturn(to) || req.GetRedirectUrl() != "") {
		return nil, redirectRefused("return_url", to)
	}
	ticket, err := oauth.NewTicket()
	if err != nil {
		return nil, err
	}
	state, verifier := oauth.StateOf(ticket), oauth.NewVerifier()
	if err := s.keepLogin(ctx, req, state, verifier, redirect); err != nil {
		return nil, err
	}
	out := &connectionsv1.StartOAuthResponse{ExpireTime: timeToWire(s.cfg.Now().Add(oauth.LoginTime))}
	if endsHere(req) {
		out.AuthorizationUrl = s.cfg.OAuthApps.StartURL(ticket)
		return out, nil
	}
	out.State = state
	out.AuthorizationUrl, err = app.LoginURL(redirect, state, verifier)
	return out, err
}

// endsHere reports whether a login ends at this server's own page.
func endsHere(req *connectionsv1.StartOAuthRequest) bool {
	return req.GetRedirectUrl() == "" && req.GetReturnUrl() == ""
}

// loginTarget checks what a login is for, and returns the connector and its settings.
func (s *connectionService) loginTarget(ctx context.Context, req *connectionsv1.StartOAuthRequest) (name string, settings []byte, err error) {
	if create := req.GetCreate(); create != nil {
		return s.newLoginTarget(create)
	}
	conn, err := s.usableConnection(ctx, req)
	if err != nil {
		return "", nil, err
	}
	_, err = s.codeOf(conn)
	return conn.Connector, conn.Settings, err
}

// newLoginTarget finds what is wrong with a connection before a person logs in for it.
func (s *connectionService) newLoginTarget(create *connectionsv1.CreateConnectionRequest) (string, []byte, error) {
	const at = "create"
	if err := errors.Join(noUnknownAt(at, create), notReserved(create.GetIdempotencyKey(), at)); err != nil {
		return "", nil, err
	}
	c := create.GetConnection()
	if _, err := connectionPrint(c, under(at, "connection")); err != nil {
		return "", nil, err
	}
	if create.GetCredential() != nil {
		return "", nil, badField(under(at, "credential"), "oauth.credential", "comes of the login")
	}
	code, known := s.cfg.Connectors.Get(c.GetConnector())
	if !known {
		return "", nil, connectorUnknown(c.GetConnector(), s.cfg.Connectors.Names())
	}
	settings, err := settingsFromWire(c, under(at, "connection"))
	if err != nil {
		return "", nil, err
	}
	// There is no credential yet: only the settings are judged.
	_, err = code.Check(settings, connector.Credential{})
	if wrong := new(connector.InputError); errors.As(err, &wrong) && wrong.Reason == connector.BadSettings {
		return "", nil, fmt.Errorf("check the connection: %w", err)
	}
	return c.GetConnector(), settings, nil
}

func (s *connectionService) appUnknown(name, connector string) *fault {
	var usable []string
	for _, other := range s.cfg.OAuthApps.Names() {
		if _, fits := s.cfg.OAuthApps.Find(other, connector); fits {
			usable = append(usable, other)
		}
	}
	slices.Sort(usable)
	list := "it has none, its operator starts fireonce serve with --oauth-apps"
	if len(usable) > 0 {
		list = "it has " + strings.Join(usable, ", ")
	}
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_APP_UNKNOWN,
		fmt.Sprintf("this server has no OAuth app %q for connector %q: %s", name, connector, list),
		"oauth_app", name, "connector", connector, "oauth_apps", strings.Join(usable, ","))
}

func redirectRefused(field, to string) *fault {
	if to == "" {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_REDIRECT_NOT_ALLOWED,
			field+" must be set: this server has no callback page of its own", "field", field)
	}
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_REDIRECT_NOT_ALLOWED,
		field+": the operator does not allow this URL here", "field", field)
}

func (s *connectionService) keepLogin(ctx context.Context, req *connectionsv1.StartOAuthRequest, state, verifier, redirect string) error {
	who, mark := callerOf(ctx), oauth.Mark(state)
	target, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode the login: %w", err)
	}
	login := store.Login{
		State: mark, Project: who.project, Actor: who.actor, App: req.GetApp(), Target: target, KeyID: s.cfg.Vault.KeyID(),
		RedirectURL: redirect, ReturnURL: req.GetReturnUrl(),
	}
	if login.Sealed, err = s.cfg.Vault.Seal([]byte(verifier), seal.Login(login)); err != nil {
		return fmt.Errorf("seal the verifier: %w", err)
	}
	login.Most = s.quotas.limit(who.project, QuotaLogins)
	if err := s.store.StartLogin(ctx, login, oauth.LoginTime); err != nil {
		err = s.quotaFault(err, who.project, QuotaLogins)
		return fmt.Errorf("store the login: %w", err)
	}
	return nil
}

// CompleteOAuth implements the RPC.
func (s *connectionService) CompleteOAuth(ctx context.Context, req *connectionsv1.CompleteOAuthRequest) (*connectionsv1.CompleteOAuthResponse, error) {
	project := callerOf(ctx).project
	open, err := s.readLogin(ctx, req.GetState())
	switch {
	case err != nil:
		return nil, err
	case open.Project != project || endsHere(open.req):
		return nil, loginNotFound()
	case open.req.GetRedirectUrl() == "" && req.GetRedirectUrl() != "":
		return nil, badField("redirect_url", "oauth.redirect_url", "goes with a login that was begun with redirect_url")
	case open.req.GetRedirectUrl() != "" && req.GetRedirectUrl() == "":
		return nil, badField("redirect_url", "oauth.redirect_url", "must say where the browser came back, because the login was begun with redirect_url")
	}
	if err := s.takeLogin(ctx, project, req.GetState()); err != nil {
		return nil, err
	}
	if req.GetRedirectUrl() != open.req.GetRedirectUrl() {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_MISMATCH,
			"the code came to another redirect URL than the login's, so it may be of another platform; it was sent nowhere, log in again")
	}
	if err := s.checkIssuer(ctx, open.app, req.GetIssuer()); err != nil {
		return nil, err
	}
	return s.completeLogin(ctx, open, req.GetCode())
}

// checkIssuer judges the issuer that came with a code.
func (s *connectionService) checkIssuer(ctx context.Context, app oauth.App, iss string) error {
	err := app.CheckIssuer(iss)
	if err == nil {
		return nil
	}
	s.log.WarnContext(ctx, "a code came from another issuer; it was sent nowhere", "request_id", requestID(ctx), "app", app.Name, "err", err)
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_MISMATCH,
		"the code came from another issuer than the login's, or from one that did not say who it is; it was sent nowhere, log in again")
}

func loginNotFound() *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_LOGIN_NOT_FOUND,
		"no such login: it has ended, took more than 10 minutes, or never began; log in again")
}

// openLogin is a login under way, and everything that was sealed with it.
type openLogin struct {
	store.Login
	req      *connectionsv1.StartOAuthRequest
	app      oauth.App
	verifier string
}

// readLogin opens the login of a state, and leaves it open. What was stored of it is as
// this server stored it, or it fails.
func (s *connectionService) readLogin(ctx context.Context, state string) (*openLogin, error) {
	login, err := s.store.ReadLogin(ctx, oauth.Mark(state))
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("read the login: %w", err), loginNotFound())
	}
	verifier, err := s.cfg.Vault.Open(login.Sealed, login.KeyID, seal.Login(login))
	if err != nil {
		s.log.ErrorContext(ctx, "a login cannot be opened: a sealing key is missing, or the login was changed in the database",
			"request_id", requestID(ctx), "app", login.App, "err", err)
		return nil, unfinished("this server cannot open the login; log in again")
	}
	open := &openLogin{Login: login, req: new(connectionsv1.StartOAuthRequest), verifier: string(verifier)}
	if err := proto.Unmarshal(login.Target, open.req); err != nil {
		return nil, fmt.Errorf("read the login: %w", err)
	}
	var known bool
	if open.app, known = s.cfg.OAuthApps.Named(login.App); !known {
		return nil, s.appUnknown(login.App, "")
	}
	return open, nil
}

// takeLogin ends a login: of several callers, one does. An empty project is any.
func (s *connectionService) takeLogin(ctx context.Context, project, state string) error {
	_, err := s.store.TakeLogin(ctx, project, oauth.Mark(state))
	switch {
	case errors.Is(err, store.ErrUnconfirmed):
		return unfinished("the login may have been ended by this call; log in again")
	case err != nil:
		return notFoundAs(fmt.Errorf("take the login: %w", err), loginNotFound())
	}
	return nil
}

// asStarter returns a context in which the project that began a login is the caller.
func asStarter(ctx context.Context, login *openLogin) context.Context {
	who := callerOf(ctx) // none, where a browser returns to the callback page
	who.project, who.actor = login.Project, login.Actor
	return context.WithValue(ctx, keyCaller, who)
}

func unfinished(msg string) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_UNFINISHED, msg)
}

// completeLogin exchanges a code for what the login is for. The login was taken before.
func (s *connectionService) completeLogin(ctx context.Context, login *openLogin, code string) (*connectionsv1.CompleteOAuthResponse, error) {
	// The login is gone: this code cannot come again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Limits.MaxDeadline)
	defer cancel()
	ctx = asStarter(ctx, login)
	name, settings, err := s.loginTarget(ctx, login.req)
	if err != nil {
		return nil, err
	}
	app, known := s.cfg.OAuthApps.Find(login.App, name)
	if !known || !app.Serves(settings) {
		return nil, s.appUnknown(login.App, name)
	}
	token, err := s.cfg.OAuthClient.Exchange(ctx, app, code, login.verifier, login.RedirectURL)
	if err != nil {
		return nil, s.exchangeFault(ctx, app, err)
	}
	return s.useToken(ctx, login.req, token.Credential(app))
}

// exchangeFault returns the error for a code that could not be exchanged for tokens.
func (s *connectionService) exchangeFault(ctx context.Context, app oauth.App, err error) error {
	s.log.WarnContext(ctx, "a login gave no tokens", "app", app.Name, "err", err)
	name := s.cfg.OAuthApps.Title(app.Connector)
	failed := &oauth.TokenError{Fate: oauth.Lost}
	errors.As(err, &failed)
	switch failed.Fate {
	case oauth.Refused:
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_REFUSED, name+" does not accept the login's code; log in again")
	case oauth.Misconfigured:
		return unfinished(fmt.Sprintf("%s does not accept this server's OAuth app %q; its operator has to put that right", name, app.Name))
	case oauth.Unsent, oauth.Busy:
		return unfinished(name + " could not be asked for the account's tokens; log in again")
	default:
		return unfinished(fmt.Sprintf("it is not known whether %s gave tokens: its answer was lost, and a code is good for "+
			"one use; nothing was stored, log in again", name))
	}
}

// useToken stores a credential in the connection that the login is for.
func (s *connectionService) useToken(ctx context.Context, req *connectionsv1.StartOAuthRequest, cred *connectionsv1.Credential) (*connectionsv1.CompleteOAuthResponse, error) {
	if create := req.GetCreate(); create != nil {
		create.Credential = cred
		made, err := s.createConnection(ctx, create, s.accountOf(ctx))
		if err != nil {
			return nil, ofLogin(err)
		}
		if made.GetCreated() {
			return &connectionsv1.CompleteOAuthResponse{Connection: made.GetConnection(), Created: true}, nil
		}
	}
	rotate := &connectionsv1.RotateCredentialRequest{
		Credential: cred, Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: req.GetConnectionId()},
	}
	if key := cmp.Or(req.GetCreate().GetIdempotencyKey(), req.GetIdempotencyKey()); key != "" {
		rotate.Connection = &connectionsv1.RotateCredentialRequest_IdempotencyKey{IdempotencyKey: key}
	}
	rotated, err := s.RotateCredential(ctx, rotate)
	if err != nil {
		return nil, err
	}
	return &connectionsv1.CompleteOAuthResponse{Connection: rotated.GetConnection()}, nil
}

// ofLogin renames the fields in which a login's connection differs from a stored one to the paths
// of the request that began the login.
func ofLogin(err error) error {
	f := new(fault)
	if !errors.As(err, &f) || f.conflict == nil {
		return err
	}
	c := proto.CloneOf(f.conflict)
	for i, path := range c.GetMismatchedFields() {
		c.MismatchedFields[i] = under("create", path)
	}
	return keyReused(c)
}

// accountOf asks the platform whose account a new connection is, so that no other account
// takes its place later. An empty answer means that the platform does not tell, or could
// not be asked: a later test of the connection learns it.
func (s *connectionService) accountOf(ctx context.Context) func(connector.Connector, connector.Opening) string {
	return func(code connector.Connector, o connector.Opening) string {
		found, _, err := s.callTester(ctx, code, o)
		if err != nil {
			return ""
		}
		return found.Identity
	}
}

// freshened returns a connection's credential, renewed if it has expired, or the answer that states
// why that failed.
func (s *connectionService) freshened(
	ctx context.Context, conn store.Connection, cred connector.Credential,
) (connector.Credential, *connectionsv1.TestConnectionResponse) {
	if s.cfg.Refresher == nil {
		return cred, nil
	}
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	fresh, err := s.cfg.Refresher.Fresh(ctx, conn, cred)
	if err != nil {
		kind, words := failureOf(err)
		return cred, failedTest(kind, words, isPlatformAnswer(kind))
	}
	return fresh, nil
}
