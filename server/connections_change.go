package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a connection is read, the change is decided, and it is written
// for the version that was read; if somebody came between, all again. What is in
// place already succeeds before the etag is compared, and the etag comes before every
// check, because the client judged by another state.

// amendment is what a client wants of one connection.
type amendment struct {
	of   connectionNamed
	etag string
	// inPlace tells whether a connection is as it is wanted.
	inPlace func(ctx context.Context, conn store.Connection) (bool, error)
	// change decides what is to be written.
	change func(ctx context.Context, conn store.Connection) (store.ConnectionChange, error)
}

// amend carries an amendment out.
func (s *connectionService) amend(ctx context.Context, a amendment) (*fireoncev1.Connection, error) {
	conn, err := s.amended(ctx, a)
	if err != nil {
		return nil, err
	}
	return s.connectionWire(conn)
}

func (s *connectionService) amended(ctx context.Context, a amendment) (store.Connection, error) {
	var conn store.Connection
	ref, err := connectionRef(ctx, a.of)
	if err != nil {
		return conn, err
	}
	for range maxDecisions {
		conn, err = s.store.Connection(ctx, ref)
		if err != nil {
			return conn, notFoundAs(fmt.Errorf("read the connection: %w", err), connectionNotFound(ref))
		}
		done, err := a.inPlace(ctx, conn)
		if errors.Is(err, store.ErrStale) {
			continue
		}
		if err != nil || done {
			return conn, err
		}
		if a.etag != "" && a.etag != etagOf(conn.ID, conn.Version) {
			return conn, connectionChanged(conn)
		}
		if !conn.Deleted.IsZero() {
			return conn, disabled(&conn, "was deleted")
		}
		change, err := a.change(ctx, conn)
		if errors.Is(err, store.ErrStale) {
			continue
		}
		if err != nil {
			return conn, err
		}
		after, err := s.revise(ctx, conn, change)
		if !errors.Is(err, store.ErrStale) {
			return after, err
		}
	}
	return conn, connectionChanged(conn)
}

// revise writes a change that was decided on a connection.
func (s *connectionService) revise(ctx context.Context, conn store.Connection, c store.ConnectionChange) (store.Connection, error) {
	c.Project, c.ID, c.Version, c.Actor = conn.Project, conn.ID, conn.Version, callerOf(ctx).actor
	after, err := s.store.ChangeConnection(ctx, c)
	s.lately.forget(conn.Project, conn.ID)
	switch {
	case errors.Is(err, store.ErrInUse):
		return after, refuse(fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_IN_USE,
			fmt.Sprintf("jobs that have not ended use connection %s; cancel or resolve them first", conn.ID),
			"connection_id", conn.ID.String())
	case err != nil:
		return after, notFoundAs(fmt.Errorf("change the connection: %w", err), connectionNotFound(store.Ref{ID: conn.ID}))
	}
	s.audited(ctx, "a connection was changed", after, "changed", changedParts(c))
	return after, nil
}

func connectionChanged(conn store.Connection) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH,
		fmt.Sprintf("connection %s has changed since it was read; its etag is now %s", conn.ID, etagOf(conn.ID, conn.Version)),
		"connection_id", conn.ID.String(), "etag", etagOf(conn.ID, conn.Version))
}

// when makes an amendment's inPlace of a condition.
func when(is func(store.Connection) bool) func(context.Context, store.Connection) (bool, error) {
	return func(_ context.Context, conn store.Connection) (bool, error) { return is(conn), nil }
}

// only makes an amendment's change of one that is the same for every state.
func only(c store.ConnectionChange) func(context.Context, store.Connection) (store.ConnectionChange, error) {
	return func(context.Context, store.Connection) (store.ConnectionChange, error) { return c, nil }
}

// PauseConnection implements the RPC. Of a deleted connection nothing starts anyway.
func (s *connectionService) PauseConnection(ctx context.Context, req *fireoncev1.PauseConnectionRequest) (*fireoncev1.PauseConnectionResponse, error) {
	reason := req.GetReason()
	out, err := s.amend(ctx, amendment{
		of:      req,
		inPlace: when(func(c store.Connection) bool { return !c.PausedAt.IsZero() || !c.Deleted.IsZero() }),
		change:  only(store.ConnectionChange{Pause: &reason}),
	})
	return &fireoncev1.PauseConnectionResponse{Connection: out}, err
}

// ResumeConnection implements the RPC. What was missed expires while the connection
// is still paused, so that none of it is started meanwhile. If that is cut short, the
// connection stays paused, and a repeat goes on.
func (s *connectionService) ResumeConnection(ctx context.Context, req *fireoncev1.ResumeConnectionRequest) (*fireoncev1.ResumeConnectionResponse, error) {
	out, err := s.amend(ctx, amendment{
		of:      req,
		inPlace: when(func(c store.Connection) bool { return c.PausedAt.IsZero() }),
		change: func(ctx context.Context, conn store.Connection) (store.ConnectionChange, error) {
			if req.GetExpireMissed() {
				if err := s.expireMissed(ctx, conn); err != nil {
					return store.ConnectionChange{}, err
				}
			}
			return store.ConnectionChange{Resume: true}, nil
		},
	})
	return &fireoncev1.ResumeConnectionResponse{Connection: out}, err
}

// expireMissed ends the jobs that fell due in a pause, batch by batch.
func (s *connectionService) expireMissed(ctx context.Context, conn store.Connection) error {
	for idle := 0; idle < maxDecisions; {
		missed, err := s.store.Missed(ctx, conn.Project, conn.ID, store.MaxBatch)
		if err != nil {
			return fmt.Errorf("read what was missed: %w", err)
		}
		var changes []store.Change
		for _, snap := range missed {
			d, err := job.Decide(snap.View(job.Traits{Class: snap.Class}, 0), job.Missed{Since: conn.PausedAt})
			if err != nil {
				return fmt.Errorf("decide: %w", err)
			}
			if d.Action == job.ActWrite {
				changes = append(changes, store.Change{
					Job: snap.ID, Version: snap.Version, Decision: d, Actor: callerOf(ctx).actor,
				})
			}
		}
		if len(changes) == 0 {
			return nil
		}
		applied, err := s.store.Apply(ctx, changes)
		if err != nil {
			return fmt.Errorf("write the decisions: %w", err)
		}
		for _, a := range applied {
			if a.Err == nil {
				s.cfg.Metrics.Ended(0, a.Snapshot)
			}
		}
		idle++
		if slices.ContainsFunc(applied, func(a store.Applied) bool { return a.Err == nil }) {
			idle = 0
		}
	}
	return fmt.Errorf("decided %d times: %w", maxDecisions, store.ErrStale)
}

// DeleteConnection implements the RPC.
func (s *connectionService) DeleteConnection(ctx context.Context, req *fireoncev1.DeleteConnectionRequest) (*fireoncev1.DeleteConnectionResponse, error) {
	_, err := s.amended(ctx, amendment{
		of: req, etag: req.GetEtag(),
		inPlace: when(func(c store.Connection) bool { return !c.Deleted.IsZero() }),
		change:  only(store.ConnectionChange{Delete: true}),
	})
	return &fireoncev1.DeleteConnectionResponse{}, err
}

// RotateCredential implements the RPC. The same credential again changes nothing,
// unless it is held: then whoever gives it wants it tried once more.
func (s *connectionService) RotateCredential(ctx context.Context, req *fireoncev1.RotateCredentialRequest) (*fireoncev1.RotateCredentialResponse, error) {
	if err := noUnknown(req); err != nil {
		return nil, err
	}
	secret, expires, err := credentialFromWire(req.GetCredential())
	if err != nil {
		return nil, err
	}
	out, err := s.amend(ctx, amendment{
		of: req, etag: req.GetEtag(),
		inPlace: func(ctx context.Context, conn store.Connection) (bool, error) {
			if !s.cfg.Vault.Recognizes(secret, conn.ID, conn.CredentialFingerprint) || !conn.AuthHoldAt.IsZero() {
				return false, nil
			}
			// A fingerprint is short: two credentials may have one.
			present, err := s.credentialOf(ctx, conn)
			if errors.Is(err, vault.ErrKeyID) {
				return false, nil // the old credential is lost, and the new one is here
			}
			if err != nil {
				return false, err
			}
			return bytes.Equal(present.Data, secret), nil
		},
		change: func(ctx context.Context, conn store.Connection) (store.ConnectionChange, error) {
			cred := connector.Credential{Version: conn.CredentialVersion + 1, Data: secret}
			var c store.ConnectionChange
			if err := s.sealFits(ctx, conn); err != nil {
				return c, err
			}
			code, err := s.codeOf(conn)
			if err != nil {
				return c, err
			}
			identity, err := s.sameAccount(ctx, code, conn, conn.Settings, cred)
			if err != nil {
				return c, err
			}
			if identity != conn.AccountIdentity {
				c.Identity = &identity
			}
			conn.AccountIdentity = identity
			c.Credential, err = seal.Credential(s.cfg.Vault, conn, cred.Version, secret)
			if err != nil {
				return c, err
			}
			c.Credential.Expires = expires
			return c, nil
		},
	})
	return &fireoncev1.RotateCredentialResponse{Connection: out}, err
}

// UpdateConnection implements the RPC.
func (s *connectionService) UpdateConnection(ctx context.Context, req *fireoncev1.UpdateConnectionRequest) (*fireoncev1.UpdateConnectionResponse, error) {
	if err := noUnknown(req); err != nil {
		return nil, err
	}
	out, err := s.amend(ctx, amendment{
		of: req, etag: req.GetEtag(),
		inPlace: func(_ context.Context, conn store.Connection) (bool, error) {
			if !conn.Deleted.IsZero() {
				return false, nil
			}
			c, err := updateOf(req, conn)
			return err == nil && c.None(), nil
		},
		change: func(ctx context.Context, conn store.Connection) (store.ConnectionChange, error) {
			c, err := updateOf(req, conn)
			if err != nil || c.Target == nil {
				return c, err
			}
			c.Seal, err = s.aim(ctx, conn, c.Target)
			return c, err
		},
	})
	return &fireoncev1.UpdateConnectionResponse{Connection: out}, err
}

// updateOf gives what of a request a connection has otherwise.
func updateOf(req *fireoncev1.UpdateConnectionRequest, conn store.Connection) (store.ConnectionChange, error) {
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

// newSettings gives the settings that a mask names, encoded. They must be of the
// connector's kind.
func newSettings(req *fireoncev1.UpdateConnectionRequest, path, connectorName string) ([]byte, error) {
	if want := settingsFor(connectorName).Name(); path != string(want) {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID,
			fmt.Sprintf("%s is not of connector %q, which takes %s", path, connectorName, want),
			"field", path, "connector", connectorName)
	}
	m := req.ProtoReflect()
	field := m.Descriptor().Fields().ByName(protoreflect.Name(path))
	return proto.MarshalOptions{Deterministic: true}.Marshal(m.Get(field).Message().Interface())
}

// aim has the connector check new settings, with the credential that there is, and
// completes what is known of the target. It returns the credential's new seal, or nil
// where there is none. A caller who may change settings cannot read the credential, so
// they cannot have it sent to a server of their own either; and what is in doubt about
// the connection's jobs is looked up where they were sent.
func (s *connectionService) aim(ctx context.Context, conn store.Connection, to *store.ConnectionTarget) (*store.Seal, error) {
	code, err := s.codeOf(conn)
	if err != nil {
		return nil, err
	}
	if conn.CredentialVersion != 0 && elsewhere(conn.Connector, conn.Settings, to.Settings) {
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
	if _, err := s.sameAccount(ctx, code, conn, to.Settings, cred); err != nil {
		mismatch := new(fault)
		if errors.As(err, &mismatch) && mismatch.reason == fireoncev1.ErrorReason_ERROR_REASON_IDENTITY_MISMATCH {
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
