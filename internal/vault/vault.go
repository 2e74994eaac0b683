// Package vault seals the credentials of connections, so that a database alone
// gives none of them away. It uses the standard library only.
//
// A credential is sealed in an envelope: AES-256-GCM under a data key of its own,
// and that key, again by AES-256-GCM, under a key of the vault. What it belongs to and
// where it may be sent (Place) is the associated data of both: bytes that are moved to
// another row, an older version put back, or a destination that was changed in the
// database do not open. A vault has several keys: the first one seals, all of them open, so that a key can be
// replaced while servers run (see Rewrap). No error of this package carries a
// secret.
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
	"slices"
)

const (
	// keySize is that of AES-256.
	keySize = 32
	// maxKeys bounds the keys of a vault: one that seals, some that are on their way
	// in or out.
	maxKeys = 16
	// nonceSize is GCM's: 96 bits, random for every seal.
	nonceSize = 12
	tagSize   = 16
	// contextVersion starts the associated data; a changed encoding takes the
	// next number.
	contextVersion = 2
	// shownDigits is how much of a fingerprint people see: enough to tell their
	// secrets apart, too little to test guesses of a good one.
	shownDigits = 8
)

// ErrSealed says that a sealed credential does not open: another place, another
// destination, or changed bytes. It does not say which.
var ErrSealed = errors.New("the credential does not open with this key in this place")

// ErrKeyID says that a credential was sealed with a key that the vault does not
// have.
var ErrKeyID = errors.New("the credential was sealed with another key")

// Place is what a sealed credential belongs to, and where it may be sent.
type Place struct {
	Project    string
	Connection [16]byte
	Version    int
	// Connector and Settings are the connection's, exactly as they are stored: they say
	// where the credential goes.
	Connector string
	Settings  []byte
	// Identity is the account that the connection is known to be; empty: not known.
	Identity string
}

// Vault seals with its first key and opens with all of them. It is safe for
// concurrent use.
type Vault struct {
	keys []*keyring
	// late gives keys that came in since; nil: there are none to come.
	late *late
}

// keyring is what is derived from one key.
type keyring struct {
	id string
	// wrap seals data keys.
	wrap        cipher.AEAD
	fingerprint []byte
}

// New makes a vault of 32-byte keys: one that seals and opens, and older or coming
// ones that open.
func New(key []byte, others ...[]byte) (*Vault, error) {
	v := &Vault{}
	if len(others) >= maxKeys {
		return nil, fmt.Errorf("vault: %d keys, at most %d", 1+len(others), maxKeys)
	}
	for _, k := range append([][]byte{key}, others...) {
		one, err := newKey(k)
		if err != nil {
			return nil, err
		}
		if v.find(one.id) != nil {
			return nil, fmt.Errorf("vault: key %s is there twice", one.id)
		}
		v.keys = append(v.keys, one)
	}
	return v, nil
}

func newKey(key []byte) (*keyring, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("vault: a key has %d bytes, not %d", len(key), keySize)
	}
	// Every use has a key of its own, so none says anything about another.
	var derived [3][]byte
	for i, use := range []string{"wrap", "fingerprint", "key id"} {
		var err error
		if derived[i], err = hkdf.Key(sha256.New, key, nil, "fireonce vault 1: "+use, keySize); err != nil {
			return nil, fmt.Errorf("vault: %w", err)
		}
	}
	wrap, err := newAEAD(derived[0])
	if err != nil {
		return nil, err
	}
	return &keyring{id: hex.EncodeToString(derived[2][:8]), wrap: wrap, fingerprint: derived[1]}, nil
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return aead, nil
}

// find gives the key of an id; nil: the vault does not have it.
func (v *Vault) find(id string) *keyring {
	for _, k := range v.keys {
		if k.id == id {
			return k
		}
	}
	if v.late != nil {
		return v.late.find(id)
	}
	return nil
}

// KeyID names the key that seals, so that a sealed credential tells which one
// opens it. It says nothing about the key itself.
func (v *Vault) KeyID() string { return v.keys[0].id }

// KeyIDs names the keys of the start, the one that seals first.
func (v *Vault) KeyIDs() []string {
	out := make([]string, len(v.keys))
	for i, k := range v.keys {
		out[i] = k.id
	}
	return out
}

// Missing gives those of the named keys that the vault does not have.
func (v *Vault) Missing(used []string) []string {
	return slices.DeleteFunc(slices.Clone(used), func(id string) bool { return v.find(id) != nil })
}

// Fingerprint names a connection's secret, so that people can tell two apart without
// seeing them. It is keyed: without the vault's key it cannot be tried on guesses. It is
// salted by the connection: a guess that is stored on another connection confirms
// nothing. It is of the key that seals, so it differs once that key is another.
func (v *Vault) Fingerprint(secret []byte, connection [16]byte) string {
	return v.keys[0].mark(secret, connection)
}

// Recognizes reports whether a fingerprint is that of a connection's secret, under any
// of the keys of the start.
func (v *Vault) Recognizes(secret []byte, connection [16]byte, fingerprint string) bool {
	return slices.ContainsFunc(v.keys, func(k *keyring) bool {
		return hmac.Equal([]byte(k.mark(secret, connection)), []byte(fingerprint))
	})
}

func (k *keyring) mark(secret []byte, connection [16]byte) string {
	mac := hmac.New(sha256.New, k.fingerprint)
	mac.Write(connection[:])
	mac.Write(secret)
	return hex.EncodeToString(mac.Sum(nil))[:shownDigits]
}

// associated encodes a place. Every field has its length in front, so that no
// two places are encoded alike.
func (p Place) associated() []byte {
	out := []byte{contextVersion}
	for _, field := range [][]byte{
		[]byte(p.Project), p.Connection[:], binary.BigEndian.AppendUint64(nil, uint64(p.Version)),
		[]byte(p.Connector), p.Settings, []byte(p.Identity),
	} {
		out = binary.AppendUvarint(out, uint64(len(field)))
		out = append(out, field...)
	}
	return out
}

// random gives n bytes of the system's randomness.
func random(n int) ([]byte, error) {
	out := make([]byte, n)
	if _, err := rand.Read(out); err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return out, nil
}
