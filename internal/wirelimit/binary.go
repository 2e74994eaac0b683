package wirelimit

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Rules of this file: the wire is read as protobuf's decoder reads it. A field with a wire
// type other than its own counts as unknown, the parts of one message are counted together,
// and a packed list counts by its values. Groups are refused: no version of the contract
// has any.

// Binary returns nil if an encoded message is within the limits, and *TooMany or *Malformed
// otherwise.
func (p *Plan) Binary(data []byte) error {
	var w walk
	var counts [row]uint32
	if err := w.message(p.root, data, rowOf(p.root, &counts), 0); err != nil {
		return err
	}
	if w.broken {
		return &Malformed{}
	}
	return nil
}

// walk is the state of counting one message.
type walk struct {
	unknown, values int
	broken          bool
}

// message counts one message, or a part of one. base is the offset of its row.
func (w *walk) message(m *message, data []byte, counts []uint32, base int) *TooMany {
	for len(data) > 0 && !w.broken {
		num, typ, value, rest, ok := next(data)
		if !ok {
			return w.fail()
		}
		data = rest
		f := m.byNumber(num)
		if f == nil || typ != f.wire && (!f.packable || typ != protowire.BytesType) {
			if err := w.notKnown(); err != nil {
				return err
			}
			continue
		}
		if f.single && f.child == nil {
			continue
		}
		if err := w.field(f, typ, value, counts, base); err != nil {
			return err
		}
	}
	return nil
}

// field counts one occurrence of a field that has a counter.
func (w *walk) field(f *field, typ protowire.Type, value []byte, counts []uint32, base int) *TooMany {
	more := 1
	if f.packable && typ == protowire.BytesType {
		more = packed(f.wire, value)
	}
	count := &counts[base+f.counter]
	if *count += uint32(min(more, f.limit+1)); int(*count) > f.limit {
		return &TooMany{Field: f.name, Limit: f.limit}
	}
	if f.child == nil {
		return nil
	}
	if f.free {
		return w.value(values{&counts[base+f.first], &w.values}, value, 0).of(f.name)
	}
	if f.single {
		if err := w.message(f.child, value, counts, base+f.first); err != nil {
			return err.inside(f.name)
		}
		return nil
	}
	var space [row]uint32
	if err := w.message(f.child, value, rowOf(f.child, &space), 0); err != nil {
		return err.inside(f.name + "[" + strconv.Itoa(int(*count)-1) + "]")
	}
	return nil
}

// The fields of google.protobuf.Value, its parts, and the entries of its objects.
const (
	nullKind, numberKind, stringKind, boolKind, objectKind, listKind = 1, 2, 3, 4, 5, 6

	entriesOfObject, valueOfEntry, valuesOfList = 1, 2, 1
)

// valueWires are the wire types of the kinds of a value.
var valueWires = [...]protowire.Type{
	nullKind: protowire.VarintType, numberKind: protowire.Fixed64Type, stringKind: protowire.BytesType, boolKind: protowire.VarintType,
	objectKind: protowire.BytesType, listKind: protowire.BytesType,
}

// value counts a google.protobuf.Value. A second kind counts as a second value: a decoder makes it and
// drops the first.
func (w *walk) value(v values, data []byte, depth int) *TooMany {
	if err := v.add(); err != nil {
		return err
	}
	kinds := 0
	return w.each(data, func(num protowire.Number, typ protowire.Type, part []byte) *TooMany {
		if num > listKind || typ != valueWires[num] {
			return w.notKnown()
		}
		if kinds++; kinds > 1 {
			if err := v.add(); err != nil {
				return err
			}
		}
		if num != objectKind && num != listKind {
			return nil
		}
		depth, err := deeper(depth)
		switch {
		case err != nil:
			return err
		case num == objectKind:
			return w.inside(part, entriesOfObject, func(entry []byte) *TooMany { return w.entry(v, entry, depth) })
		default:
			return w.inside(part, valuesOfList, func(one []byte) *TooMany { return w.value(v, one, depth) })
		}
	})
}

// entry counts the values of an entry of an object. A decoder makes one even if the entry has none.
func (w *walk) entry(v values, data []byte, depth int) *TooMany {
	found := false
	err := w.each(data, func(num protowire.Number, typ protowire.Type, part []byte) *TooMany {
		switch {
		case num > valueOfEntry || typ != protowire.BytesType:
			return w.notKnown()
		case num != valueOfEntry: // its key
			return nil
		}
		found = true
		return w.value(v, part, depth)
	})
	if err != nil || found {
		return err
	}
	return v.add()
}

// inside calls one for each value of the field num, of messages. Others are unknown.
func (w *walk) inside(data []byte, num protowire.Number, one func([]byte) *TooMany) *TooMany {
	return w.each(data, func(n protowire.Number, typ protowire.Type, part []byte) *TooMany {
		if n != num || typ != protowire.BytesType {
			return w.notKnown()
		}
		return one(part)
	})
}

// each calls one for each field of a message, until one fails.
func (w *walk) each(data []byte, one func(protowire.Number, protowire.Type, []byte) *TooMany) *TooMany {
	for len(data) > 0 && !w.broken {
		num, typ, value, rest, ok := next(data)
		if !ok {
			return w.fail()
		}
		data = rest
		if err := one(num, typ, value); err != nil {
			return err
		}
	}
	return nil
}

// notKnown counts a field that this version does not know.
func (w *walk) notKnown() *TooMany {
	if w.unknown++; w.unknown > Unknown {
		return &TooMany{Limit: Unknown}
	}
	return nil
}

func (w *walk) fail() *TooMany {
	w.broken = true
	return nil
}

// next splits the first field off data.
func next(data []byte) (num protowire.Number, typ protowire.Type, value, rest []byte, ok bool) {
	num, typ, n := protowire.ConsumeTag(data)
	if n < 0 {
		return 0, 0, nil, nil, false
	}
	value, rest, ok = split(typ, data[n:])
	return num, typ, value, rest, ok
}

func (m *message) byNumber(n protowire.Number) *field {
	if n < dense {
		return m.numbers[n]
	}
	return m.others[n]
}

// split splits the first value off data.
func split(typ protowire.Type, data []byte) (value, rest []byte, ok bool) {
	var n int
	switch typ {
	case protowire.VarintType:
		_, n = protowire.ConsumeVarint(data)
	case protowire.Fixed32Type:
		_, n = protowire.ConsumeFixed32(data)
	case protowire.Fixed64Type:
		_, n = protowire.ConsumeFixed64(data)
	case protowire.BytesType:
		if value, n = protowire.ConsumeBytes(data); n < 0 {
			return nil, nil, false
		}
		return value, data[n:], true
	default:
		return nil, nil, false
	}
	if n < 0 {
		return nil, nil, false
	}
	return nil, data[n:], true
}

// packed returns the number of values in a packed list.
func packed(typ protowire.Type, data []byte) int {
	switch typ {
	case protowire.Fixed32Type:
		return len(data) / 4
	case protowire.Fixed64Type:
		return len(data) / 8
	default:
		n := 0
		for _, b := range data {
			if b < 0x80 { // the last byte of a number
				n++
			}
		}
		return n
	}
}
