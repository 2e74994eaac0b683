package wirelimit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	api "github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/internal/wirelimit"
)

func compile(tb testing.TB, m proto.Message) *wirelimit.Plan {
	tb.Helper()
	p, err := wirelimit.Compile(m.ProtoReflect().Descriptor())
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func emails(n int) *fireoncev1.ScheduleJobRequest {
	return &fireoncev1.ScheduleJobRequest{Payload: &fireoncev1.Payload{
		Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{To: make([]string, n)}},
	}}
}

func labels(n int) *fireoncev1.ScheduleJobRequest {
	r := &fireoncev1.ScheduleJobRequest{Labels: map[string]string{}}
	for i := range n {
		r.Labels[fmt.Sprint("k", i)] = ""
	}
	return r
}

func states(n int) *fireoncev1.ListJobsRequest {
	return &fireoncev1.ListJobsRequest{Filter: &fireoncev1.JobFilter{States: make([]fireoncev1.JobState, n)}}
}

func masked(n int) *fireoncev1.UpdateJobRequest {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = "labels"
	}
	return &fireoncev1.UpdateJobRequest{UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}}
}

// TestLimits checks that as many elements as the contract allows pass and that one more does
// not, in binary and in JSON.
func TestLimits(t *testing.T) {
	for field, tt := range map[string]struct {
		limit int
		with  func(n int) proto.Message
	}{
		"payload.email.to":  {50, func(n int) proto.Message { return emails(n) }},
		"labels":            {32, func(n int) proto.Message { return labels(n) }},
		"filter.states":     {20, func(n int) proto.Message { return states(n) }},
		"update_mask.paths": {wirelimit.Unruled, func(n int) proto.Message { return masked(n) }},
		"requests": {500, func(n int) proto.Message {
			return &fireoncev1.BatchScheduleJobsRequest{Requests: make([]*fireoncev1.ScheduleJobRequest, n)}
		}},
		"requests[0].payload.email.to": {50, func(n int) proto.Message {
			return &fireoncev1.BatchScheduleJobsRequest{Requests: []*fireoncev1.ScheduleJobRequest{emails(n)}}
		}},
		"requests[2].labels": {32, func(n int) proto.Message {
			return &fireoncev1.BatchScheduleJobsRequest{Requests: []*fireoncev1.ScheduleJobRequest{labels(n - 1), labels(3), labels(n)}}
		}},
	} {
		t.Run(field, func(t *testing.T) {
			p := compile(t, tt.with(1))
			for n := range 2 {
				m := tt.with(tt.limit + n)
				binary, err := proto.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				text, err := protojson.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				for way, err := range map[string]error{"binary": p.Binary(binary), "JSON": p.JSON(text)} {
					var many *wirelimit.TooMany
					switch found := errors.As(err, &many); {
					case n == 0 && err != nil:
						t.Errorf("%s with %d elements: %v", way, tt.limit, err)
					case n == 0:
					case !found || many.Limit != tt.limit || many.Field != field && many.Field+".paths" != field:
						t.Errorf("%s with %d elements: %v", way, tt.limit+1, err)
					}
				}
			}
		})
	}
}

// TestPartsCountTogether checks messages in parts: a decoder merges the parts, and drops a
// member of a oneof when another one comes.
func TestPartsCountTogether(t *testing.T) {
	p := compile(t, &fireoncev1.ScheduleJobRequest{})
	part, err := proto.Marshal(emails(20))
	if err != nil {
		t.Fatal(err)
	}
	var m fireoncev1.ScheduleJobRequest
	whole := append(append([]byte(nil), part...), part...)
	if err := proto.Unmarshal(whole, &m); err != nil || len(m.GetPayload().GetEmail().GetTo()) != 40 {
		t.Fatalf("two parts decode to %d elements, %v", len(m.GetPayload().GetEmail().GetTo()), err)
	}
	if err := p.Binary(whole); err != nil {
		t.Errorf("40 elements in two parts: %v", err)
	}
	if err := p.Binary(append(whole, part...)); !errors.As(err, new(*wirelimit.TooMany)) {
		t.Errorf("60 elements in three parts: %v", err)
	}
	number := m.ProtoReflect().Descriptor().Fields().ByName("payload").Number()
	empty := protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), nil)
	if err := p.Binary([]byte(strings.Repeat(string(empty), wirelimit.Merged))); err != nil {
		t.Errorf("a payload in %d parts: %v", wirelimit.Merged, err)
	}
	if err := p.Binary([]byte(strings.Repeat(string(empty), wirelimit.Merged+1))); !errors.As(err, new(*wirelimit.TooMany)) {
		t.Errorf("a payload in %d parts: %v", wirelimit.Merged+1, err)
	}
}

// hook returns a request whose body is JSON.
func hook(body *structpb.Value) *fireoncev1.ScheduleJobRequest {
	return &fireoncev1.ScheduleJobRequest{Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{
		Webhook: &fireoncev1.Webhook{Content: &fireoncev1.Webhook_BodyJson{BodyJson: body}},
	}}}
}

func list(values ...*structpb.Value) *structpb.Value {
	return structpb.NewListValue(&structpb.ListValue{Values: values})
}

func object(key string, value *structpb.Value) *structpb.Value {
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{key: value}})
}

// wide returns a list that is n values: itself and what it has.
func wide(n int) *structpb.Value {
	out := make([]*structpb.Value, n-1)
	for i := range out {
		out[i] = structpb.NewNullValue()
	}
	return list(out...)
}

// keyed is wide with an object.
func keyed(n int) *structpb.Value {
	out := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for i := range n - 1 {
		out.Fields[fmt.Sprint("k", i)] = structpb.NewNumberValue(0)
	}
	return structpb.NewStructValue(out)
}

// deep returns a number in n levels, each of lists and objects in turn.
func deep(n int) *structpb.Value {
	out := structpb.NewNumberValue(1)
	for i := range n {
		if i%2 == 0 {
			out = list(out)
		} else {
			out = object("a", out)
		}
	}
	return out
}

// batch returns a batch of which each request has a body of n values.
func batch(requests, n int) *fireoncev1.BatchScheduleJobsRequest {
	out := &fireoncev1.BatchScheduleJobsRequest{}
	for range requests {
		out.Requests = append(out.Requests, hook(wide(n)))
	}
	return out
}

// TestValues checks JSON of any form at its limits and beyond, in binary and in JSON.
func TestValues(t *testing.T) {
	const field = "payload.webhook.body_json has more than "
	for name, tt := range map[string]struct {
		m    proto.Message
		want string
	}{
		"one value":            {hook(structpb.NewNullValue()), ""},
		"an empty object":      {hook(keyed(1)), ""},
		"the widest list":      {hook(wide(wirelimit.Values)), ""},
		"too wide a list":      {hook(wide(wirelimit.Values + 1)), field + "10000 values"},
		"the widest object":    {hook(keyed(wirelimit.Values)), ""},
		"too wide an object":   {hook(keyed(wirelimit.Values + 1)), field + "10000 values"},
		"wide within":          {hook(list(object("a", wide(wirelimit.Values-2)))), ""},
		"too wide within":      {hook(list(object("a", wide(wirelimit.Values-1)))), field + "10000 values"},
		"the deepest":          {hook(deep(wirelimit.Levels)), ""},
		"too deep":             {hook(deep(wirelimit.Levels + 1)), field + "32 levels of objects and lists"},
		"the deepest and more": {hook(list(deep(wirelimit.Levels-1), deep(wirelimit.Levels-1))), ""},
		"much too deep":        {hook(deep(3000)), field + "32 levels of objects and lists"},
		"a batch":              {batch(500, wirelimit.AllValues/500), ""},
		"too much in a batch": {
			batch(500, wirelimit.AllValues/500+1), "requests[495].payload.webhook.body_json has more than 50000 values, with those of the bodies before it",
		},
		"in a template": {&schedulesv1.CreateScheduleRequest{JobTemplate: &schedulesv1.JobTemplate{Content: &schedulesv1.JobTemplate_Payload{
			Payload: hook(deep(33)).GetPayload(),
		}}}, "job_template.payload.webhook.body_json has more than 32 levels of objects and lists"},
	} {
		p := compile(t, tt.m)
		binary, err := proto.Marshal(tt.m)
		if err != nil {
			t.Fatal(err)
		}
		text, err := protojson.Marshal(tt.m)
		if err != nil {
			t.Fatal(err)
		}
		for way, err := range map[string]error{"binary": p.Binary(binary), "JSON": p.JSON(text)} {
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want || err != nil && !errors.As(err, new(*wirelimit.TooMany)) {
				t.Errorf("%s, %s: %v, want %q", name, way, err, tt.want)
			}
		}
	}
}

// TestValuesOnTheWire checks what no encoder writes and a decoder makes objects of.
func TestValuesOnTheWire(t *testing.T) {
	p := compile(t, &fireoncev1.ScheduleJobRequest{})
	message := func(number protowire.Number, in string) string {
		return string(protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), []byte(in)))
	}
	var m fireoncev1.ScheduleJobRequest
	payload := m.ProtoReflect().Descriptor().Fields().ByName("payload").Number()
	body := func(value string) []byte { return []byte(message(payload, message(3, message(6, value)))) }
	if err := proto.Unmarshal(body(message(5, message(1, ""))), &m); err != nil || len(m.GetPayload().GetWebhook().GetBodyJson().GetStructValue().GetFields()) != 1 {
		t.Fatalf("an entry without key and value: %v, %v", &m, err)
	}
	emptyList, emptyObject, bare := message(6, ""), message(5, ""), message(6, message(1, ""))
	entry := message(1, message(1, "a")+message(2, emptyList)+message(2, emptyObject))
	for name, tt := range map[string]struct {
		data []byte
		want error
	}{
		"kinds in turn":         {body(strings.Repeat(emptyList+emptyObject, wirelimit.Values/2)), nil},
		"too many in turn":      {body(strings.Repeat(emptyList+emptyObject, wirelimit.Values/2) + emptyList), &wirelimit.TooMany{}},
		"elements of no kind":   {body(message(6, strings.Repeat(message(1, ""), wirelimit.Values-1))), nil},
		"too many of no kind":   {body(message(6, strings.Repeat(message(1, ""), wirelimit.Values))), &wirelimit.TooMany{}},
		"lists in parts":        {body(strings.Repeat(bare, wirelimit.Values/2)), nil},
		"too many in parts":     {body(strings.Repeat(bare, wirelimit.Values/2+1)), &wirelimit.TooMany{}},
		"entries without value": {body(message(5, strings.Repeat(message(1, ""), wirelimit.Values))), &wirelimit.TooMany{}},
		"one key again":         {body(message(5, strings.Repeat(entry, wirelimit.Values/2))), &wirelimit.TooMany{}},
		"bodies in parts": {
			[]byte(strings.Repeat(string(body(emptyList)), wirelimit.Merged+1)), &wirelimit.TooMany{},
		},
		"unknown fields": {body(message(6, strings.Repeat(message(9, ""), wirelimit.Unknown+1))), &wirelimit.TooMany{}},
		"an early end":   {body(message(6, "\x0a\x05")), &wirelimit.Malformed{}},
		"a group":        {body(message(6, "\x0b\x0c")), &wirelimit.Malformed{}},
	} {
		err := p.Binary(tt.data)
		if fmt.Sprintf("%T", err) != fmt.Sprintf("%T", tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := p.Binary(body(message(6, strings.Repeat(message(9, ""), wirelimit.Unknown+1)))); err == nil || !strings.Contains(err.Error(), "unknown fields") {
		t.Errorf("unknown fields: %v", err)
	}
}

// TestValuesInJSON checks texts that are no JSON of any form, or not to a decoder.
func TestValuesInJSON(t *testing.T) {
	p := compile(t, &fireoncev1.ScheduleJobRequest{})
	for value, lawful := range map[string]bool{
		`null`: true, `"x"`: true, `{"a": [1, {"b": null}, true]}`: true, `"` + strings.Repeat("x", 1000) + `"`: true,
		`[` + strings.Repeat("1", 1000) + `]`: false, `[1`: false, `{"a"}`: false, `{"a": }`: false, `[1,]`: false, `{a: 1}`: false,
		strings.Repeat(`[`, 32): false, strings.Repeat(`{"a":`, 32): false,
	} {
		err := p.JSON([]byte(`{"payload":{"webhook":{"bodyJson":` + value + `}}}`))
		if lawful != (err == nil) || err != nil && !errors.As(err, new(*wirelimit.Malformed)) {
			t.Errorf("%.60s: %v", value, err)
		}
	}
	for name, text := range map[string]string{"lists": strings.Repeat(`[`, 1<<20), "objects": strings.Repeat(`{"a":`, 1<<20)} {
		if err := p.JSON([]byte(`{"payload":{"webhook":{"bodyJson":` + text)); !errors.As(err, new(*wirelimit.TooMany)) {
			t.Errorf("a million %s that are open: %v", name, err)
		}
	}
}

func TestPackedAndUnknown(t *testing.T) {
	p := compile(t, &fireoncev1.ListJobsRequest{})
	inFilter := func(b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), b)
	}
	var single []byte
	for range 21 {
		single = protowire.AppendVarint(protowire.AppendTag(single, 1, protowire.VarintType), 1)
	}
	packed := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte(strings.Repeat("\x81\x00", 21)))
	for name, data := range map[string][]byte{"one by one": single, "packed": packed} {
		var many *wirelimit.TooMany
		if err := p.Binary(inFilter(data)); !errors.As(err, &many) || many.Limit != 20 {
			t.Errorf("21 states, %s: %v", name, err)
		}
	}
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1)
	if err := p.Binary(inFilter([]byte(strings.Repeat(string(unknown), wirelimit.Unknown)))); err != nil {
		t.Errorf("%d unknown fields: %v", wirelimit.Unknown, err)
	}
	if err := p.Binary([]byte(strings.Repeat(string(unknown), wirelimit.Unknown+1))); !errors.As(err, new(*wirelimit.TooMany)) {
		t.Errorf("%d unknown fields: %v", wirelimit.Unknown+1, err)
	}
	if err := p.Binary(protowire.AppendTag(nil, 1000, protowire.StartGroupType)); !errors.As(err, new(*wirelimit.Malformed)) {
		t.Errorf("a group: %v", err)
	}
}

// TestMaskInJSON checks a mask, which is one text and decodes to a list.
func TestMaskInJSON(t *testing.T) {
	p := compile(t, &fireoncev1.UpdateJobRequest{})
	text := []byte(`{"updateMask": "` + strings.Repeat(",", wirelimit.Unruled) + `"}`)
	if err := p.JSON(text); !errors.As(err, new(*wirelimit.TooMany)) {
		t.Errorf("a mask of %d names: %v", wirelimit.Unruled+1, err)
	}
}

// TestLongValuesInJSON checks that a value that a decoder would quote in its error ends the
// text, and that a value that it accepts does not.
func TestLongValuesInJSON(t *testing.T) {
	p := compile(t, &fireoncev1.ScheduleJobRequest{})
	body := func(v string) string { return `{"payload":{"webhook":{"body":` + v + `}}}` }
	for value, lawful := range map[string]bool{
		body(`"` + strings.Repeat("AAA+", 1000) + `"`):           true,
		body(`"` + strings.Repeat("AA-_", 1000) + `AA"`):         true,
		body(`"` + strings.Repeat("AAA\u002b", 1000) + `"`):      true,
		body(`"` + strings.Repeat("AAA,", 1000) + `"`):           false,
		body(`"` + strings.Repeat("AAAA", 1000) + `A"`):          false,
		`{"validateOnly":` + strings.Repeat("1", 1000) + `}`:     false,
		`{"delivery":"` + strings.Repeat("A", 1000) + `"}`:       false,
		`{"idempotencyKey":"` + strings.Repeat("A", 1000) + `"}`: true,
	} {
		err := p.JSON([]byte(value))
		if decoded := protojson.Unmarshal([]byte(value), &fireoncev1.ScheduleJobRequest{}); (decoded == nil) != lawful {
			t.Fatalf("%.60s decodes: %v", value, decoded)
		}
		if lawful != (err == nil) {
			t.Errorf("%.60s: %v", value, err)
		}
	}
}

// TestContractHasBounds checks that each request of the contract has a plan.
func TestContractHasBounds(t *testing.T) {
	methods := 0
	for md := range requests() {
		methods++
		if _, err := wirelimit.Compile(md); err != nil {
			t.Error(err)
		}
	}
	if methods < 30 {
		t.Errorf("%d methods were found", methods)
	}
}

func TestUnboundedTypes(t *testing.T) {
	if _, err := wirelimit.Compile((&fireoncev1.ErrorDetail{}).ProtoReflect().Descriptor()); err != nil {
		t.Errorf("a message with a bound: %v", err)
	}
	md, err := protoregistry.GlobalFiles.FindDescriptorByName("google.protobuf.Struct")
	if err != nil {
		md, err = protoregistry.GlobalFiles.FindDescriptorByName("google.protobuf.DescriptorProto") // holds itself
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wirelimit.Compile(md.(protoreflect.MessageDescriptor)); err == nil {
		t.Errorf("%s has a bound", md.FullName())
	}
}

// requests yields the types of all requests of the contract.
func requests() func(yield func(protoreflect.MessageDescriptor) bool) {
	return func(yield func(protoreflect.MessageDescriptor) bool) {
		for m := range api.Methods() {
			if !yield(m.Input()) {
				return
			}
		}
	}
}

// exceeds returns a list or a map that has more elements than the limit of its field.
func exceeds(m protoreflect.Message) (found string) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		n, limit := 0, wirelimit.Limit(fd)
		switch {
		case fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Value":
			if values, levels := sizeOf(v.Message()); values > wirelimit.Values || levels > wirelimit.Levels {
				found = fmt.Sprintf("%s has %d values in %d levels", fd.FullName(), values, levels)
			}
		case fd.IsMap():
			n = v.Map().Len()
		case fd.IsList():
			n = v.List().Len()
			if fd.Message() == nil {
				break
			}
			for i := range n {
				if found = exceeds(v.List().Get(i).Message()); found != "" {
					return false
				}
			}
		case fd.Message() != nil:
			found = exceeds(v.Message())
		}
		if n > limit {
			found = fmt.Sprintf("%s has %d elements", fd.FullName(), n)
		}
		return found == ""
	})
	return found
}

// sizeOf returns the number of values in a google.protobuf.Value, and of the levels of objects and lists.
func sizeOf(v protoreflect.Message) (values, levels int) {
	values = 1
	add := func(inside protoreflect.Message) {
		n, deep := sizeOf(inside)
		values, levels = values+n, max(levels, deep)
	}
	v.Range(func(kind protoreflect.FieldDescriptor, in protoreflect.Value) bool {
		switch kind.Number() {
		case 5:
			in.Message().Range(func(_ protoreflect.FieldDescriptor, entries protoreflect.Value) bool {
				entries.Map().Range(func(_ protoreflect.MapKey, inside protoreflect.Value) bool {
					add(inside.Message())
					return true
				})
				return true
			})
			levels++
		case 6:
			in.Message().Range(func(_ protoreflect.FieldDescriptor, elements protoreflect.Value) bool {
				for i := range elements.List().Len() {
					add(elements.List().Get(i).Message())
				}
				return true
			})
			levels++
		}
		return true
	})
	return values, levels
}

// FuzzBinary checks that a message that passes decodes to no more elements than allowed, and
// that an encoder's output for such a message passes.
func FuzzBinary(f *testing.F) {
	for _, m := range []proto.Message{emails(50), emails(51), labels(32), states(3), masked(3), hook(list(keyed(3), wide(3))), hook(deep(32)), hook(deep(33))} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		for i := range 40 {
			f.Add(uint(i), data)
		}
	}
	types, plans := requestTypes(f)
	f.Fuzz(func(t *testing.T, kind uint, data []byte) {
		md, p := types[kind%uint(len(types))], plans[kind%uint(len(types))]
		passed := p.Binary(data)
		generated, err := protoregistry.GlobalTypes.FindMessageByName(md.FullName())
		if err != nil {
			t.Fatal(err)
		}
		m := generated.New() // decoding into one that is not generated panics on a key of another wire type
		decoded := proto.Unmarshal(data, m.Interface())
		if decoded != nil {
			return
		}
		over := exceeds(m)
		if passed == nil && over != "" {
			t.Errorf("%s passed: %s", md.FullName(), over)
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.Interface())
		if err == nil && len(m.GetUnknown()) == 0 && over == "" {
			if err := p.Binary(again); err != nil && !errors.As(err, new(*wirelimit.Malformed)) && !strings.Contains(err.Error(), "unknown") {
				t.Errorf("%s was refused: %v", md.FullName(), err)
			}
		}
	})
}

// FuzzJSON is FuzzBinary for JSON. A text that the decoder accepts is never Malformed, and the
// decoder refuses a Malformed text, even if only the part that was read is left of it.
func FuzzJSON(f *testing.F) {
	for i, m := range []proto.Message{emails(50), emails(51), labels(32), states(3), masked(3), hook(list(keyed(3), wide(3))), hook(deep(32)), hook(deep(33))} {
		data, err := protojson.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		for j := range 40 {
			f.Add(uint(i+j), string(data))
		}
	}
	f.Add(uint(0), ` { "p\u0061yload" : null , "labels":{} , "validateOnly":true,"scheduleTime":"2020-01-01T00:00:00Z"} `)
	types, plans := requestTypes(f)
	f.Fuzz(func(t *testing.T, kind uint, text string) {
		md, p := types[kind%uint(len(types))], plans[kind%uint(len(types))]
		passed := p.JSON([]byte(text))
		var bad *wirelimit.Malformed
		if errors.As(passed, &bad) {
			if err := protojson.Unmarshal([]byte(text[:bad.At]), dynamicpb.NewMessage(md)); err == nil {
				t.Errorf("%s: %q is malformed, and decodes", md.FullName(), text[:bad.At])
			}
		}
		m := dynamicpb.NewMessage(md)
		if err := protojson.Unmarshal([]byte(text), m); err != nil {
			return
		}
		over := exceeds(m)
		switch {
		case bad != nil:
			t.Errorf("%s was malformed: %q", md.FullName(), text)
		case passed == nil && over != "":
			t.Errorf("%s passed: %s", md.FullName(), over)
		case passed != nil && over == "":
			t.Errorf("%s was refused: %v", md.FullName(), passed)
		}
	})
}

func requestTypes(tb testing.TB) (types []protoreflect.MessageDescriptor, plans []*wirelimit.Plan) {
	tb.Helper()
	for md := range requests() {
		p, err := wirelimit.Compile(md)
		if err != nil {
			tb.Fatal(err)
		}
		types, plans = append(types, md), append(plans, p)
	}
	return types, plans
}

func BenchmarkUsualJob(b *testing.B) {
	m := &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: "order-1234/receipt", Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: "0198c8a2-7c1e-7000-8000-000000000000"},
		Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: "https://example.org/hook", Content: &fireoncev1.Webhook_BodyText{BodyText: `{"order": 1234, "state": "paid"}`},
		}}},
		ScheduleTime: timestamppb.Now(), Labels: map[string]string{"shop": "vienna", "order": "1234"},
	}
	p := compile(b, m)
	binary, err := proto.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("binary", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := p.Binary(binary); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("JSON", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := p.JSON(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}
