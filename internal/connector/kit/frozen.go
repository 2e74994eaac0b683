package kit

import (
	"encoding/binary"
	"errors"
)

// FrozenField is one named value of a job.Canon encoding.
type FrozenField struct {
	Name  string
	Value []byte
}

// ErrBadFrozen says that bytes are no job.Canon encoding.
var ErrBadFrozen = errors.New("not frozen bytes")

// maxFrozenFields bounds what Thaw reads.
const maxFrozenFields = 1024

// usualFields is how many fields most encodings have.
const usualFields = 6

// Thaw reads a job.Canon encoding back: the fields in their order. The values
// are parts of b.
func Thaw(b []byte) ([]FrozenField, error) {
	if len(b) == 0 || b[0] != 1 {
		return nil, ErrBadFrozen
	}
	b = b[1:]
	out := make([]FrozenField, 0, usualFields)
	for len(b) > 0 {
		var name, value []byte
		var ok bool
		if name, b, ok = prefixed(b); !ok {
			return nil, ErrBadFrozen
		}
		if value, b, ok = prefixed(b); !ok || len(out) == maxFrozenFields {
			return nil, ErrBadFrozen
		}
		out = append(out, FrozenField{Name: string(name), Value: value})
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
