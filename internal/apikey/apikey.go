// Package apikey makes and parses the keys of clients. It uses the standard library
// only and does not know the store: callers store the hash of a key.
//
// A key is "fo_", 16 hexadecimal digits of its id, "_", and 49 characters of base64url:
// 32 random bytes, and the CRC-32 of everything before it. A scanner finds leaked keys by
//
//	fo_[0-9a-f]{16}_[A-Za-z0-9_-]{49}
//
// and recognizes false matches by the checksum alone, without a server. The checksum has
// no other purpose. The 256 random bits make a key secure, so a plain hash of the key is
// enough to recognize it.
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
	// idEnd is the offset at which the id of a key ends.
	idEnd = len(prefix) + 2*idSize
	// length is the length of a key: 32 bytes take 43 characters, the checksum's 4 take 6.
	length = idEnd + 1 + 43 + 6
)

// ErrForm is returned for a text that is not a key. It does not quote the text.
var ErrForm = errors.New("not an API key")

// Key is the key of a client. It is a secret.
type Key struct {
	// ID names the key. It is not secret.
	ID   string
	text string
}

// New makes a key. It fails if the system returns no randomness.
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

// Looks reports whether a text begins as a key of this kind does.
func Looks(text string) bool { return strings.HasPrefix(text, prefix) }

// IsID reports whether a text has the form of a key's id.
func IsID(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == idSize && hex.EncodeToString(b) == text
}

// Parse parses a key. It fails with ErrForm.
func Parse(text string) (Key, error) {
	if len(text) != length || !Looks(text) || text[idEnd] != '_' {
		return Key{}, ErrForm
	}
	id := text[len(prefix):idEnd]
	if !IsID(id) {
		return Key{}, ErrForm
	}
	body := text[:length-6]
	secret, err := base64.RawURLEncoding.Strict().DecodeString(body[idEnd+1:])
	if err != nil || len(secret) != secretSize || text[length-6:] != sum(body) {
		return Key{}, ErrForm
	}
	return Key{ID: id, text: text}, nil
}

// Reveal returns the text that a client sends.
func (k Key) Reveal() string { return k.text }

// Hash returns the hash by which a key is stored and recognized.
func (k Key) Hash() [sha256.Size]byte { return sha256.Sum256([]byte(k.text)) }

// String returns the key's name without its secret, so that no secret is printed by mistake.
func (k Key) String() string { return prefix + k.ID + "_…" }

// GoString returns String's text.
func (k Key) GoString() string { return k.String() }

// Format writes String's text for every verb.
func (k Key) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.String()) }

// LogValue returns String's text.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }
