// Package vault seals the credentials of connections, so that a database alone
// gives none of them away. It uses the standard library only.
//
// A sealed credential is a random nonce and an AES-256-GCM ciphertext. What it
// belongs to (project, connection, version) is its associated data: bytes that
// are moved to another row, or an older version put back, do not open. No error
// of this package carries a secret.
package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

const (
	// keySize is that of AES-256.
	keySize = 32
	// nonceSize is GCM's: 96 bits, random for every seal.
	nonceSize = 12
	// contextVersion starts the associated data; a changed encoding takes the
	// next number.
	contextVersion = 1
	// shownDigits is how much of a fingerprint people see: enough to tell their
	// secrets apart, too little to test guesses of a good one.
	shownDigits = 8
)

// ErrSealed says that a sealed credential does not open: another key, another
// place, or changed bytes. It does not say which.
var ErrSealed = errors.New("the credential does not open with this key in this place")

// ErrKeyID says that a credential was sealed with another key than this one.
var ErrKeyID = errors.New("the credential was sealed with another key")

// Place is what a sealed credential belongs to.
type Place struct {
	Project    string
	Connection [16]byte
	Version    int
}

// Vault seals and opens with one key. It is safe for concurrent use.
type Vault struct {
	id          string
	aead        cipher.AEAD
	fingerprint []byte
}

// New makes a vault of a 32-byte key.
func New(key []byte) (*Vault, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("vault: a key has %d bytes, not %d", keySize, len(key))
	}
	// Every use has a key of its own, so none says anything about another.
	seal, err := derive(key, "seal")
	if err != nil {
		return nil, err
	}
	mark, err := derive(key, "fingerprint")
	if err != nil {
		return nil, err
	}
	id, err := derive(key, "key id")
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(seal)
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return &Vault{id: hex.EncodeToString(id[:8]), aead: aead, fingerprint: mark}, nil
}

func derive(key []byte, use string) ([]byte, error) {
	out, err := hkdf.Key(sha256.New, key, nil, "fireonce vault 1: "+use, keySize)
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return out, nil
}

// KeyID names the key, so that a sealed credential tells which one opens it. It
// says nothing about the key itself.
func (v *Vault) KeyID() string { return v.id }

// Seal encrypts a secret for one place. Two seals of one secret differ.
func (v *Vault) Seal(secret []byte, at Place) ([]byte, error) {
	out := make([]byte, nonceSize, nonceSize+len(secret)+v.aead.Overhead())
	if _, err := rand.Read(out); err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	return v.aead.Seal(out, out[:nonceSize], secret, at.associated()), nil
}

// Open decrypts what Seal made for the same place. keyID is the one stored
// beside it. It fails with ErrKeyID or ErrSealed.
func (v *Vault) Open(sealed []byte, keyID string, at Place) ([]byte, error) {
	if keyID != v.id {
		return nil, fmt.Errorf("open: %w", ErrKeyID)
	}
	if len(sealed) < nonceSize+v.aead.Overhead() {
		return nil, fmt.Errorf("open: %w", ErrSealed)
	}
	secret, err := v.aead.Open(nil, sealed[:nonceSize], sealed[nonceSize:], at.associated())
	if err != nil {
		return nil, fmt.Errorf("open: %w", ErrSealed)
	}
	return secret, nil
}

// Fingerprint names a secret, so that people can tell two apart without seeing
// them. It is keyed: without the vault's key it cannot be tried on guesses.
func (v *Vault) Fingerprint(secret []byte) string {
	mac := hmac.New(sha256.New, v.fingerprint)
	mac.Write(secret)
	return hex.EncodeToString(mac.Sum(nil))[:shownDigits]
}

// associated encodes a place. Every field has its length in front, so that no
// two places are encoded alike.
func (p Place) associated() []byte {
	out := []byte{contextVersion}
	for _, field := range [][]byte{
		[]byte(p.Project), p.Connection[:], binary.BigEndian.AppendUint64(nil, uint64(p.Version)),
	} {
		out = binary.AppendUvarint(out, uint64(len(field)))
		out = append(out, field...)
	}
	return out
}
