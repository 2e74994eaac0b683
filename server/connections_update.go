package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

// UpdateConnection implements the RPC.
func (s *connectionService) UpdateConnection(ctx context.Context, req *connectionsv1.UpdateConnectionRequest) (*connectionsv1.UpdateConnectionResponse, error) {
	out, err := s.change(ctx, connectionChange{
		of: req, etag: req.GetEtag(),
		inPlace: func(_ context.Context, conn store.Connection) (bool, error) {
			if !conn.Deleted.IsZero() {
				return false, nil
			}
			c, err := connectionUpdate(req, conn)
			return err == nil && c.None(), nil
		},
		change: func(ctx context.Context, conn store.Connection) (store.ConnectionChange, error) {
			c, err := connectionUpdate(req, conn)
			if err != nil || c.Target == nil {
				return c, err
			}
			c.Seal, err = s.checkTarget(ctx, conn, c.Target)
			return c, err
		},
	})
	return &connectionsv1.UpdateConnectionResponse{Connection: out}, err
}

// connectionUpdate returns the change from a connection to what a request wants.
func connectionUpdate(req *connectionsv1.UpdateConnectionRequest, conn store.Connection) (store.ConnectionChange, error) {
	var c store.ConnectionChange
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "display_name":
			if name := req.GetDisplayName(); name != conn.DisplayName {
				c.DisplayName = &name
			}
		case "labels":
			if !maps.Equal(req.GetLabels(), conn.Labels) {
				c.Labels = map[string]string{}
				maps.Copy(c.Labels, req.GetLabels())
			}
		case "limits":
			limits := limitsFromWire(req.GetLimits())
			if limits != (store.ConnectionLimits{MaxInFlight: conn.MaxInFlight, MaxPerMinute: conn.MaxPerMinute, CoolDown: conn.CoolDown}) {
				c.Limits = &limits
			}
		case "retry_policy":
			if retry := submit.Retry(req.GetRetryPolicy()); !retry.Equal(conn.Retry) {
				c.Retry = &retry
			}
		default:
			settings, err := newSettings(req, path, conn.Connector)
			if err != nil {
				return c, err
			}
			if !bytes.Equal(settings, conn.Settings) {
				c.Target = &store.ConnectionTarget{Settings: settings}
			}
		}
	}
	return c, nil
}

// newSettings returns the settings that a mask names, encoded. They must be of the connector's
// kind.
func newSettings(req *connectionsv1.UpdateConnectionRequest, path, connectorName string) ([]byte, error) {
	if want := settingsFor(connectorName).Name(); path != string(want) {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID,
			fmt.Sprintf("%s is not of connector %q, which takes %s", path, connectorName, want),
			"field", path, "connector", connectorName)
	}
	m := req.ProtoReflect()
	field := m.Descriptor().Fields().ByName(protoreflect.Name(path))
	return proto.MarshalOptions{Deterministic: true}.Marshal(m.Get(field).Message().Interface())
}

// checkTarget has the connector check new settings, with the credential that there is, and adds
// the class and the key window of the target. It returns the credential's new seal, or nil where
// there is no credential. A caller that may change settings cannot read the credential, so it
// cannot have it sent to a server of its own either. The outcomes of the connection's jobs are
// looked up where they were sent.
func (s *connectionService) checkTarget(ctx context.Context, conn store.Connection, to *store.ConnectionTarget) (*store.Seal, error) {
	code, err := s.codeOf(conn)
	if err != nil {
		return nil, err
	}
	if conn.CredentialVersion != 0 && namesNewDestination(conn.Connector, conn.Settings, to.Settings) {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID,
			"these settings name another server, which would get the credential that was given for the present one; "+
				"make a new connection for it", "connection_id", conn.ID.String())
	}
	cred, err := s.credentialOf(ctx, conn)
	if err != nil {
		return nil, err
	}
	capability, err := code.Check(to.Settings, cred)
	if err != nil {
		return nil, fmt.Errorf("check the connection: %w", err)
	}
	if _, err := s.checkAccount(ctx, code, conn, to.Settings, cred); err != nil {
		if f, ok := errors.AsType[*fault](err); ok && f.reason == fireoncev1.ErrorReason_ERROR_REASON_IDENTITY_MISMATCH {
			return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID,
				"with these settings the connection would be another account; make a new connection for that one",
				"connection_id", conn.ID.String())
		}
		return nil, err
	}
	to.Class, to.KeyWindow = capability.Class, capability.KeyWindow
	if conn.CredentialVersion == 0 {
		return nil, nil
	}
	conn.Settings = to.Settings
	return seal.Again(s.cfg.Vault, conn, cred.Data)
}
