package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the platform is asked for the account of a credential, by one read of
// bounded time. A connection belongs to one account as long as it exists: the outcomes of its
// jobs are looked up there.

// testTime bounds what one call asks of a platform.
const testTime = 10 * time.Second

// codeOf returns a connection's connector.
func (s *Server) codeOf(conn store.Connection) (connector.Connector, error) {
	code, known := s.cfg.Connectors.Get(conn.Connector)
	if !known {
		return nil, disabled(&conn, fmt.Sprintf("needs connector %q, which this server does not have", conn.Connector))
	}
	return code, nil
}

// credentialOf opens a connection's credential; it may have none. It fails with a fault
// that is vault.ErrKeyID or vault.ErrSealed, or with store.ErrStale when the connection
// was changed since it was read.
func (s *Server) credentialOf(ctx context.Context, conn store.Connection) (connector.Credential, error) {
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
		s.log.ErrorContext(ctx, "a credential cannot be opened", "connection", conn.Key, "connection_id", conn.ID.String(), "err", err)
		return connector.Credential{}, unsealable(conn, err)
	}
	return connector.Credential{Version: sealed.Version, Data: data}, nil
}

// unsealable is the fault of a credential that does not open.
func unsealable(conn store.Connection, cause error) error {
	return fmt.Errorf("%w: %w", refuse(fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_UNSEALABLE, seal.Explain(cause),
		"connection_id", conn.ID.String()), cause)
}

// checkSeal checks that the present credential was sealed for the connection as it is: a new one
// must not be sealed for a row that was changed in the database by other means. A credential
// whose key is lost may be replaced.
func (s *connectionService) checkSeal(ctx context.Context, conn store.Connection) error {
	if _, err := s.credentialOf(ctx, conn); err != nil && !errors.Is(err, vault.ErrKeyID) {
		return err
	}
	return nil
}

// callTester asks the platform; false: the connector cannot.
func (s *connectionService) callTester(
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

// checkAccount checks settings and credential, and that they belong to the connection's account,
// as far as the platform answers. It returns the account, where it is known.
func (s *connectionService) checkAccount(
	ctx context.Context, code connector.Connector, conn store.Connection, settings []byte, cred connector.Credential,
) (string, error) {
	capability, err := code.Check(settings, cred)
	if err != nil {
		return "", fmt.Errorf("check the connection: %w", err)
	}
	identity := capability.Identity
	if found, _, err := s.callTester(ctx, code, testOpening(conn, settings, capability.Class, cred)); err != nil {
		// The platform's words about the stored credential are for callers that may read
		// connections.
		quote := cred.Version != conn.CredentialVersion || callerOf(ctx).has(ScopeConnectionsRead)
		if err := s.checkTestFailure(conn, err, quote); err != nil {
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

// checkTestFailure returns the error for a platform that did not name the account of a
// credential; nil: the credential may be stored. A credential that the platform refuses is not
// stored. Where the account is known, no other may replace it unseen. quote allows to repeat the
// platform's words.
func (s *connectionService) checkTestFailure(conn store.Connection, err error, quote bool) error {
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

// failureOf returns the kind of a connector's failure, and words for a user.
func failureOf(err error) (job.FailureKind, string) {
	if refusal, ok := errors.AsType[*connector.Refusal](err); ok {
		return refusal.Kind, text(refusal.Msg)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return job.FailTransient, "the platform did not answer in time"
	}
	return job.FailTransient, "the platform could not be reached"
}
