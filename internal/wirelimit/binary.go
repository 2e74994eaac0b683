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
	unknown int
	broken  bool
}

// message counts one message, or a part of one. base is the offset of its row.
func (w *walk) message(m *message, data []byte, counts []uint32, base int) *TooMany {
	for len(data) > 0 && !w.broken {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return w.fail()
		}
		data = data[n:]
		f := m.byNumber(num)
		if f == nil || typ != f.wire && (!f.packable || typ != protowire.BytesType) {
			f = nil
			if w.unknown++; w.unknown > Unknown {
				return &TooMany{Limit: Unknown}
			}
		}
		value, rest, ok := split(typ, data)
		if !ok {
			return w.fail()
		}
		data = rest
		if f == nil || f.single && f.child == nil {
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

func (w *walk) fail() *TooMany {
	w.broken = true
	return nil
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
