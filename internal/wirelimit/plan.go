// Package wirelimit counts the elements of an encoded message before anything decodes it.
//
// A decoder makes an object of each element. An empty element takes two bytes on the wire
// and a hundred in memory. The contract bounds the elements of each list and each map. This
// package reads those rules from the descriptors and refuses a message that has more, so
// that a message that passes decodes to a known number of objects. JSON of any form
// (google.protobuf.Value) has no rule in the contract: its bounds are here. The package checks
// nothing else: the decoder and the contract's other rules decide whether a message is valid.
package wirelimit

import (
	"cmp"
	"errors"
	"fmt"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// Unruled bounds a list or a map for which the contract has no rule.
	Unruled = 100
	// Merged bounds how often a message may come for a field that takes one message.
	// Decoders merge the parts; an encoder writes one.
	Merged = 8
	// Unknown bounds the fields of a message that this version does not know, including
	// those of its parts.
	Unknown = 1000
	// Values bounds the values of one google.protobuf.Value, itself and each object and list
	// among them. A value takes up to 600 bytes in memory.
	Values = 10_000
	// AllValues bounds the values of all of them in a message.
	AllValues = 50_000
	// Levels bounds how deep objects and lists are in each other. Decoders, and all that walks
	// through what they return, call themselves for each level.
	Levels = 32
)

// TooMany is returned if a list, a map or a message has more elements than it may.
type TooMany struct {
	// Field is the path from the message on, e.g. "requests[3].payload.email.to". Empty:
	// the unknown fields.
	Field string
	Limit int
	// what is counted; empty: elements.
	what string
}

// Error implements error.
func (e *TooMany) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("the request has more than %d unknown fields", e.Limit)
	}
	return fmt.Sprintf("%s has more than %d %s", e.Field, e.Limit, cmp.Or(e.what, "elements"))
}

// inside returns the error as seen from the message that holds the field.
func (e *TooMany) inside(field string) *TooMany {
	if e.Field == "" {
		return e
	}
	return &TooMany{Field: field + "." + e.Field, Limit: e.Limit, what: e.what}
}

// Malformed is returned if no decoder can parse the message.
type Malformed struct {
	// At is the length of the part of a JSON text that was read and is within the limits.
	At int
}

// Error implements error.
func (e *Malformed) Error() string { return "the message is malformed" }

// Plan is the list of what to count in messages of one type.
type Plan struct{ root *message }

// message is a type of message. Its counters, and those of the messages in its singular
// fields, are in one row: parts that a decoder merges share them.
type message struct {
	numbers  []*field // by number, while numbers are small
	others   map[protowire.Number]*field
	names    map[string]*field // in JSON
	counters int
}

type field struct {
	name string
	// single is a field that takes one value; the elements of lists and of pairs are counted.
	single, pairs bool
	// counter is the field's index in the row of its message. first is the index at which
	// the row of the child of a single field begins.
	counter, first int
	limit          int
	kind           protoreflect.Kind
	wire           protowire.Type // of one value
	packable       bool
	child          *message // nil: a scalar
	// free: JSON of any form. Its values are counted where the row of a child would begin.
	free bool
	// text: JSON writes the message as one value; commas: as a list of names.
	text, commas bool
}

// dense is the highest field number that is found without a map.
const dense = 64

// Compile returns the plan of a type of message. It fails for types that have no bound.
func Compile(md protoreflect.MessageDescriptor) (*Plan, error) {
	c := compiler{done: make(map[protoreflect.FullName]*message), open: make(map[protoreflect.FullName]bool)}
	root, err := c.message(md)
	if err != nil {
		return nil, fmt.Errorf("limits of %s: %w", md.FullName(), err)
	}
	return &Plan{root: root}, nil
}

type compiler struct {
	done map[protoreflect.FullName]*message
	open map[protoreflect.FullName]bool
}

const valueName = "google.protobuf.Value"

// oneValue stands for google.protobuf.Value, which is not described as other messages are.
var oneValue = &message{}

// values counts the values of one google.protobuf.Value.
type values struct {
	one *uint32 // of it
	all *int    // of all of them in the message
}

// add counts one more value.
func (v values) add() *TooMany {
	*v.one++
	*v.all++
	switch {
	case *v.one > Values:
		return &TooMany{Limit: Values, what: "values"}
	case *v.all > AllValues:
		return &TooMany{Limit: AllValues, what: "values, with those of the bodies before it"}
	default:
		return nil
	}
}

// deeper returns the depth of what is in an object or a list at a depth.
func deeper(depth int) (int, *TooMany) {
	if depth == Levels {
		return 0, &TooMany{Limit: Levels, what: "levels of objects and lists"}
	}
	return depth + 1, nil
}

// of returns an error about values as that of their field.
func (e *TooMany) of(field string) *TooMany {
	if e != nil && e.what != "" {
		e.Field = field
	}
	return e
}

var errUnbounded = errors.New("a message may hold itself, or anything")

func (c *compiler) message(md protoreflect.MessageDescriptor) (*message, error) {
	name := md.FullName()
	if m := c.done[name]; m != nil {
		return m, nil
	}
	switch name {
	case "google.protobuf.Any", "google.protobuf.Struct", valueName, "google.protobuf.ListValue":
		return nil, fmt.Errorf("%s: %w", name, errUnbounded)
	}
	if c.open[name] {
		return nil, fmt.Errorf("%s: %w", name, errUnbounded)
	}
	c.open[name] = true
	m := &message{
		numbers: make([]*field, dense), others: make(map[protowire.Number]*field), names: make(map[string]*field),
	}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		f, err := c.field(m, fd)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fd.Name(), err)
		}
		if n := fd.Number(); n < dense {
			m.numbers[n] = f
		} else {
			m.others[n] = f
		}
		m.names[string(fd.Name())], m.names[fd.JSONName()] = f, f
	}
	c.done[name] = m
	delete(c.open, name)
	return m, nil
}

// field makes a field and assigns it an index in the row of m.
func (c *compiler) field(m *message, fd protoreflect.FieldDescriptor) (*field, error) {
	f := &field{
		name: string(fd.Name()), single: fd.Cardinality() != protoreflect.Repeated, pairs: fd.IsMap(),
		kind: fd.Kind(), wire: wireTypes[fd.Kind()], counter: m.counters, limit: Limit(fd),
	}
	if fd.Message() != nil && fd.Message().FullName() == valueName && f.single {
		f.free, f.child, f.limit, f.first = true, oneValue, Merged, m.counters+1
		m.counters += 2
		return f, nil
	}
	f.packable = fd.IsList() && f.wire != protowire.BytesType && fd.Kind() != protoreflect.GroupKind
	if fd.Message() != nil {
		child, err := c.message(fd.Message())
		if err != nil {
			return nil, err
		}
		f.child = child
		f.text, f.commas = textInJSON(fd.Message().FullName())
	}
	if f.single && f.child == nil {
		return f, nil
	}
	m.counters++
	if f.single {
		f.first, f.limit = m.counters, Merged
		m.counters += f.child.counters
	}
	return f, nil
}

// textInJSON reports whether JSON writes a message as one value, and whether that is a
// list of names.
func textInJSON(name protoreflect.FullName) (text, commas bool) {
	switch name {
	case "google.protobuf.FieldMask":
		return true, true
	case "google.protobuf.Timestamp", "google.protobuf.Duration",
		"google.protobuf.BoolValue", "google.protobuf.StringValue", "google.protobuf.BytesValue",
		"google.protobuf.Int32Value", "google.protobuf.Int64Value", "google.protobuf.UInt32Value",
		"google.protobuf.UInt64Value", "google.protobuf.FloatValue", "google.protobuf.DoubleValue":
		return true, false
	default:
		return false, false
	}
}

// Limit returns the number of elements that the contract allows for a list or a map.
func Limit(fd protoreflect.FieldDescriptor) int {
	rules, _ := proto.GetExtension(fd.Options(), validate.E_Field).(*validate.FieldRules)
	switch {
	case fd.IsMap() && rules.GetMap().HasMaxPairs():
		return int(rules.GetMap().GetMaxPairs())
	case fd.IsList() && rules.GetRepeated().HasMaxItems():
		return int(rules.GetRepeated().GetMaxItems())
	default:
		return Unruled
	}
}

var wireTypes = map[protoreflect.Kind]protowire.Type{
	protoreflect.BoolKind:     protowire.VarintType,
	protoreflect.EnumKind:     protowire.VarintType,
	protoreflect.Int32Kind:    protowire.VarintType,
	protoreflect.Sint32Kind:   protowire.VarintType,
	protoreflect.Uint32Kind:   protowire.VarintType,
	protoreflect.Int64Kind:    protowire.VarintType,
	protoreflect.Sint64Kind:   protowire.VarintType,
	protoreflect.Uint64Kind:   protowire.VarintType,
	protoreflect.Sfixed32Kind: protowire.Fixed32Type,
	protoreflect.Fixed32Kind:  protowire.Fixed32Type,
	protoreflect.FloatKind:    protowire.Fixed32Type,
	protoreflect.Sfixed64Kind: protowire.Fixed64Type,
	protoreflect.Fixed64Kind:  protowire.Fixed64Type,
	protoreflect.DoubleKind:   protowire.Fixed64Type,
	protoreflect.StringKind:   protowire.BytesType,
	protoreflect.BytesKind:    protowire.BytesType,
	protoreflect.MessageKind:  protowire.BytesType,
	protoreflect.GroupKind:    protowire.StartGroupType,
}

// row is the size up to which a row of counters is on the stack.
const row = 64

// rowOf returns the counters of a message, all zero.
func rowOf(m *message, space *[row]uint32) []uint32 {
	if m.counters > row {
		return make([]uint32, m.counters)
	}
	return space[:m.counters]
}
