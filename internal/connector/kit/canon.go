package kit

import (
	"encoding/binary"
	"errors"

	"github.com/fireonce/fireonce/internal/job"
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

// A FrozenField is a field of a frozen encoding, with its value at a *string, *[]byte or *bool.
type FrozenField struct {
	Name string
	At   any
}

// set is the value of a switch that is on.
const set = "\x01"

// Freeze appends fields to an encoding, in their order.
func Freeze(c *job.Canon, fields ...FrozenField) *job.Canon {
	for _, f := range fields {
		var value []byte
		switch at := f.At.(type) {
		case *string:
			value = []byte(*at)
		case *[]byte:
			value = *at
		case *bool:
			if *at {
				value = []byte(set)
			}
		}
		c.Field(f.Name, value)
	}
	return c
}

// Thaw reads the fields that Freeze has put first into an encoding, and returns those after them.
// It fails with ErrBadCanon.
func Thaw(frozen []byte, fields ...FrozenField) (rest []CanonField, err error) {
	got, err := DecodeCanon(frozen)
	if err != nil {
		return nil, err
	}
	return thawFields(got, fields...)
}

func thawFields(got []CanonField, fields ...FrozenField) (rest []CanonField, err error) {
	if len(got) < len(fields) {
		return nil, ErrBadCanon
	}
	for i, f := range fields {
		if got[i].Name != f.Name {
			return nil, ErrBadCanon
		}
		switch at := f.At.(type) {
		case *string:
			*at = string(got[i].Value)
		case *[]byte:
			*at = got[i].Value
		case *bool:
			*at = string(got[i].Value) == set
		}
	}
	return got[len(fields):], nil
}

// ThawAll is Thaw for an encoding that has no further fields.
func ThawAll(frozen []byte, fields ...FrozenField) error {
	if rest, err := Thaw(frozen, fields...); err != nil || len(rest) > 0 {
		return ErrBadCanon
	}
	return nil
}

func prefixed(b []byte) (value, rest []byte, ok bool) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return nil, nil, false
	}
	return b[used : used+int(n)], b[used+int(n):], true
}
