// Package vault seals the credentials of connections, so that the database alone
// reveals none of them. It uses the standard library only.
//
// A credential is sealed in an envelope: AES-256-GCM under a data key of its own,
// and that key, again by AES-256-GCM, under a key of the vault. The associated data of
// both is a Binding: the owner of the credential and where it may be sent. So a
// credential does not open if its bytes were moved to another row, an older version was
// put back, or a destination was changed in the database. A vault has several keys: the
// first one seals and all of them open, so that a key can be replaced while servers run
// (see Rewrap). No error of this package contains a secret.
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
	// keySize is the size of a key of AES-256.
	keySize = 32
	// maxKeys bounds the keys of a vault: one that seals, and some that are being
	// introduced or phased out.
	maxKeys = 16
	// nonceSize is the size of GCM's nonce: 96 bits, random for every seal.
	nonceSize = 12
	tagSize   = 16
	// contextVersion starts the associated data. A changed encoding takes the next
	// number.
	contextVersion = 2
	// shownDigits is how many digits of a fingerprint users see: enough to distinguish
	// their secrets, too few to confirm a guess of a strong secret.
	shownDigits = 8
)

// ErrSealed is returned for a credential that does not open because its binding is
// another one or its bytes were changed. It does not reveal which.
var ErrSealed = errors.New("the credential does not open with this key in this place")

// ErrKeyID is returned for a credential that was sealed with a key that the vault does
// not have.
var ErrKeyID = errors.New("the credential was sealed with another key")

// Binding is what a sealed credential belongs to, and where it may be sent.
type Binding struct {
	Project    string
	Connection [16]byte
	Version    int
	// Connector and Settings are the connection's, exactly as they are stored: they
	// determine where the credential is sent.
	Connector string
	Settings  []byte
	// Identity is the connection's account at the platform; empty: not known.
	Identity string
}

// Vault seals with its first key and opens with all of them. It is safe for
// concurrent use.
type Vault struct {
	keys []*keyring
	// late finds keys that were added since; nil: keys are never added.
	late *late
}

// keyring holds the keys that are derived from one key.
type keyring struct {
	id string
	// wrap seals data keys.
	wrap        cipher.AEAD
	fingerprint []byte
}

// New returns a vault of 32-byte keys: the first seals and opens; the others, which are
// older or future keys, only open.
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
	// Every use has a key of its own, so that no use weakens another.
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

// find returns the key with an id, and nil if the vault does not have it.
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

// KeyID returns the id of the key that seals. It is stored beside a sealed credential and
// identifies the key that opens it. It reveals nothing about the key itself.
func (v *Vault) KeyID() string { return v.keys[0].id }

// KeyIDs returns the ids of the keys of the start, the one that seals first.
func (v *Vault) KeyIDs() []string {
	out := make([]string, len(v.keys))
	for i, k := range v.keys {
		out[i] = k.id
	}
	return out
}

// Missing returns the ids among used whose keys the vault does not have.
func (v *Vault) Missing(used []string) []string {
	return slices.DeleteFunc(slices.Clone(used), func(id string) bool { return v.find(id) != nil })
}

// Fingerprint returns a short name for a connection's secret, so that users can distinguish
// two secrets without seeing them. It is keyed: without the vault's key no guess can be
// tested. It is salted with the connection: storing a guess on another connection confirms
// nothing. It is made with the key that seals, so it changes with that key.
func (v *Vault) Fingerprint(secret []byte, connection [16]byte) string {
	return v.keys[0].mark(secret, connection)
}

// Recognizes reports whether a fingerprint belongs to a connection's secret, under any of
// the keys of the start.
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

// associated encodes a binding. Every field is preceded by its length, so that no two
// bindings have the same encoding.
func (p Binding) associated() []byte {
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

// random returns n random bytes of the system.
func random(n int) ([]byte, error) {
	out := make([]byte, n)
	if _, err := rand.Read(out); err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return out, nil
}
