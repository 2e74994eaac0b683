// Package seal binds secrets to their purpose: a connection's credential to the connector,
// settings and account to which it may be sent, the verifier of a login to the purpose
// of the login, and a browser's session to the installation. A change of such a row in the
// database makes the secret unusable, instead of sending it to another target.
package seal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - A credential is sealed for the whole settings, as they are stored, and not only for the
//     fields that are known to name a target. So a setting that is added later cannot be
//     forgotten.
//   - A seal is replaced only by a caller that has opened the seal before it. Otherwise the
//     next rotation would seal a change that was made in the database.

// Vault seals and opens. *vault.Vault is one.
type Vault interface {
	// KeyID names the key that Seal uses.
	KeyID() string
	// Seal encrypts a secret so that it opens only with the same binding.
	Seal(secret []byte, to vault.Binding) ([]byte, error)
	// Open decrypts a secret that Seal encrypted with the same binding. It fails with
	// vault.ErrKeyID or vault.ErrSealed.
	Open(sealed []byte, keyID string, to vault.Binding) ([]byte, error)
	// Fingerprint distinguishes secrets of a connection without revealing them.
	Fingerprint(secret []byte, connection [16]byte) string
}

// Binding returns the binding of a connection's credential.
func Binding(connection job.ID, version int, of store.SealedFor) vault.Binding {
	return vault.Binding{
		Project: of.Project, Connection: connection, Version: version,
		Connector: of.Connector, Settings: of.Settings, Identity: of.AccountIdentity,
	}
}

// Credential seals a version of a connection's credential for the connection as it will
// be stored. It leaves Expires to the caller.
func Credential(v Vault, conn store.Connection, version int, secret []byte) (*store.Sealed, error) {
	data, err := v.Seal(secret, Binding(conn.ID, version, conn.SealedFor()))
	if err != nil {
		return nil, fmt.Errorf("seal the credential: %w", err)
	}
	return &store.Sealed{Version: version, KeyID: v.KeyID(), Data: data, Fingerprint: v.Fingerprint(secret, conn.ID)}, nil
}

// Again seals the present version of a connection's credential for the connection as it
// will be stored.
func Again(v Vault, conn store.Connection, secret []byte) (*store.Seal, error) {
	sealed, err := Credential(v, conn, conn.CredentialVersion, secret)
	if err != nil {
		return nil, err
	}
	return &store.Seal{KeyID: sealed.KeyID, Data: sealed.Data}, nil
}

// Open opens a credential for the connection as the caller has read it. It fails with
// vault.ErrKeyID, with vault.ErrSealed, or, if the connection has been changed since the
// caller read it, with store.ErrStale.
func Open(v Vault, conn store.Connection, s store.Sealed) ([]byte, error) {
	secret, err := v.Open(s.Data, s.KeyID, Binding(conn.ID, s.Version, conn.SealedFor()))
	if errors.Is(err, vault.ErrSealed) && !s.For.Equal(conn.SealedFor()) {
		return nil, fmt.Errorf("open the credential: %w: the connection has changed", store.ErrStale)
	}
	if err != nil {
		return nil, fmt.Errorf("open the credential: %w", err)
	}
	return secret, nil
}

// Explain's texts for a credential whose sealing key this server does not have, and for one
// that does not fit its connection. They are stored in jobs that wait for either.
const (
	KeyMissing = "This server does not have the key that seals this connection's credential. Its operator has to add it to the key file."
	Broken     = "The seal of this connection's credential does not fit the connection: its project, connector, settings, account or " +
		"credential were changed in the database. Nothing is sent. Its operator has to restore the row, or make a new connection."
)

// Explain returns a message for users about a credential that does not open: the cause, and
// what to do about it.
func Explain(err error) string {
	switch {
	case errors.Is(err, vault.ErrKeyID):
		return KeyMissing
	case errors.Is(err, vault.ErrSealed):
		return Broken
	default:
		return "This server cannot open this connection's credential. Its operator finds the cause in the log."
	}
}

// loginUse takes the place of the connector in the binding of a login's verifier. No connector
// has a space in its name, so no verifier opens as a connection's credential.
const loginUse = "oauth login"

// Login returns the binding of a login's verifier: everything that was stored of the login.
func Login(l store.Login) vault.Binding {
	at := vault.Binding{Project: l.Project, Connector: loginUse}
	copy(at.Connection[:], l.State)
	for _, field := range [][]byte{l.State, []byte(l.Actor), []byte(l.App), l.Target, []byte(l.RedirectURL), []byte(l.ReturnURL)} {
		at.Settings = binary.AppendUvarint(at.Settings, uint64(len(field)))
		at.Settings = append(at.Settings, field...)
	}
	return at
}

// sessionUse takes the connector's place in the binding of a browser's session.
const sessionUse = "browser session"

// Session returns the binding of a browser's session: the installation.
func Session(storeID job.ID) vault.Binding {
	return vault.Binding{Connection: storeID, Connector: sessionUse}
}
