package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: two messages have the same canonical encoding exactly
// when they say the same, whatever order, compression of defaults or language
// they came in. A message is a job.Canon: its present fields in the order of
// their numbers, each under its number. A value is
//
//   - a bool: one byte; an integer: eight bytes, big endian, signed ones in two's
//     complement; an enum: its number, as an integer;
//   - a float: its bits, four or eight bytes, so that every NaN is itself and
//     minus zero is not zero;
//   - a string or bytes: as they are;
//   - a message: its own encoding;
//   - a list: its elements, each length-prefixed; a map: its entries, each key
//     and value length-prefixed, in the order of the encoded keys.
//
// A stored fingerprint depends on every byte of this: a change needs a new
// version of job.Canon.

// ErrUnknownField means that a message has a field that this server does not
// know. What it asks for cannot be compared, and must not be ignored.
var ErrUnknownField = errors.New("has a field that this server does not know")

// Canonical encodes a message. It fails with ErrUnknownField.
func Canonical(m protoreflect.Message) ([]byte, error) {
	if len(m.GetUnknown()) > 0 {
		return nil, fmt.Errorf("%s: %w", m.Descriptor().FullName(), ErrUnknownField)
	}
	type field struct {
		desc  protoreflect.FieldDescriptor
		value protoreflect.Value
		enc   []byte
	}
	fields := make([]field, 0, 4) // as many as most messages have
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		fields = append(fields, field{desc: d, value: v})
		return true
	})
	slices.SortFunc(fields, func(a, b field) int { return int(a.desc.Number()) - int(b.desc.Number()) })
	size := 0
	for i := range fields {
		f := &fields[i]
		var err error
		if f.enc, err = canonicalField(f.desc, f.value); err != nil {
			return nil, err
		}
		size += len(f.enc) + 2*binary.MaxVarintLen32
	}
	c := job.NewCanon().Grow(size)
	for _, f := range fields {
		c.Field(strconv.Itoa(int(f.desc.Number())), f.enc)
	}
	return c.Bytes(), nil
}

func canonicalField(d protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch {
	case d.IsMap():
		return canonicalMap(d, v.Map())
	case d.IsList():
		var out []byte
		list := v.List()
		for i := range list.Len() {
			elem, err := canonicalValue(d, list.Get(i))
			if err != nil {
				return nil, err
			}
			out = AppendPrefixed(out, elem)
		}
		return out, nil
	default:
		return canonicalValue(d, v)
	}
}

func canonicalMap(d protoreflect.FieldDescriptor, m protoreflect.Map) ([]byte, error) {
	type entry struct{ key, value []byte }
	var entries []entry
	var failed error
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		var e entry
		if e.key, failed = canonicalValue(d.MapKey(), k.Value()); failed != nil {
			return false
		}
		e.value, failed = canonicalValue(d.MapValue(), v)
		entries = append(entries, e)
		return failed == nil
	})
	if failed != nil {
		return nil, failed
	}
	slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	var out []byte
	for _, e := range entries {
		out = AppendPrefixed(AppendPrefixed(out, e.key), e.value)
	}
	return out, nil
}

func canonicalValue(d protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch d.Kind() {
	case protoreflect.BoolKind:
		if v.Bool() {
			return []byte{1}, nil
		}
		return []byte{0}, nil
	case protoreflect.EnumKind:
		return CanonicalInt(int64(v.Enum())), nil
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind,
		protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return CanonicalInt(v.Int()), nil
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return binary.BigEndian.AppendUint64(nil, v.Uint()), nil
	case protoreflect.FloatKind:
		return binary.BigEndian.AppendUint32(nil, math.Float32bits(float32(v.Float()))), nil
	case protoreflect.DoubleKind:
		return binary.BigEndian.AppendUint64(nil, math.Float64bits(v.Float())), nil
	case protoreflect.StringKind:
		return []byte(v.String()), nil
	case protoreflect.BytesKind:
		return v.Bytes(), nil
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return Canonical(v.Message())
	default:
		return nil, fmt.Errorf("no canonical form for kind %s", d.Kind())
	}
}

// CanonicalInt is the canonical encoding of an integer.
func CanonicalInt(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// AppendPrefixed appends a value after its length.
func AppendPrefixed(out, value []byte) []byte {
	out = binary.AppendUvarint(out, uint64(len(value)))
	return append(out, value...)
}
