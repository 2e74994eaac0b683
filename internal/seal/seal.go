// Package seal binds what is secret to what it is for: a connection's credential to the
// connector, settings and account that it may be sent to, and the verifier of a login to
// what the login is for. A row that was changed in the database makes the secret
// unusable, instead of sending it somewhere else.
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
//   - A credential is sealed for the whole settings, as they are stored, and not for the
//     fields of them that are known to name a target: a setting that is added later cannot
//     be forgotten.
//   - A seal is replaced only by a caller that has opened the one before. Otherwise a
//     change in the database would be sealed, too, by the next rotation.

// Vault seals and opens. *vault.Vault is one.
type Vault interface {
	// KeyID names the key that Seal uses.
	KeyID() string
	// Seal encrypts a secret so that it opens in one place only.
	Seal(secret []byte, at vault.Place) ([]byte, error)
	// Open decrypts what Seal made for the same place. It fails with vault.ErrKeyID or
	// vault.ErrSealed.
	Open(sealed []byte, keyID string, at vault.Place) ([]byte, error)
	// Fingerprint tells two secrets of a connection apart and reveals neither.
	Fingerprint(secret []byte, connection [16]byte) string
}

// Place returns what the seal of a connection's credential is bound to.
func Place(connection job.ID, version int, of store.SealedFor) vault.Place {
	return vault.Place{
		Project: of.Project, Connection: connection, Version: version,
		Connector: of.Connector, Settings: of.Settings, Identity: of.AccountIdentity,
	}
}

// Credential seals a version of a connection's credential for the connection as it will
// be stored. It leaves Expires to the caller.
func Credential(v Vault, conn store.Connection, version int, secret []byte) (*store.Sealed, error) {
	data, err := v.Seal(secret, Place(conn.ID, version, conn.SealedFor()))
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

// Open opens a credential for the connection as its caller is going to use it. It fails
// with vault.ErrKeyID, with vault.ErrSealed, or, when the connection has been changed
// since the caller read it, with store.ErrStale.
func Open(v Vault, conn store.Connection, s store.Sealed) ([]byte, error) {
	secret, err := v.Open(s.Data, s.KeyID, Place(conn.ID, s.Version, conn.SealedFor()))
	if errors.Is(err, vault.ErrSealed) && !s.For.Equal(conn.SealedFor()) {
		return nil, fmt.Errorf("open the credential: %w: the connection has changed", store.ErrStale)
	}
	if err != nil {
		return nil, fmt.Errorf("open the credential: %w", err)
	}
	return secret, nil
}

// What Explain says of a credential whose sealing key this server does not have, and of
// one that does not fit its connection. A job that waits for either stores the words.
const (
	KeyMissing = "This server does not have the key that seals this connection's credential. Its operator has to add it to the key file."
	Broken     = "The seal of this connection's credential does not fit the connection: its project, connector, settings, account or " +
		"credential were changed in the database. Nothing is sent. Its operator has to restore the row, or make a new connection."
)

// Explain returns what people are told of a credential that does not open, and what to
// do about it.
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

// loginUse is the connector that a login's verifier is sealed for. No connector has a
// space in its name, so no login is a connection's credential.
const loginUse = "oauth login"

// Login returns what the seal of a login's verifier is bound to: everything that was
// stored of it.
func Login(l store.Login) vault.Place {
	at := vault.Place{Project: l.Project, Connector: loginUse}
	copy(at.Connection[:], l.State)
	for _, field := range [][]byte{l.State, []byte(l.Actor), []byte(l.App), l.Target, []byte(l.RedirectURL), []byte(l.ReturnURL)} {
		at.Settings = binary.AppendUvarint(at.Settings, uint64(len(field)))
		at.Settings = append(at.Settings, field...)
	}
	return at
}
