package wire_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server/wire"
)

func customPayload(schema, data string) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Custom{Custom: &fireoncev1.CustomPayload{Schema: schema, Data: []byte(data)}}}
}

func encode(t interface{ Fatal(...any) }, m proto.Message) []byte {
	b, err := wire.Canonical(m.ProtoReflect())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCanonicalVectors pins the encoding: fingerprints in databases depend on it.
func TestCanonicalVectors(t *testing.T) {
	text := func(s string) *fireoncev1.Payload {
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: s}}}
	}
	for name, tt := range map[string]struct {
		m    proto.Message
		want string
	}{
		"nothing":   {&fireoncev1.RetryPolicy{}, "01"},
		"a number":  {&fireoncev1.RetryPolicy{MaxAttempts: 3}, "01" + "0131" + "08" + "0000000000000003"},
		"a message": {&fireoncev1.RetryPolicy{MinBackoff: durationpb.New(0)}, "01" + "0132" + "01" + "01"},
		"a oneof":   {text("hi"), "01" + "0131" + "06" + "01" + "0131" + "02" + "6869"},
		"an empty member of a oneof": {
			text(""), "01" + "0131" + "01" + "01",
		},
		"an enum below zero": {
			&fireoncev1.MastodonOptions{Visibility: -1}, "01" + "0131" + "08" + "ffffffffffffffff",
		},
		"two fields, in the order of their numbers": {
			&fireoncev1.CustomPayload{Schema: "a/v1", Data: []byte{0}}, "01" + "0131" + "04" + "612f7631" + "0133" + "01" + "00",
		},
		"a list": {
			&fireoncev1.Email{To: []string{"a", "", "b"}}, "01" + "0132" + "05" + "0161" + "00" + "0162",
		},
		"a map, in the order of its keys": {
			&connectionsv1.CustomSettings{Values: map[string]string{"b": "2", "a": "1"}}, "01" + "0131" + "08" + "01610131" + "01620132",
		},
		"a bool":   {wrapperspb.Bool(true), "01" + "0131" + "01" + "01"},
		"a double": {wrapperspb.Double(math.Copysign(0, -1)), "01" + "0131" + "08" + "8000000000000000"},
		"a float":  {wrapperspb.Float(1), "01" + "0131" + "04" + "3f800000"},
		"unsigned": {wrapperspb.UInt64(math.MaxUint64), "01" + "0131" + "08" + "ffffffffffffffff"},
	} {
		if got := hex.EncodeToString(encode(t, tt.m)); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestCanonicalRefusesUnknownFields(t *testing.T) {
	m := customPayload("a/v1", "")
	m.GetCustom().ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
	if b, err := wire.Canonical(m.ProtoReflect()); err == nil {
		t.Errorf("encoded as %x", b)
	}
}

// samples have every kind of field between them, with and without presence.
var samples = []proto.Message{
	&fireoncev1.ScheduleJobRequest{}, &connectionsv1.Connection{}, &fireoncev1.Payload{},
	&structpb.Struct{}, &wrapperspb.DoubleValue{}, &wrapperspb.FloatValue{},
	&descriptorpb.FieldDescriptorProto{}, &descriptorpb.UninterpretedOption{}, &descriptorpb.EnumDescriptorProto{},
}

// TestCanonicalProperty: equal messages have equal encodings, in whatever
// order they come over the wire; different ones have different encodings.
func TestCanonicalProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := samples[rapid.IntRange(0, len(samples)-1).Draw(t, "kind")]
		a, b := kind.ProtoReflect().New(), kind.ProtoReflect().New()
		fill(t, a, 3)
		fill(t, b, 3)
		encA, encB := encode(t, a.Interface()), encode(t, b.Interface())
		if same := proto.Equal(a.Interface(), b.Interface()); same != bytes.Equal(encA, encB) {
			t.Fatalf("equal: %t, but\n%v\n%x\n%v\n%x", same, a, encA, b, encB)
		}
		wire, err := proto.MarshalOptions{AllowPartial: true}.Marshal(a.Interface())
		if err != nil {
			t.Fatal(err)
		}
		again := kind.ProtoReflect().New().Interface()
		if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(shuffle(t, wire), again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(encode(t, again), encA) {
			t.Fatalf("another order on the wire, another encoding: %v", a)
		}
	})
}

// FuzzCanonical feeds two wire encodings of payloads.
func FuzzCanonical(f *testing.F) {
	for _, p := range []*fireoncev1.Payload{customPayload("a/v1", "x"), customPayload("a/v1", "y")} {
		b, err := proto.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, x, y []byte) {
		var a, b fireoncev1.Payload
		if proto.Unmarshal(x, &a) != nil || proto.Unmarshal(y, &b) != nil {
			return
		}
		encA, errA := wire.Canonical(a.ProtoReflect())
		encB, errB := wire.Canonical(b.ProtoReflect())
		if errA != nil || errB != nil {
			return // unknown fields
		}
		if proto.Equal(&a, &b) != bytes.Equal(encA, encB) {
			t.Fatalf("%v\n%x\n%v\n%x", &a, encA, &b, encB)
		}
	})
}

// fill sets random fields to values of a small domain, so that two random
// messages are often equal or nearly so.
func fill(t *rapid.T, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for range rapid.IntRange(0, 3).Draw(t, "fields") {
		d := fields.Get(rapid.IntRange(0, fields.Len()-1).Draw(t, "field"))
		nested := d.Message() != nil
		switch {
		case nested && depth == 0:
		case d.IsMap():
			entries := m.Mutable(d).Map()
			for range rapid.IntRange(0, 2).Draw(t, "entries") {
				key := scalar(t, d.MapKey()).MapKey()
				if d.MapValue().Message() == nil {
					entries.Set(key, scalar(t, d.MapValue()))
					continue
				}
				v := entries.NewValue()
				fill(t, v.Message(), depth-1)
				entries.Set(key, v)
			}
		case d.IsList():
			list := m.Mutable(d).List()
			for range rapid.IntRange(0, 2).Draw(t, "elements") {
				if !nested {
					list.Append(scalar(t, d))
					continue
				}
				v := list.NewElement()
				fill(t, v.Message(), depth-1)
				list.Append(v)
			}
		case nested:
			v := m.NewField(d)
			fill(t, v.Message(), depth-1)
			m.Set(d, v)
		default:
			m.Set(d, scalar(t, d))
		}
	}
}

func scalar(t *rapid.T, d protoreflect.FieldDescriptor) protoreflect.Value {
	n := rapid.IntRange(-1, 2).Draw(t, "value")
	switch d.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n > 0)
	case protoreflect.EnumKind:
		values := d.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get((n + 1) % values.Len()).Number())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(n))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n) / 3)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{"\x00\x01"[max(n, 0)%2]}[:max(n, 0)%2])
	default:
		return protoreflect.ValueOfString([]string{"", "1", "\x01", "1\x011"}[n+1])
	}
}

// shuffle puts the fields of an encoded message in another order, those of
// one number among themselves in the order they had.
func shuffle(t *rapid.T, wire []byte) []byte {
	byNumber := map[protowire.Number][]byte{}
	var numbers []protowire.Number
	for len(wire) > 0 {
		number, _, n := protowire.ConsumeField(wire)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		if byNumber[number] == nil {
			numbers = append(numbers, number)
		}
		byNumber[number] = append(byNumber[number], wire[:n]...)
		wire = wire[n:]
	}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
	r.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
	var out []byte
	for _, number := range numbers {
		out = append(out, byNumber[number]...)
	}
	return out
}
