package job

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"regexp"
	"strings"
)

// Rules of this file:
//   - an effect key is derived from what the client sent, and from nothing that a database
//     generated. A client that repeats its request after the database was lost reaches the
//     receiver under the same key, and the receiver drops the second request;
//   - two effects never share a key: the encoding below is injective, and SHA-256 keeps
//     its inputs apart;
//   - no safety rests on a key being secret. It can be computed from its four inputs;
//   - the encoding never changes. A change would need another domain and another prefix,
//     and receivers would not recognize what was sent before.

const (
	// effectKeyDomain separates these digests from any other use of SHA-256.
	effectKeyDomain = "fireonce effect key 1"
	// effectKeyPrefix starts every derived key. With the digest it is 56 characters of
	// a-z, 0-9 and "_", which fits webhook-id, Idempotency-Key, a Message-ID and a URL.
	effectKeyPrefix = "fo1_"
	// EffectKeyLen is the length of a derived effect key.
	EffectKeyLen = len(effectKeyPrefix) + 52
)

// EffectKey returns the key on which a KEYED target dedupes: a digest of the installation's
// namespace, the project, the client's idempotency key, and the round. A new round wants a
// new effect, so it has another key.
func EffectKey(namespace, project, key string, round int) string {
	var buf [256]byte // enough for most inputs; append grows it for the others
	sum := sha256.Sum256(appendEffectKeyInput(buf[:0], namespace, project, key, round))
	var out [EffectKeyLen]byte
	copy(out[:], effectKeyPrefix)
	lowerBase32.Encode(out[len(effectKeyPrefix):], sum[:])
	return string(out[:])
}

// EffectKey returns the key of the job's present round: the caller's own, or the derived one
// (see the function EffectKey). The jobs of one notice have one key in all rounds: a repeat of
// a notice wants no new effect.
func (j Job) EffectKey(namespace string) string {
	if j.OwnEffectKey != "" {
		return j.OwnEffectKey
	}
	key, round := j.Key, max(j.Round, 1)
	if j.IsNotice() {
		key, round = effectKeyOfNotice(j.Key)
	}
	return EffectKey(namespace, j.Project, key, round)
}

// appendEffectKeyInput appends the bytes that are digested: the domain and the three texts,
// each after its length in four bytes, then the round in eight bytes, all big-endian.
func appendEffectKeyInput(out []byte, namespace, project, key string, round int) []byte {
	for _, t := range [...]string{effectKeyDomain, namespace, project, key} {
		out = binary.BigEndian.AppendUint32(out, uint32(len(t)))
		out = append(out, t...)
	}
	return binary.BigEndian.AppendUint64(out, uint64(round))
}

// reservedEffectKey matches derived keys, of this encoding and of later ones.
var reservedEffectKey = regexp.MustCompile(`^(?i:fo)[0-9]+_`)

// ReservedEffectKey reports whether an effect key has the form of derived keys. A caller may
// not give such a key: it could be another job's.
func ReservedEffectKey(key string) bool { return reservedEffectKey.MatchString(key) }

// EffectKeyDigest identifies a caller's own effect key at a receiver. Each is used once.
func EffectKeyDigest(receiver, effectKey string) [sha256.Size]byte {
	return keyDigest("fireonce own effect key 1", receiver, effectKey)
}

// lowerBase32 is RFC 4648's base32 in lower case, without padding.
var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// MaxNamespace is the length of a namespace, in bytes.
const MaxNamespace = 64

// ErrBadNamespace is returned for a text that is not a namespace.
var ErrBadNamespace = errors.New("a namespace has 1 to 64 characters: a to z, 0 to 9 and hyphens, and no hyphen at its ends")

// NewNamespace returns a namespace that no other installation has: 128 random bits.
func NewNamespace() string {
	var b [16]byte
	rand.Read(b[:])
	return lowerBase32.EncodeToString(b[:])
}

// CheckNamespace fails with ErrBadNamespace if text is not a namespace.
func CheckNamespace(text string) error {
	if text == "" || len(text) > MaxNamespace || strings.HasPrefix(text, "-") || strings.HasSuffix(text, "-") ||
		strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return ErrBadNamespace
	}
	return nil
}
