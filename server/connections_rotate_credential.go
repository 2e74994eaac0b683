package server

import (
	"bytes"
	"context"
	"errors"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/store"
)

// RotateCredential implements the RPC. The same credential again changes nothing, unless the
// platform refused it before: then it is tried once more.
func (s *connectionService) RotateCredential(ctx context.Context, req *connectionsv1.RotateCredentialRequest) (*connectionsv1.RotateCredentialResponse, error) {
	secret, expires, err := credentialFromWire(req.GetCredential())
	if err != nil {
		return nil, err
	}
	out, err := s.change(ctx, connectionChange{
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
			if err := s.checkSeal(ctx, conn); err != nil {
				return c, err
			}
			code, err := s.codeOf(conn)
			if err != nil {
				return c, err
			}
			identity, err := s.checkAccount(ctx, code, conn, conn.Settings, cred)
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
			c.Credential.Expires, c.Credential.Renews = expires, renews(req.GetCredential())
			return c, nil
		},
	})
	return &connectionsv1.RotateCredentialResponse{Connection: out}, err
}
