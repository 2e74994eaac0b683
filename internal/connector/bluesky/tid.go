package bluesky

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// Rules of this file: a post's key is a TID (https://atproto.com/specs/tid): 64 bits,
// the highest zero, then 53 bits of microseconds since 1970, then 10 bits that tell
// clocks apart; written with 5 bits a character, sortable.
//
// The key follows from the digest of the effect key alone, so that every attempt puts the
// post at the same place, also one that is made after the database was lost. Its time
// proves nothing: it lies in a range of 407 days that has passed, since a server may refuse a
// key of the future. With the clock's bits that is one of 2^55 places.

const (
	tidAlphabet = "234567abcdefghijklmnopqrstuvwxyz"
	tidLength   = 13
	clockBits   = 10
	// rangeStart is 2023-01-01T00:00:00Z in microseconds, and rangeBits how many of them
	// follow.
	rangeStart = 1_672_531_200_000_000
	rangeBits  = 45
)

// keyOf returns the record key of an effect.
func keyOf(effectKey string) string {
	sum := sha256.Sum256([]byte("fireonce bluesky rkey\n" + effectKey))
	digest := binary.BigEndian.Uint64(sum[:])
	micros := rangeStart + digest&(1<<rangeBits-1)
	n := micros<<clockBits | digest>>(64-clockBits)
	var out [tidLength]byte
	for i := tidLength - 1; i >= 0; i-- {
		out[i] = tidAlphabet[n&31]
		n >>= 5
	}
	return string(out[:])
}

// validTID reports whether a text is a TID.
func validTID(s string) bool {
	return len(s) == tidLength && strings.Trim(s, tidAlphabet) == "" && strings.IndexByte(tidAlphabet, s[0]) < 16
}
