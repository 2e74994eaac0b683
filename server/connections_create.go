package server

import (
	"cmp"
	"context"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

// connectionService answers fireonce.connections.v1.ConnectionService.
type connectionService struct {
	connectionsv1connect.UnimplementedConnectionServiceHandler
	*Server
}

// firstCredential is the version of the credential that a connection is created with.
const firstCredential = 1

// CreateConnection implements the RPC.
func (s *connectionService) CreateConnection(ctx context.Context, req *connectionsv1.CreateConnectionRequest) (*connectionsv1.CreateConnectionResponse, error) {
	return s.createConnection(ctx, req, nil)
}

// createConnection stores a connection. learn, if it is not nil, names the account that a
// connection belongs to, before it is stored, so that no read sees it without its account.
func (s *connectionService) createConnection(
	ctx context.Context, req *connectionsv1.CreateConnectionRequest, learn func(connector.Connector, connector.Opening) string,
) (*connectionsv1.CreateConnectionResponse, error) {
	if err := notReserved(req.GetIdempotencyKey(), ""); err != nil {
		return nil, err
	}
	want, err := connectionPrint(req.GetConnection(), "connection")
	if err != nil {
		return nil, err
	}
	conn, sealed, err := s.newConnection(callerOf(ctx).project, req, learn)
	if err != nil {
		return nil, err
	}
	conn.CreatedBy = callerOf(ctx).actor
	stored, created, err := s.store.CreateConnection(ctx, store.NewConnection{
		Connection: conn, Key: req.GetIdempotencyKey(), Fingerprint: want, Sealed: sealed,
		Most: s.quotas.limit(conn.Project, QuotaConnections),
	})
	if err := s.quotaFault(err, conn.Project, QuotaConnections); err != nil {
		return nil, fmt.Errorf("store the connection: %w", err)
	}
	if differ := connectionDiff(req.GetConnection(), want, stored.Fingerprint); !created && len(differ) > 0 {
		return nil, keyReused(&fireoncev1.IdempotencyConflict{
			Holder: &fireoncev1.IdempotencyConflict_ConnectionId{ConnectionId: idToWire(stored.ID)}, MismatchedFields: differ,
		})
	}
	if created {
		s.logConnectionChange(ctx, "a connection was created", stored)
	}
	out, err := s.changedWire(ctx, stored)
	return &connectionsv1.CreateConnectionResponse{Connection: out, Created: created}, err
}

// newConnection checks a connection to be created, and seals its credential.
func (s *connectionService) newConnection(
	project string, req *connectionsv1.CreateConnectionRequest, learn func(connector.Connector, connector.Opening) string,
) (store.Connection, *store.Sealed, error) {
	var none store.Connection
	c := req.GetConnection()
	code, known := s.cfg.Connectors.Get(c.GetConnector())
	if !known {
		return none, nil, connectorUnknown(c.GetConnector(), s.cfg.Connectors.Names())
	}
	settings, err := settingsFromWire(c, "connection")
	if err != nil {
		return none, nil, err
	}
	secret, expires, err := credentialFromWire(req.GetCredential())
	if err != nil {
		return none, nil, err
	}
	cred := connector.Credential{Data: secret}
	if secret != nil {
		cred.Version = firstCredential
	}
	capability, err := code.Check(settings, cred)
	if err != nil {
		return none, nil, fmt.Errorf("check the connection: %w", err)
	}
	limits := limitsFromWire(c.GetLimits())
	conn := store.Connection{
		ID: s.cfg.NewID(), Project: project, Connector: c.GetConnector(), DisplayName: c.GetDisplayName(),
		Settings: settings, Class: capability.Class, KeyWindow: capability.KeyWindow,
		Labels: c.GetLabels(), AccountIdentity: capability.Identity, MaxInFlight: limits.MaxInFlight,
		MaxPerMinute: limits.MaxPerMinute, CoolDown: limits.CoolDown, Retry: submit.Retry(c.GetRetryPolicy()), CredentialVersion: cred.Version,
	}
	if learn != nil {
		conn.AccountIdentity = cmp.Or(learn(code, testOpening(conn, settings, capability.Class, cred)), conn.AccountIdentity)
	}
	if secret == nil {
		return conn, nil, nil
	}
	sealed, err := seal.Credential(s.cfg.Vault, conn, firstCredential, secret)
	if err != nil {
		return none, nil, err
	}
	sealed.Expires, sealed.Renews = expires, renews(req.GetCredential())
	conn.CredentialFingerprint, conn.CredentialExpires, conn.CredentialRenews = sealed.Fingerprint, expires, sealed.Renews
	return conn, sealed, nil
}
