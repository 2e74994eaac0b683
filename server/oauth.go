package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/oauth"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - who has a login's state ends it: nobody keeps the state, and the login is gone
//     from the store before its code is used;
//   - a code is used once, and its exchange goes on when the client has gone;
//   - code, tokens and verifier are in no error and no log.

// StartOAuth implements the RPC.
func (s *connectionService) StartOAuth(ctx context.Context, req *fireoncev1.StartOAuthRequest) (*fireoncev1.StartOAuthResponse, error) {
	if err := noUnknown(req); err != nil {
		return nil, err
	}
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
	if to := req.GetReturnUrl(); to != "" && (!s.cfg.OAuthApps.MayReturn(to) || redirect != s.cfg.OAuthApps.Callback()) {
		return nil, redirectRefused("return_url", to)
	}
	state, err := oauth.NewState()
	if err != nil {
		return nil, err
	}
	verifier := oauth.NewVerifier()
	if err := s.keepLogin(ctx, req, state, verifier, redirect); err != nil {
		return nil, err
	}
	to, err := app.LoginURL(redirect, state, verifier)
	if err != nil {
		return nil, err
	}
	return &fireoncev1.StartOAuthResponse{
		AuthorizationUrl: to, State: state, ExpireTime: timeToWire(s.cfg.Now().Add(oauth.LoginTime)),
	}, nil
}

// loginTarget checks what a login is for, and gives the connector and its settings.
func (s *connectionService) loginTarget(ctx context.Context, req *fireoncev1.StartOAuthRequest) (name string, settings []byte, err error) {
	if create := req.GetCreate(); create != nil {
		return s.newLoginTarget(create)
	}
	id, err := idFromWire("connection_id", req.GetConnectionId())
	if err != nil {
		return "", nil, err
	}
	conn, err := s.store.Connection(ctx, callerOf(ctx).project, id)
	if err != nil {
		return "", nil, notFoundAs(fmt.Errorf("read the connection: %w", err), connectionNotFound(id))
	}
	if !conn.Deleted.IsZero() {
		return "", nil, disabled(&conn, "was deleted")
	}
	_, err = s.codeOf(conn)
	return conn.Connector, conn.Settings, err
}

// newLoginTarget finds what is wrong with a connection before a person logs in for it.
func (s *connectionService) newLoginTarget(create *fireoncev1.CreateConnectionRequest) (string, []byte, error) {
	if err := errors.Join(noUnknown(create), notReserved(create.GetIdempotencyKey())); err != nil {
		return "", nil, err
	}
	c := create.GetConnection()
	if _, err := connectionPrint(c); err != nil {
		return "", nil, err
	}
	if create.GetCredential() != nil {
		return "", nil, badField("create.credential", "comes of the login")
	}
	code, known := s.cfg.Connectors.Get(c.GetConnector())
	if !known {
		return "", nil, connectorUnknown(c.GetConnector(), s.cfg.Connectors.Names())
	}
	settings, err := settingsFromWire(c)
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
	list := "there is none"
	if len(usable) > 0 {
		list = "there are: " + strings.Join(usable, ", ")
	}
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_APP_UNKNOWN,
		fmt.Sprintf("this server has no OAuth app %q for this connection of connector %q; of that connector %s", name, connector, list),
		"app", name, "connector", connector, "apps", strings.Join(usable, ","))
}

func redirectRefused(field, to string) *fault {
	if to == "" {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_REDIRECT_NOT_ALLOWED,
			field+" must be set: this server has no callback page of its own", "field", field)
	}
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_REDIRECT_NOT_ALLOWED,
		field+": the operator does not allow this URL here", "field", field)
}

// loginPlace is where a login's verifier is sealed for. No connection has version 0.
func loginPlace(project string, mark []byte) vault.Place {
	at := vault.Place{Project: project}
	copy(at.Connection[:], mark)
	return at
}

func (s *connectionService) keepLogin(ctx context.Context, req *fireoncev1.StartOAuthRequest, state, verifier, redirect string) error {
	who, mark := callerOf(ctx), oauth.Mark(state)
	target, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return fmt.Errorf("encode the login: %w", err)
	}
	sealed, err := s.cfg.Vault.Seal([]byte(verifier), loginPlace(who.project, mark))
	if err != nil {
		return fmt.Errorf("seal the verifier: %w", err)
	}
	if err := s.store.StartLogin(ctx, store.Login{
		State: mark, Project: who.project, Actor: who.actor, App: req.GetApp(), Target: target, KeyID: s.cfg.Vault.KeyID(),
		Sealed: sealed, RedirectURL: redirect, ReturnURL: req.GetReturnUrl(),
		Most: s.quotas.limit(who.project, QuotaLogins),
	}, oauth.LoginTime); err != nil {
		err = s.quotaFault(err, who.project, QuotaLogins)
		return fmt.Errorf("store the login: %w", err)
	}
	return nil
}

// CompleteOAuth implements the RPC.
func (s *connectionService) CompleteOAuth(ctx context.Context, req *fireoncev1.CompleteOAuthRequest) (*fireoncev1.CompleteOAuthResponse, error) {
	login, err := s.takeLogin(ctx, callerOf(ctx).project, req.GetState())
	if err != nil {
		return nil, err
	}
	return s.completeLogin(ctx, login, req.GetCode())
}

func loginNotFound() *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_LOGIN_NOT_FOUND,
		"no such login: it has ended, took more than 10 minutes, or never began; log in again")
}

// takeLogin gives a login to whoever has its state, once. An empty project is any.
func (s *connectionService) takeLogin(ctx context.Context, project, state string) (store.Login, error) {
	login, err := s.store.TakeLogin(ctx, project, oauth.Mark(state))
	switch {
	case errors.Is(err, store.ErrUnconfirmed):
		return login, unfinished("the login may have been ended by this call; log in again")
	case err != nil:
		return login, notFoundAs(fmt.Errorf("read the login: %w", err), loginNotFound())
	}
	return login, nil
}

func unfinished(msg string) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_OAUTH_UNFINISHED, msg)
}

// completeLogin makes of a code what the login is for.
func (s *connectionService) completeLogin(ctx context.Context, login store.Login, code string) (*fireoncev1.CompleteOAuthResponse, error) {
	// The login is gone: nobody can come again with this code.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Limits.MaxDeadline)
	defer cancel()
	who := callerOf(ctx) // nobody, where a browser comes back to the callback page
	who.project, who.actor = login.Project, login.Actor
	ctx = context.WithValue(ctx, keyCaller, who)
	var req fireoncev1.StartOAuthRequest
	if err := proto.Unmarshal(login.Target, &req); err != nil {
		return nil, fmt.Errorf("read the login: %w", err)
	}
	name, settings, err := s.loginTarget(ctx, &req)
	if err != nil {
		return nil, err
	}
	app, known := s.cfg.OAuthApps.Find(login.App, name)
	if !known || !app.Serves(settings) {
		return nil, s.appUnknown(login.App, name)
	}
	verifier, err := s.cfg.Vault.Open(login.Sealed, login.KeyID, loginPlace(login.Project, login.State))
	if err != nil {
		s.log.ErrorContext(ctx, "a login's verifier cannot be opened; is the key file the right one?", "err", err)
		return nil, unfinished("this server cannot open the login; log in again")
	}
	token, err := s.cfg.OAuthClient.Exchange(ctx, app, code, string(verifier), login.RedirectURL)
	if err != nil {
		return nil, s.exchangeFault(ctx, app, err)
	}
	return s.useToken(ctx, &req, token.Credential(app))
}

// exchangeFault says what came of a code that gave no tokens.
func (s *connectionService) exchangeFault(ctx context.Context, app oauth.App, err error) error {
	s.log.WarnContext(ctx, "a login gave no tokens", "app", app.Name, "err", err)
	name := oauth.PlatformName(app.Connector)
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

// useToken stores a credential where the login wanted it.
func (s *connectionService) useToken(ctx context.Context, req *fireoncev1.StartOAuthRequest, cred *fireoncev1.Credential) (*fireoncev1.CompleteOAuthResponse, error) {
	id := req.GetConnectionId()
	if create := req.GetCreate(); create != nil {
		create.Credential = cred
		made, err := s.CreateConnection(ctx, create)
		if err != nil {
			return nil, err
		}
		id = made.GetConnection().GetConnectionId()
		if made.GetCreated() {
			return &fireoncev1.CompleteOAuthResponse{Connection: s.learned(ctx, made.GetConnection()), Created: true}, nil
		}
	}
	rotated, err := s.RotateCredential(ctx, &fireoncev1.RotateCredentialRequest{ConnectionId: id, Credential: cred})
	if err != nil {
		return nil, err
	}
	return &fireoncev1.CompleteOAuthResponse{Connection: rotated.GetConnection()}, nil
}

// learned asks the platform whose account a new connection is, where it tells, so that
// nobody else's takes its place later. If that fails, it is learned another time.
func (s *connectionService) learned(ctx context.Context, made *fireoncev1.Connection) *fireoncev1.Connection {
	id := made.GetConnectionId()
	if _, err := s.TestConnection(ctx, &fireoncev1.TestConnectionRequest{ConnectionId: id}); err != nil {
		return made
	}
	now, err := s.GetConnection(ctx, &fireoncev1.GetConnectionRequest{ConnectionId: id})
	if err != nil {
		return made
	}
	return now.GetConnection()
}

// freshened gives a connection's credential, renewed if it has ended, or why that is
// not possible.
func (s *Server) freshened(
	ctx context.Context, conn store.Connection, cred connector.Credential,
) (connector.Credential, *fireoncev1.TestConnectionResponse) {
	if s.cfg.Refresher == nil {
		return cred, nil
	}
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	fresh, err := s.cfg.Refresher.Fresh(ctx, conn, cred)
	if err != nil {
		kind, words := failureOf(err)
		return cred, failedTest(kind, words, answered(kind))
	}
	return fresh, nil
}
