package job

import (
	"crypto/sha256"
	"encoding/binary"
)

// keyDigestDomain separates these digests from any other use of SHA-256.
const keyDigestDomain = "fireonce idempotency key 1"

// KeyDigest returns what a store keeps for an idempotency key: SHA-256 over a domain, the
// project and the key, each after its length in four bytes, big-endian. The digest is kept
// longer than the job. The key itself, which may name a person, is not.
func KeyDigest(project, key string) [sha256.Size]byte {
	return keyDigest(keyDigestDomain, project, key)
}

func keyDigest(domain, of, key string) [sha256.Size]byte {
	b := make([]byte, 0, 12+len(domain)+len(of)+len(key))
	for _, text := range [...]string{domain, of, key} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	return sha256.Sum256(b)
}
