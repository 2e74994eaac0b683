package contract

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
)

func parse(t *testing.T, text string) *structpb.Value {
	t.Helper()
	v := &structpb.Value{}
	if err := protojson.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}

// TestCanonicalVectors has the examples of RFC 8785: sections 3.2.2 and 3.2.3, and others of its author
// (github.com/cyberphone/json-canonicalization).
func TestCanonicalVectors(t *testing.T) {
	for text, want := range map[string]string{
		`{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}`: `{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		`{
  "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
  "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"
}`: `{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`,
		`[56, {"d": true, "10": null, "1": []}]`:                                                               `[56,{"1":[],"10":null,"d":true}]`,
		`{"peach": "1", "péché": "2", "pêche": "3", "sin": "4"}`:                                               `{"peach":"1","péché":"2","pêche":"3","sin":"4"}`,
		`{"1": {"f": {"f": "hi", "F": 5}, "\n": 56.0}, "10": {}, "": "empty", "a": {}, "111": [{"e": "yes"}]}`: `{"":"empty","1":{"\n":56,"f":{"F":5,"f":"hi"}},"10":{},"111":[{"e":"yes"}],"a":{}}`,
		`{"Unnormalized Unicode": "A\u030a"}`:                                                                  `{"Unnormalized Unicode":"A` + "\u030a" + `"}`,
		`"\u0000\b\t\n\f\r\u001f\u007f</script>\u2028\ud83d\ude02"`:                                            `"\u0000\b\t\n\f\r\u001f` + "\u007f</script>\u2028😂" + `"`,
		`{"😂": 1, "😃": 2, "a": 3, "ab": 4, "": 5}`:                                                             `{"":5,"a":3,"ab":4,"😂":1,"😃":2}`,
		`null`:   `null`,
		` true `: `true`,
		`{}`:     `{}`,
	} {
		if got, err := Canonical(parse(t, text)); err != nil || got != want {
			t.Errorf("%s:\n%s, %v, want\n%s", text, got, err, want)
		}
	}
}

// TestCanonicalNumbers has the table of RFC 8785, appendix B.
func TestCanonicalNumbers(t *testing.T) {
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		if got, err := Canonical(structpb.NewNumberValue(math.Float64frombits(bits))); err != nil || got != want {
			t.Errorf("%016x: %s, %v, want %s", bits, got, err, want)
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	unknown := func(m proto.Message) {
		m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
	}
	value, list, object := structpb.NewNullValue(), &structpb.ListValue{}, &structpb.Struct{}
	unknown(value)
	unknown(list)
	unknown(object)
	wide := strings.Repeat("x", maxBody-2)
	for name, tt := range map[string]struct {
		value *structpb.Value
		want  error
	}{
		"no kind":               {&structpb.Value{}, errKind},
		"no kind in a list":     {structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{{}}}), errKind},
		"no kind in an object":  {structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a": nil}}), errKind},
		"another null":          {&structpb.Value{Kind: &structpb.Value_NullValue{NullValue: 1}}, errKind},
		"NaN":                   {structpb.NewNumberValue(math.NaN()), errNumber},
		"an infinity":           {structpb.NewNumberValue(math.Inf(-1)), errNumber},
		"a new field":           {value, errFuture},
		"a new field of a list": {structpb.NewListValue(list), errFuture},
		"of an object":          {structpb.NewStructValue(object), errFuture},
		"the longest":           {structpb.NewStringValue(wide), nil},
		"too long":              {structpb.NewStringValue(wide + "x"), errBytes},
		"too long in escapes":   {structpb.NewStringValue(strings.Repeat("\x01", maxBody/6+1)), errBytes},
	} {
		if _, err := Canonical(tt.value); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

// TestCanonicalBody checks what a request has instead of a body in JSON, and where a fault is.
func TestCanonicalBody(t *testing.T) {
	hook := func(v *structpb.Value) *fireoncev1.Payload {
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{Content: &fireoncev1.Webhook_BodyJson{BodyJson: v}}}}
	}
	call := func(v *structpb.Value) *fireoncev1.Payload {
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_HttpRequest{HttpRequest: &fireoncev1.HttpRequest{Content: &fireoncev1.HttpRequest_BodyJson{BodyJson: v}}}}
	}
	template := func(p *fireoncev1.Payload) *schedulesv1.JobTemplate {
		return &schedulesv1.JobTemplate{Content: &schedulesv1.JobTemplate_Payload{Payload: p}}
	}
	for kind, in := range map[string]func(*structpb.Value) *fireoncev1.Payload{"webhook": hook, "http_request": call} {
		for at, request := range map[string]func(*fireoncev1.Payload) proto.Message{
			"payload.": func(p *fireoncev1.Payload) proto.Message { return &fireoncev1.ScheduleJobRequest{Payload: p} },
			"payload":  func(p *fireoncev1.Payload) proto.Message { return &fireoncev1.UpdateJobRequest{Payload: p} },
			"payload..": func(p *fireoncev1.Payload) proto.Message {
				return &schedulesv1.AddScheduleItemRequest{Payload: p}
			},
			"payload...": func(p *fireoncev1.Payload) proto.Message {
				return &schedulesv1.UpdateScheduleItemRequest{Payload: p}
			},
			"job_template.payload": func(p *fireoncev1.Payload) proto.Message {
				return &schedulesv1.CreateScheduleRequest{JobTemplate: template(p)}
			},
			"job_template.payload.": func(p *fireoncev1.Payload) proto.Message {
				return &schedulesv1.UpdateScheduleRequest{JobTemplate: template(p)}
			},
		} {
			payload := in(parse(t, `{"b": [1.0], "a": null}`))
			wrong := CanonicalBody(request(payload))
			text := payload.GetWebhook().GetBodyText() + payload.GetHttpRequest().GetBodyText()
			if wrong != nil || text != `{"a":null,"b":[1]}` {
				t.Errorf("%s %s: %q, %v", kind, at, text, wrong)
			}
			field := strings.TrimRight(at, ".") + "." + kind + ".body_json"
			if wrong := CanonicalBody(request(in(&structpb.Value{}))); wrong.GetField() != field || wrong.GetRule() != ruleKind {
				t.Errorf("a value of no kind in %s: %v", field, wrong)
			}
		}
	}
	for name, m := range map[string]proto.Message{
		"no payload": &fireoncev1.ScheduleJobRequest{}, "no body": &fireoncev1.ScheduleJobRequest{Payload: &fireoncev1.Payload{}},
		"no request": (*fireoncev1.ScheduleJobRequest)(nil), "a read": &fireoncev1.GetJobRequest{},
	} {
		if wrong := CanonicalBody(m); wrong != nil {
			t.Errorf("%s: %v", name, wrong)
		}
	}
}

// TestBodiesAreFound checks that each body in JSON of a request is one that CanonicalBody replaces,
// or in a list of requests, and that there is a text to replace it.
func TestBodiesAreFound(t *testing.T) {
	found := 0
	var walk func(md protoreflect.MessageDescriptor, path string, listed bool)
	walk = func(md protoreflect.MessageDescriptor, path string, listed bool) {
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			switch at := path + "." + string(fd.Name()); {
			case isValue(fd.Message()):
				found++
				text := textBeside(fd)
				if listed || text == nil || text.ContainingOneof() == nil || text.ContainingOneof() != fd.ContainingOneof() || fd.Name() != "body_json" {
					t.Errorf("%s: no body that becomes text", at)
				}
			case fd.IsMap() || fd.Message() == nil || strings.Count(at, ".") > 8:
			case fd.IsList():
				walk(fd.Message(), at, fd.Message().Name() != "ScheduleJobRequest")
			default:
				walk(fd.Message(), at, listed)
			}
		}
	}
	for m := range Methods() {
		walk(m.Input(), string(m.Input().Name()), false)
	}
	if found < 12 {
		t.Errorf("%d bodies", found)
	}
}

func TestHeld(t *testing.T) {
	for number, want := range map[string]bool{
		"0": true, "-0": true, "0.0": true, "0e99999999999999999999": true, "1": true, "1.50": true, "-12.25e1": true, "100": true, "1e2": true, "1E+2": true,
		"0.1": true, "1e23": true, "100000000000000000000000": true, "9007199254740992": true, "9007199254740994": true, "5e-324": true,
		"1.7976931348623157e308": true, "0.000001": true, "123456789012345680000": true,
		"9007199254740993": false, "9007199254740993.0": false, "-9007199254740993": false, "0.9007199254740993e16": false,
		"1e400": false, "-1e400": false, "1e-400": false, "1e99999999999999999999": false, "1e-99999999999999999999": false,
		"18446744073709551616":  false, // a double, and printed with fewer digits
		"0.1234567890123456789": false, "0.10000000000000001": false, "3.141592653589793238": false,
	} {
		if held(number) != want {
			t.Errorf("%s is held: %v", number, !want)
		}
	}
}

// FuzzCanonical checks that the canonical form is the same JSON, and its own canonical form.
func FuzzCanonical(f *testing.F) {
	for _, text := range []string{
		`null`, `-0`, `1e21`, `1e-7`, `123456789.125`, `"\u0000\ud83d\ude00"`, `{"\ue000":1,"\ud800\udc00":2,"a":{"b":[{}]}}`, ` [ 1 , "x" ] `, `{"":[],"a":""}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v := &structpb.Value{}
		if protojson.Unmarshal([]byte(text), v) != nil {
			return
		}
		form, err := Canonical(v)
		if err != nil {
			if !errors.Is(err, errBytes) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if again, err := Canonical(parse(t, form)); err != nil || again != form {
			t.Errorf("%q becomes %q, and that %q, %v", text, form, again, err)
		}
		var before, after any
		if err := errors.Join(json.Unmarshal([]byte(text), &before), json.Unmarshal([]byte(form), &after)); err != nil {
			t.Fatalf("%q becomes %q: %v", text, form, err)
		}
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%q becomes %q", text, form)
		}
	})
}

// FuzzNumber checks that a number that is held is printed as the number that was typed, and that what
// is printed is held.
func FuzzNumber(f *testing.F) {
	for _, bits := range []uint64{0, 1, 0x44b52d02c7e14af6, 0x3eb0c6f7a0b5ed8c, 0x4340000000000000, 0x7fefffffffffffff} {
		f.Add(bits)
	}
	f.Fuzz(func(t *testing.T, bits uint64) {
		number := math.Float64frombits(bits)
		if math.IsNaN(number) || math.IsInf(number, 0) {
			return
		}
		text := string(appendNumber(nil, number))
		var back float64
		if err := json.Unmarshal([]byte(text), &back); err != nil || back != number || !held(text) {
			t.Errorf("%016x is printed as %s, which is %v, %v; held: %v", bits, text, back, err, held(text))
		}
	})
}
