package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a platform is asked whose account a credential is, read-only and
// never for long. A connection is one account for as long as it lives: what is in
// doubt about its jobs is looked up there.

// testTime bounds what one call asks of a platform.
const testTime = 10 * time.Second

// codeOf gives a connection's connector.
func (s *connectionService) codeOf(conn store.Connection) (connector.Connector, error) {
	code, known := s.cfg.Connectors.Get(conn.Connector)
	if !known {
		return nil, disabled(&conn, fmt.Sprintf("needs connector %q, which this server does not have", conn.Connector))
	}
	return code, nil
}

// credentialOf opens a connection's credential; it may have none. It fails with a fault
// that is vault.ErrKeyID or vault.ErrSealed, or with store.ErrStale when the connection
// was changed since it was read.
func (s *connectionService) credentialOf(ctx context.Context, conn store.Connection) (connector.Credential, error) {
	if conn.CredentialVersion == 0 {
		return connector.Credential{}, nil
	}
	sealed, err := s.store.Credential(ctx, conn.ID)
	if err != nil {
		return connector.Credential{}, fmt.Errorf("read the credential: %w", err)
	}
	data, err := seal.Open(s.cfg.Vault, conn, sealed)
	switch {
	case errors.Is(err, store.ErrStale):
		return connector.Credential{}, err
	case err != nil:
		s.log.ErrorContext(ctx, "a credential cannot be opened", "connection", conn.ID.String(), "err", err)
		return connector.Credential{}, unsealable(conn, err)
	}
	return connector.Credential{Version: sealed.Version, Data: data}, nil
}

// unsealable is the fault of a credential that does not open.
func unsealable(conn store.Connection, cause error) error {
	return fmt.Errorf("%w: %w", refuse(fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_UNSEALABLE, seal.Explain(cause),
		"connection_id", conn.ID.String()), cause)
}

// sealFits makes sure that a connection is what its present credential was sealed for:
// a new one must not be sealed for what somebody has made of the row in the database. A
// credential whose key is lost may be replaced.
func (s *connectionService) sealFits(ctx context.Context, conn store.Connection) error {
	if _, err := s.credentialOf(ctx, conn); err != nil && !errors.Is(err, vault.ErrKeyID) {
		return err
	}
	return nil
}

// tested asks the platform; false: the connector cannot.
func (s *connectionService) tested(
	ctx context.Context, code connector.Connector, o connector.Opening,
) (connector.Tested, bool, error) {
	t, can := code.(connector.Tester)
	if !can {
		return connector.Tested{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	out, err := t.Test(ctx, o)
	return out, true, err
}

func testOpening(conn store.Connection, settings []byte, class job.Class, cred connector.Credential) connector.Opening {
	return connector.Opening{Connection: conn.ID, Settings: settings, Class: class, Credential: cred, Fresh: true}
}

// sameAccount checks settings and credential, and makes sure that they are of the
// connection's account, as far as the platform tells. It gives the account, where it
// is known.
func (s *connectionService) sameAccount(
	ctx context.Context, code connector.Connector, conn store.Connection, settings []byte, cred connector.Credential,
) (string, error) {
	capability, err := code.Check(settings, cred)
	if err != nil {
		return "", fmt.Errorf("check the connection: %w", err)
	}
	identity := capability.Identity
	if found, _, err := s.tested(ctx, code, testOpening(conn, settings, capability.Class, cred)); err != nil {
		// What the platform says of the credential that is stored is for those who may read.
		quote := cred.Version != conn.CredentialVersion || callerOf(ctx).has(ScopeConnectionsRead)
		if err := s.notTested(conn, err, quote); err != nil {
			return "", err
		}
	} else if found.Identity != "" {
		identity = found.Identity
	}
	switch {
	case identity == "":
		return conn.AccountIdentity, nil
	case conn.AccountIdentity != "" && identity != conn.AccountIdentity:
		known := "another account's"
		if callerOf(ctx).has(ScopeConnectionsRead) {
			known = text(conn.AccountIdentity)
		}
		return "", refuse(fireoncev1.ErrorReason_ERROR_REASON_IDENTITY_MISMATCH,
			fmt.Sprintf("the credential belongs to %s, connection %s is %s; make a new connection for the other account",
				text(identity), conn.ID, known),
			"connection_id", conn.ID.String(), "account_identity", text(identity))
	default:
		return identity, nil
	}
}

// notTested says what it means that a platform did not tell whose account a credential
// is; nil: nothing. One that the platform refuses is of no use. Where the account is
// known, nobody may take its place unseen. quote allows to repeat the platform's words.
func (s *connectionService) notTested(conn store.Connection, err error, quote bool) error {
	kind, msg := failureOf(err)
	if !quote {
		msg = "its words are shown with the scope " + ScopeConnectionsRead
	}
	switch {
	case kind == job.FailAuth:
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_MISMATCH,
			"the platform refuses the credential: "+msg, "connection_id", conn.ID.String())
	case conn.AccountIdentity == "":
		return nil
	default:
		return platformUnavailable(conn.ID, msg)
	}
}

func platformUnavailable(conn job.ID, why string) *fault {
	f := refuse(fireoncev1.ErrorReason_ERROR_REASON_PLATFORM_UNAVAILABLE,
		fmt.Sprintf("connection %s was not changed: the platform could not be asked whose account the credential is (%s); try again", conn, why),
		"connection_id", conn.String())
	f.retry = testTime
	return f
}

// failureOf gives the kind of a connector's failure, and words for a user.
func failureOf(err error) (job.FailureKind, string) {
	var refusal *connector.Refusal
	if errors.As(err, &refusal) {
		return refusal.Kind, text(refusal.Msg)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return job.FailTransient, "the platform did not answer in time"
	}
	return job.FailTransient, "the platform could not be reached"
}

// TestConnection implements the RPC.
func (s *connectionService) TestConnection(ctx context.Context, req *fireoncev1.TestConnectionRequest) (*fireoncev1.TestConnectionResponse, error) {
	ref, err := connectionRef(ctx, req)
	if err != nil {
		return nil, err
	}
	conn, cred, err := s.opened(ctx, ref)
	if unsealable := new(fault); errors.As(err, &unsealable) && unsealable.reason == fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_UNSEALABLE {
		return failedTest(job.FailPermanent, unsealable.msg, false), nil
	}
	if err != nil {
		return nil, err
	}
	code, err := s.codeOf(conn)
	if err != nil {
		return nil, err
	}
	cred, failed := s.freshened(ctx, conn, cred)
	if failed != nil {
		return failed, nil
	}
	capability, err := code.Check(conn.Settings, cred)
	if input := new(connector.InputError); errors.As(err, &input) {
		return failedTest(job.FailPermanent, input.Error(), false), nil
	}
	if err != nil {
		return nil, fmt.Errorf("check the connection: %w", err)
	}
	return s.ask(ctx, code, conn, capability, cred)
}

// opened reads a connection that was not deleted, and opens its credential.
func (s *connectionService) opened(ctx context.Context, ref store.Ref) (conn store.Connection, cred connector.Credential, err error) {
	for range maxDecisions {
		conn, err = s.store.Connection(ctx, ref)
		if err != nil {
			return conn, cred, notFoundAs(fmt.Errorf("read the connection: %w", err), connectionNotFound(ref))
		}
		if !conn.Deleted.IsZero() {
			return conn, cred, disabled(&conn, "was deleted")
		}
		if cred, err = s.credentialOf(ctx, conn); !errors.Is(err, store.ErrStale) {
			return conn, cred, err
		}
	}
	return conn, cred, connectionChanged(conn)
}

func failedTest(kind job.FailureKind, detail string, reached bool) *fireoncev1.TestConnectionResponse {
	return &fireoncev1.TestConnectionResponse{Detail: text(detail), FailureKind: failureToWire(kind), PlatformReached: reached}
}

// answered tells whether a failure is a platform's answer.
func answered(kind job.FailureKind) bool {
	return kind == job.FailAuth || kind == job.FailPermanent || kind == job.FailRateLimited
}

// ask asks the platform, and learns the account where it was not known.
func (s *connectionService) ask(
	ctx context.Context, code connector.Connector, conn store.Connection, capability connector.Capability, cred connector.Credential,
) (*fireoncev1.TestConnectionResponse, error) {
	o := testOpening(conn, conn.Settings, capability.Class, cred)
	found, asked, err := s.tested(ctx, code, o)
	if err != nil {
		kind, msg := failureOf(err)
		return failedTest(kind, msg, answered(kind)), nil
	}
	identity := capability.Identity
	if found.Identity != "" {
		identity = found.Identity
	}
	if known := conn.AccountIdentity; known != "" && identity != "" && identity != known {
		return failedTest(job.FailPermanent, fmt.Sprintf("the credential belongs to %s, and this connection is %s", identity, known), asked), nil
	}
	out := &fireoncev1.TestConnectionResponse{Ok: true, AccountIdentity: text(identity), PlatformReached: asked}
	details := []string{"Settings and credential are in order."}
	if !asked {
		details[0] = "Settings and credential have the right form. Nothing was sent to the target."
	}
	if found.Detail != "" {
		details = append(details, sentence(found.Detail))
	}
	if capability.Unsure {
		words, refused := s.probed(ctx, code, o)
		if refused != nil {
			return refused, nil
		}
		details = append(details, words)
		out.PlatformReached = true
	}
	out.Detail = text(strings.Join(details, " "))
	if conn.AccountIdentity == "" && identity != "" {
		if err := s.learnAccount(ctx, conn, identity, cred); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// learnAccount notes whose account a connection is, and seals its credential for that
// account. If the connection was changed meanwhile, the next test learns it.
func (s *connectionService) learnAccount(ctx context.Context, conn store.Connection, identity string, cred connector.Credential) error {
	change := store.ConnectionChange{Identity: &identity}
	if cred.Version != conn.CredentialVersion {
		return nil // the credential was renewed for the test
	}
	if cred.Version > 0 {
		conn.AccountIdentity = identity
		var err error
		if change.Seal, err = seal.Again(s.cfg.Vault, conn, cred.Data); err != nil {
			return err
		}
	}
	if _, err := s.revise(ctx, conn, change); err != nil && !errors.Is(err, store.ErrStale) {
		return err
	}
	return nil
}

// sentence makes one of what a connector says, which may be less.
func sentence(words string) string {
	first, size := utf8.DecodeRuneInString(words)
	words = string(unicode.ToUpper(first)) + words[size:]
	if !strings.HasSuffix(words, ".") {
		words += "."
	}
	return words
}

// probed asks a target that only knows itself how duplicates are prevented there.
func (s *connectionService) probed(
	ctx context.Context, code connector.Connector, o connector.Opening,
) (string, *fireoncev1.TestConnectionResponse) {
	p, can := code.(connector.Prober)
	if !can {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	traits, err := p.Probe(ctx, o)
	if err != nil {
		kind, msg := failureOf(err)
		return "", failedTest(kind, msg, answered(kind))
	}
	return fmt.Sprintf("Jobs will be of class %s.", traits.Class), nil
}

// ListConnectors implements the RPC.
func (s *connectionService) ListConnectors(context.Context, *fireoncev1.ListConnectorsRequest) (*fireoncev1.ListConnectorsResponse, error) {
	out := &fireoncev1.ListConnectorsResponse{}
	for _, name := range s.cfg.Connectors.Names() {
		code, _ := s.cfg.Connectors.Get(name)
		out.Connectors = append(out.Connectors, connectorToWire(code.Describe()))
	}
	return out, nil
}
