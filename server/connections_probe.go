package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/store"
)

// TestConnection implements the RPC.
func (s *connectionService) TestConnection(ctx context.Context, req *connectionsv1.TestConnectionRequest) (*connectionsv1.TestConnectionResponse, error) {
	conn, cred, err := s.opened(ctx, req)
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
	return s.testPlatform(ctx, code, conn, capability, cred)
}

// opened reads a connection that was not deleted, and opens its credential.
func (s *connectionService) opened(ctx context.Context, req connectionNamed) (conn store.Connection, cred connector.Credential, err error) {
	conn, err = decideAgain(func() (store.Connection, error) {
		conn, err := s.usableConnection(ctx, req)
		if err == nil {
			cred, err = s.credentialOf(ctx, conn)
		}
		return conn, err
	}, connectionChanged)
	return conn, cred, err
}

func failedTest(kind job.FailureKind, detail string, reached bool) *connectionsv1.TestConnectionResponse {
	return &connectionsv1.TestConnectionResponse{Detail: text(detail), FailureKind: failureToWire(kind), PlatformReached: reached}
}

// isPlatformAnswer reports whether a failure is a platform's answer.
func isPlatformAnswer(kind job.FailureKind) bool {
	return kind == job.FailAuth || kind == job.FailPermanent || kind == job.FailRateLimited
}

// testPlatform asks the platform, and learns the account where it was not known.
func (s *connectionService) testPlatform(
	ctx context.Context, code connector.Connector, conn store.Connection, capability connector.Capability, cred connector.Credential,
) (*connectionsv1.TestConnectionResponse, error) {
	o := testOpening(conn, conn.Settings, capability.Class, cred)
	found, asked, err := s.callTester(ctx, code, o)
	if err != nil {
		kind, msg := failureOf(err)
		return failedTest(kind, msg, isPlatformAnswer(kind)), nil
	}
	identity := cmp.Or(found.Identity, capability.Identity)
	if known := conn.AccountIdentity; known != "" && identity != "" && identity != known {
		return failedTest(job.FailPermanent, fmt.Sprintf("the credential belongs to %s, and this connection is %s", identity, known), asked), nil
	}
	out := &connectionsv1.TestConnectionResponse{Ok: true, AccountIdentity: text(identity), PlatformReached: asked}
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

// learnAccount stores the account of a connection, and seals its credential for that account. If
// the connection was changed meanwhile, the next test learns it.
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
	if _, err := s.writeChange(ctx, conn, change); err != nil && !errors.Is(err, store.ErrStale) {
		return err
	}
	return nil
}

// sentence makes a sentence of a connector's words.
func sentence(words string) string {
	first, size := utf8.DecodeRuneInString(words)
	words = string(unicode.ToUpper(first)) + words[size:]
	if !strings.HasSuffix(words, ".") {
		words += "."
	}
	return words
}

// probed asks a target how it prevents duplicates, where the connector cannot know.
func (s *connectionService) probed(
	ctx context.Context, code connector.Connector, o connector.Opening,
) (string, *connectionsv1.TestConnectionResponse) {
	p, can := code.(connector.Prober)
	if !can {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	traits, err := p.Probe(ctx, o)
	if err != nil {
		kind, msg := failureOf(err)
		return "", failedTest(kind, msg, isPlatformAnswer(kind))
	}
	return fmt.Sprintf("Jobs will be of class %s.", traits.Class), nil
}
