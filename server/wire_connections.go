package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

// This file converts connections.

// settingsOf is the oneof whose members are named like the connectors.
var settingsOf = (&connectionsv1.Connection{}).ProtoReflect().Descriptor().Oneofs().ByName("settings")

// customSettings is the member for connectors that are not part of the API.
const customSettings = "custom"

// settingsFor names the member that a connector takes.
func settingsFor(connector string) protoreflect.FieldDescriptor {
	if d := settingsOf.Fields().ByName(protoreflect.Name(connector)); d != nil {
		return d
	}
	return settingsOf.Fields().ByName(customSettings)
}

// settingsFromWire returns the encoded settings message of a connection, which must be the one
// that the connector takes. at is the path of the connection in the request.
func settingsFromWire(c *connectionsv1.Connection, at string) ([]byte, error) {
	const reason = fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID
	want := settingsFor(c.GetConnector())
	m := c.ProtoReflect()
	wanted := under(at, string(want.Name()))
	got := m.WhichOneof(settingsOf)
	switch {
	case got == nil && string(want.Name()) == customSettings:
		return nil, nil
	case got == nil:
		return nil, refuse(reason, fmt.Sprintf("%s must be set for connector %q", wanted, c.GetConnector()),
			"field", wanted, "connector", c.GetConnector())
	case got.Number() != want.Number():
		is := under(at, string(got.Name()))
		return nil, refuse(reason, fmt.Sprintf("%s is not of connector %q, which takes %s", is, c.GetConnector(), wanted),
			"field", is, "connector", c.GetConnector())
	default:
		return proto.MarshalOptions{Deterministic: true}.Marshal(m.Get(got).Message().Interface())
	}
}

// credentialFromWire encodes a credential for the connector and the vault.
func credentialFromWire(c *connectionsv1.Credential) (encoded []byte, expires time.Time, err error) {
	if c == nil {
		return nil, time.Time{}, nil
	}
	expires, err = timeFromWire("credential.oauth2.expire_time", c.GetOauth2().GetExpireTime())
	if err != nil {
		return nil, time.Time{}, err
	}
	encoded, err = proto.MarshalOptions{Deterministic: true}.Marshal(c)
	return encoded, expires, err
}

// renews reports whether a credential can be renewed without a person.
func renews(c *connectionsv1.Credential) bool { return c.GetOauth2().GetRefreshToken() != "" }

// connectionWire converts a connection as this server sees it now.
func (s *Server) connectionWire(ctx context.Context, c store.Connection) (*connectionsv1.Connection, error) {
	out, err := s.connectionWires(ctx, []store.Connection{c})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// changedWire converts a connection whose change is stored. The answer must not fail because the
// pauses over it cannot be read: it leaves them out then.
func (s *Server) changedWire(ctx context.Context, c store.Connection) (*connectionsv1.Connection, error) {
	out, err := connectionToWire(c, s.cfg.Now(), s.credentialRequired)
	if err != nil {
		return nil, err
	}
	over, err := s.pausesOver(ctx, []store.Connection{c})
	if err != nil {
		s.log.WarnContext(ctx, "an answer leaves out the pauses over a connection that was changed", "connection_id", c.ID.String(), "err", err)
	}
	for _, stop := range over {
		showPause(out, &c, stop)
	}
	return out, nil
}

// connectionWires converts connections, with the pauses over them.
func (s *Server) connectionWires(ctx context.Context, list []store.Connection) ([]*connectionsv1.Connection, error) {
	over, err := s.pausesOver(ctx, list)
	if err != nil {
		return nil, err
	}
	out := make([]*connectionsv1.Connection, len(list))
	for i, c := range list {
		if out[i], err = connectionToWire(c, s.cfg.Now(), s.credentialRequired); err != nil {
			return nil, err
		}
		if i < len(over) {
			showPause(out[i], &c, over[i])
		}
	}
	return out, nil
}

// pausesOver returns the pause that is in force over each connection; none if there is no pause at all.
func (s *Server) pausesOver(ctx context.Context, list []store.Connection) ([]*store.Stop, error) {
	meta, err := s.meta(ctx)
	if err != nil {
		return nil, fmt.Errorf("pauses over connections: %w", err)
	}
	if meta.Stops == 0 || len(list) == 0 {
		return nil, nil
	}
	targets := make([]store.StopTarget, len(list))
	for i, c := range list {
		targets[i] = store.StopTarget{Project: c.Project, Connector: c.Connector, Connection: c.ID}
	}
	over, err := s.store.StopsOver(ctx, targets)
	if err != nil {
		return nil, fmt.Errorf("pauses over connections: %w", err)
	}
	return over, nil
}

func showPause(out *connectionsv1.Connection, c *store.Connection, over *store.Stop) {
	if over != nil && c.Deleted.IsZero() {
		out.PauseId, out.PauseReason = over.ID.String(), stopWords(*over)
	}
}

func limitsFromWire(l *connectionsv1.ConnectionLimits) store.ConnectionLimits {
	return store.ConnectionLimits{
		MaxInFlight: int(l.GetMaxInFlight()), MaxPerMinute: int(l.GetMaxPerMinute()), CoolDown: submit.Duration(l.GetCoolDown()),
	}
}

func connectionToWire(c store.Connection, now time.Time, credentialRequired []string) (*connectionsv1.Connection, error) {
	out := &connectionsv1.Connection{
		ConnectionId: idToWire(c.ID), ProjectId: c.Project, Connector: c.Connector, DisplayName: c.DisplayName,
		PauseTime: timeToWire(c.PausedAt), AuthHoldTime: timeToWire(c.AuthHoldAt),
		RateLimitEndTime: timeToWire(c.RateLimitedUntil), EffectClass: classToWire(c.Class),
		AccountIdentity: text(c.AccountIdentity), CredentialExpireTime: timeToWire(c.CredentialExpires),
		CredentialFingerprint: c.CredentialFingerprint, CreateTime: timeToWire(c.Created),
		UpdateTime: timeToWire(c.Updated), DeleteTime: timeToWire(c.Deleted), Etag: etagOf(c.ID, c.Version),
		CreatedBy: c.CreatedBy, UpdatedBy: c.UpdatedBy, IdempotencyKey: c.Key, Labels: c.Labels,
	}
	if c.MaxInFlight != 0 || c.MaxPerMinute != 0 || c.CoolDown != 0 {
		out.Limits = &connectionsv1.ConnectionLimits{
			MaxInFlight: int32(c.MaxInFlight), MaxPerMinute: int32(c.MaxPerMinute), CoolDown: durationToWire(c.CoolDown),
		}
	}
	if !c.Retry.Equal(job.RetryPolicy{}) {
		out.RetryPolicy = retryToWire(c.Retry)
	}
	out.State, out.StateCause, out.StateReason = connectionState(c, now)
	if noCredential(c, credentialRequired) {
		out.State = connectionsv1.ConnectionState_CONNECTION_STATE_AUTH_HOLD
		out.StateCause = fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_CREDENTIAL_MISSING
		out.StateReason, out.AuthHoldTime = noCredentialWords, timeToWire(c.Created)
	}
	if len(c.Settings) == 0 {
		return out, nil
	}
	m := out.ProtoReflect()
	field := settingsFor(c.Connector)
	settings := m.NewField(field)
	if err := proto.Unmarshal(c.Settings, settings.Message().Interface()); err != nil {
		return nil, fmt.Errorf("connection %s: settings: %w", c.ID, err)
	}
	m.Set(field, settings)
	return out, nil
}

// connectionsFromWire makes a list's query, less its position.
func connectionsFromWire(project string, f *connectionsv1.ConnectionFilter) (store.ConnectionQuery, error) {
	q := store.ConnectionQuery{
		Project: project, Connectors: f.GetConnectors(), Keys: f.GetIdempotencyKeys(), Labels: f.GetLabels(),
		AccountIdentity: f.GetAccountIdentity(), Text: f.GetText(), States: castAll[store.ConnectionState](f.GetStates()),
	}
	var err error
	if q.Connections, err = idsFromWire("filter.connection_ids", f.GetConnectionIds()); err != nil {
		return q, err
	}
	q.ExpiresBefore, err = timeFromWire("filter.credential_expire_before", f.GetCredentialExpireBefore())
	return q, err
}

func connectorToWire(d connector.Description) *connectionsv1.Connector {
	out := &connectionsv1.Connector{
		Name: d.Name, Promise: d.Promise, PayloadKinds: d.Payloads, CredentialKinds: d.Credentials,
		CredentialRequired: d.CredentialRequired, EffectClasses: convertAll(d.Classes, classToWire),
	}
	if !d.NoSettings {
		out.SettingsKind = string(settingsFor(d.Name).Name())
	}
	return out
}

// noCredentialWords are what is missing, and what to do.
const noCredentialWords = "This connection has no credential: connect the account."

// noCredential reports whether a connection does nothing because it has no credential.
func noCredential(c store.Connection, required []string) bool {
	return c.Deleted.IsZero() && c.CredentialVersion == 0 && slices.Contains(required, c.Connector)
}

// authCauses are the contract's names of why a credential holds.
var authCauses = map[job.AuthCause]fireoncev1.ConnectionStateCause{
	job.AuthRefused:       fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_CREDENTIAL_REFUSED,
	job.AuthExpired:       fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_CREDENTIAL_EXPIRED,
	job.AuthLoginEnded:    fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_LOGIN_ENDED,
	job.AuthRenewalLost:   fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_RENEWAL_LOST,
	job.AuthPermission:    fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_PERMISSION_MISSING,
	job.AuthAccountBarred: fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_ACCOUNT_BARRED,
	job.AuthOtherAccount:  fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_ACCOUNT_MISMATCH,
}

// authCauseToWire converts why a credential holds. One of a newer server is a refusal.
func authCauseToWire(c job.AuthCause) fireoncev1.ConnectionStateCause {
	return cmp.Or(authCauses[c], fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_CREDENTIAL_REFUSED)
}

// connectionState derives the state from the facts; the gravest is shown.
func connectionState(c store.Connection, now time.Time) (connectionsv1.ConnectionState, fireoncev1.ConnectionStateCause, string) {
	state := connectionsv1.ConnectionState(c.State(now))
	switch c.State(now) {
	case store.ConnectionDeleted:
		return state, fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_DELETED, "The connection was deleted."
	case store.ConnectionAuthHold:
		return state, authCauseToWire(c.AuthHoldCause), text(c.AuthHoldReason)
	case store.ConnectionPaused:
		return state, fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_PAUSED, c.PausedReason
	case store.ConnectionRateLimited:
		return state, fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_RATE_LIMITED, limitedUntil(c.RateLimitedUntil)
	default:
		return state, fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_UNSPECIFIED, ""
	}
}
