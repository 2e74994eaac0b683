package bluesky

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"strings"
	"time"
)

// Rules of this file: a post's key is a TID (https://atproto.com/specs/tid): 64 bits,
// the highest zero, then 53 bits of microseconds since 1970, then 10 bits that tell
// clocks apart; written with 5 bits a character, sortable.
//
// The key follows from the effect key alone, so that every attempt puts the post at
// the same place. Its time is that of the job's id, less up to 18 minutes by the
// digest of the effect key: with the clock's bits that is one of 2^40 places, and
// jobs that came in the same millisecond do not meet.

const (
	tidAlphabet = "234567abcdefghijklmnopqrstuvwxyz"
	tidLength   = 13
	clockBits   = 10
	spreadBits  = 30
	timeBits    = 53
)

// keyOf gives the record key of an effect.
func keyOf(effectKey string) string {
	sum := sha256.Sum256([]byte("fireonce bluesky rkey\n" + effectKey))
	digest := binary.BigEndian.Uint64(sum[:])
	micros := digest >> (64 - timeBits) // an effect key without a time
	if at, ok := keyTime(effectKey); ok {
		micros = uint64(at.UnixMicro()) - digest&(1<<spreadBits-1)
	}
	n := micros&(1<<timeBits-1)<<clockBits | digest>>(64-clockBits)
	var out [tidLength]byte
	for i := tidLength - 1; i >= 0; i-- {
		out[i] = tidAlphabet[n&31]
		n >>= 5
	}
	return string(out[:])
}

// keyTime reads the time out of a job's id, a UUID of version 7 (RFC 9562, section
// 5.7), with which an effect key starts.
func keyTime(effectKey string) (at time.Time, ok bool) {
	if len(effectKey) < 36 || effectKey[14] != '7' {
		return time.Time{}, false
	}
	ms, err := strconv.ParseUint(effectKey[:8]+effectKey[9:13], 16, 48)
	if err != nil || ms < 1<<spreadBits || ms >= 1<<(timeBits-clockBits) {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(ms)).UTC(), true
}

// validTID tells whether a text is a TID.
func validTID(s string) bool {
	return len(s) == tidLength && strings.Trim(s, tidAlphabet) == "" && strings.IndexByte(tidAlphabet, s[0]) < 16
}
