package kit

import (
	"encoding/binary"
	"errors"
)

// CanonField is one named value of a job.Canon encoding.
type CanonField struct {
	Name  string
	Value []byte
}

// ErrBadCanon is the error for bytes that are no job.Canon encoding.
var ErrBadCanon = errors.New("not a canonical encoding")

// maxCanonFields bounds what DecodeCanon reads.
const maxCanonFields = 1024

// usualFields is how many fields most encodings have.
const usualFields = 6

// DecodeCanon reads a job.Canon encoding back: the fields in their order. The values
// are parts of b.
func DecodeCanon(b []byte) ([]CanonField, error) {
	if len(b) == 0 || b[0] != 1 {
		return nil, ErrBadCanon
	}
	b = b[1:]
	out := make([]CanonField, 0, usualFields)
	for len(b) > 0 {
		var name, value []byte
		var ok bool
		if name, b, ok = prefixed(b); !ok {
			return nil, ErrBadCanon
		}
		if value, b, ok = prefixed(b); !ok || len(out) == maxCanonFields {
			return nil, ErrBadCanon
		}
		out = append(out, CanonField{Name: string(name), Value: value})
	}
	return out, nil
}

func prefixed(b []byte) (value, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return nil, nil, false
	}
	return b[used : used+int(n)], b[used+int(n):], true
}
