// Package apikey makes and reads the keys of clients. It uses the standard library
// only, and knows no store: who keeps a key keeps its hash.
//
// A key is "fo_", 16 hexadecimal digits of its id, "_", and 49 letters of base64url:
// 32 random bytes, and the CRC-32 of all that comes before. Whoever looks for keys
// that leaked finds them by
//
//	fo_[0-9a-f]{16}_[A-Za-z0-9_-]{49}
//
// and tells by the sum, without asking anybody, what is none. The sum guards nothing
// else; the 256 bits do, so a plain hash of the key is enough to know it by.
package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"strings"
)

const (
	prefix     = "fo_"
	idSize     = 8
	secretSize = 32
	// idEnd is where the id of a key ends.
	idEnd = len(prefix) + 2*idSize
	// length is that of a key: 32 bytes are 43 letters, the sum's 4 are 6.
	length = idEnd + 1 + 43 + 6
)

// ErrForm says that a text is no key. It does not repeat the text.
var ErrForm = errors.New("not an API key")

// Key is the key of a client. It is a secret.
type Key struct {
	// ID names the key. It is no secret.
	ID   string
	text string
}

// New makes a key. It fails when the system gives no randomness.
func New() (Key, error) {
	var b [idSize + secretSize]byte
	if _, err := rand.Read(b[:]); err != nil {
		return Key{}, fmt.Errorf("new API key: %w", err)
	}
	id := hex.EncodeToString(b[:idSize])
	text := prefix + id + "_" + base64.RawURLEncoding.EncodeToString(b[idSize:])
	return Key{ID: id, text: text + sum(text)}, nil
}

func sum(text string) string {
	b := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(text)))
	return base64.RawURLEncoding.EncodeToString(b)
}

// Looks tells whether a text claims to be a key of this kind.
func Looks(text string) bool { return strings.HasPrefix(text, prefix) }

// Parse reads a key. It fails with ErrForm.
func Parse(text string) (Key, error) {
	if len(text) != length || !Looks(text) || text[idEnd] != '_' {
		return Key{}, ErrForm
	}
	id := text[len(prefix):idEnd]
	if b, err := hex.DecodeString(id); err != nil || hex.EncodeToString(b) != id {
		return Key{}, ErrForm
	}
	body := text[:length-6]
	secret, err := base64.RawURLEncoding.Strict().DecodeString(body[idEnd+1:])
	if err != nil || len(secret) != secretSize || text[length-6:] != sum(body) {
		return Key{}, ErrForm
	}
	return Key{ID: id, text: text}, nil
}

// Reveal gives the text that a client sends.
func (k Key) Reveal() string { return k.text }

// Hash is what a key is known by.
func (k Key) Hash() [sha256.Size]byte { return sha256.Sum256([]byte(k.text)) }

// String names a key without its secret, so that none is printed by mistake.
func (k Key) String() string { return prefix + k.ID + "_…" }

// GoString is String.
func (k Key) GoString() string { return k.String() }

// Format is String, whatever the verb.
func (k Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.String()) }

// LogValue is String.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }
