package hostile

import (
	"fmt"
	"iter"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/internal/wirelimit"
)

// rpc is one method of the contract.
type rpc struct {
	path  string
	input protoreflect.MessageDescriptor
	// stream answers with a stream; get may be called by GET.
	stream, get bool
	limit       int
	key         Key
}

// methods yields the methods of the contract.
func methods(sizes Sizes) iter.Seq[rpc] {
	return func(yield func(rpc) bool) {
		for m := range contract.Methods() {
			if !yield(method(m, sizes)) {
				return
			}
		}
	}
}

func method(m protoreflect.MethodDescriptor, sizes Sizes) rpc {
	options, _ := m.Options().(*descriptorpb.MethodOptions)
	r := rpc{
		path: fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()), input: m.Input(), stream: m.IsStreamingServer(),
		get: options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS, limit: sizes.Request, key: WriteKey,
	}
	if m.Name() == "BatchScheduleJobs" {
		r.limit = sizes.Batch
	}
	if r.get || r.stream {
		r.key = ReadKey
	}
	return r
}

// place is a field somewhere in a request.
type place []protoreflect.FieldDescriptor

func (p place) last() protoreflect.FieldDescriptor { return p[len(p)-1] }

func (p place) String() string {
	names := make([]string, len(p))
	for i, fd := range p {
		names[i] = string(fd.Name())
	}
	return strings.Join(names, ".")
}

// places yields each field of a message and of those in it.
func places(md protoreflect.MessageDescriptor, above place) iter.Seq[place] {
	return func(yield func(place) bool) {
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			at := append(above[:len(above):len(above)], fd)
			if !yield(at) {
				return
			}
			if fd.Message() == nil || fd.IsMap() || len(at) > 8 || fd.Message().FullName() == "google.protobuf.Value" {
				continue
			}
			for deeper := range places(fd.Message(), at) {
				if !yield(deeper) {
					return
				}
			}
		}
	}
}

// shape is a message that costs more than its size. json may be nil.
type shape struct {
	name         string
	binary, json func(size int) []byte
	// many is set if it makes many objects: it comes by each way.
	many bool
	// least is the size of a request that may cost as much, where a number is allowed whatever a server
	// reads; 0: no more than the method's limit.
	least int
}

// The sizes of a request and of a batch that a server reads by default.
const usualRequest, usualBatch = 1 << 20, 16 << 20

// shapes yields what can be done to one field.
func shapes(at place) iter.Seq[shape] {
	return func(yield func(shape) bool) {
		fd := at.last()
		switch {
		case fd.IsMap():
			yield(shape{"entries", at.filledEach(mapEntry), at.text("{", numbered(`"k%d":""`), "}"), true, 0})
		case fd.IsList() && fd.Kind() == protoreflect.EnumKind:
			yield(shape{"packed", at.packed(), at.text("[", same("1"), "]"), true, 0})
		case fd.IsList() && fd.Message() != nil:
			yield(shape{"empty elements", at.filled(nil), at.text("[", same("{}"), "]"), true, 0})
		case fd.IsList():
			_ = yield(shape{"empty elements", at.filled(nil), at.text("[", same(`""`), "]"), true, 0}) &&
				yield(shape{"short elements", at.filled([]byte("xyz")), at.text("[", same(`"\u00fc"`), "]"), true, 0})
		case fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Value":
			for _, free := range freeShapes(at) {
				if !yield(free) {
					return
				}
			}
		case fd.Message() != nil && fd.Message().FullName() == "google.protobuf.FieldMask":
			yield(shape{"commas", at.filled(nil), at.text(`"`, same("a"), `"`), true, 0})
		case fd.Message() != nil:
			yield(shape{"parts", at.filled(nil), at.text("{", same(`"x":{}`), "}"), true, 0})
		case fd.Kind() == protoreflect.StringKind || fd.Kind() == protoreflect.BytesKind:
			_ = yield(shape{"long", at.long(), at.text(`"`, same("AAAAAAA"), `"`), false, 0}) &&
				yield(shape{"again and again", at.filled([]byte("xy")), at.text(`"`, same(`\u0041`), `"`), false, 0})
		default:
			yield(shape{"again and again", at.varints(), at.text("1", same("1"), "1"), false, 0})
		}
	}
}

// freeShapes are what JSON of any form can be: as much as is allowed, and as deep as the bytes reach.
func freeShapes(at place) []shape {
	chain := structpb.NewNullValue()
	for range wirelimit.Levels - 1 {
		chain = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a": chain}})
	}
	full := &structpb.ListValue{}
	for range wirelimit.Values / wirelimit.Levels {
		full.Values = append(full.Values, chain)
	}
	lawful := structpb.NewListValue(full)
	binary, err := proto.Marshal(lawful)
	if err != nil {
		panic(err) // plain values
	}
	text, err := protojson.Marshal(lawful)
	if err != nil {
		panic(err)
	}
	kinds := []byte{6<<3 | 2, 0, 5<<3 | 2, 0} // an empty list, then an empty object
	nest := func(int) []byte {
		var inner []byte
		for len(inner) < 1<<14 { // the time to make it is the square of its size
			inner = protowire.AppendBytes([]byte{6<<3 | 2}, protowire.AppendBytes([]byte{1<<3 | 2}, inner))
		}
		return at.wrapped(protowire.AppendBytes(at.tag(protowire.BytesType), inner))
	}
	return []shape{
		{"a lawful number of values", func(int) []byte { return at.wrapped(protowire.AppendBytes(at.tag(protowire.BytesType), binary)) }, at.whole(string(text)), true, usualRequest},
		{"empty values", at.filled(nil), at.text("[", same("0"), "]"), true, 0},
		{"kinds in turn", func(size int) []byte {
			return at.wrapped(protowire.AppendBytes(at.tag(protowire.BytesType), repeat(kinds, size-at.overhead()-16)))
		}, at.text("[", same("{}"), "]"), true, 0},
		{"keys", at.filled([]byte{5<<3 | 2, 0}), at.text("{", numbered(`"k%d":0`), "}"), true, 0},
		{"nested", nest, at.text("", same("["), ""), true, 0},
		{"a long string", at.filled([]byte{3<<3 | 2, 1, 'x'}), at.text(`"`, same(`\u0001`), `"`), false, 0},
		{"a long number", at.filled([]byte{2<<3 | 1, 0, 0, 0, 0, 0, 0, 0, 0}), at.text("1", same("1"), "1"), false, 0},
	}
}

// whole writes the JSON of a message whose last field has one value.
func (p place) whole(value string) func(int) []byte {
	return func(int) []byte {
		var before, after strings.Builder
		for i, fd := range p {
			before.WriteString(`{"` + fd.JSONName() + `":`)
			if fd.IsList() && i < len(p)-1 {
				before.WriteString("[")
			}
		}
		for i := len(p) - 1; i >= 0; i-- {
			if p[i].IsList() && i < len(p)-1 {
				after.WriteString("]")
			}
			after.WriteString("}")
		}
		return []byte(before.String() + value + after.String())
	}
}

// wrapped puts the bytes of the last field where it belongs.
func (p place) wrapped(inner []byte) []byte {
	for i := len(p) - 2; i >= 0; i-- {
		inner = protowire.AppendBytes(protowire.AppendTag(nil, p[i].Number(), protowire.BytesType), inner)
	}
	return inner
}

// overhead is the space for what is around a filled field.
func (p place) overhead() int { return 16 * len(p) }

func (p place) tag(t protowire.Type) []byte { return protowire.AppendTag(nil, p.last().Number(), t) }

// filled repeats one value.
func (p place) filled(value []byte) func(int) []byte {
	return func(size int) []byte {
		return p.wrapped(repeat(protowire.AppendBytes(p.tag(protowire.BytesType), value), size-p.overhead()))
	}
}

func mapEntry(i int) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), fmt.Sprint("k", i))
}

// filledEach repeats values that differ.
func (p place) filledEach(value func(i int) []byte) func(int) []byte {
	return func(size int) []byte {
		var inner []byte
		for i := 0; len(inner) < size-p.overhead()-32; i++ {
			inner = protowire.AppendBytes(append(inner, p.tag(protowire.BytesType)...), value(i))
		}
		return p.wrapped(inner)
	}
}

func (p place) packed() func(int) []byte {
	return func(size int) []byte {
		values := repeat([]byte{1}, size-p.overhead()-16)
		return p.wrapped(protowire.AppendBytes(p.tag(protowire.BytesType), values))
	}
}

func (p place) long() func(int) []byte {
	return func(size int) []byte {
		return p.wrapped(protowire.AppendBytes(p.tag(protowire.BytesType), repeat([]byte("A"), size-p.overhead()-16)))
	}
}

func (p place) varints() func(int) []byte {
	return func(size int) []byte {
		return p.wrapped(repeat(protowire.AppendVarint(p.tag(protowire.VarintType), 1), size-p.overhead()))
	}
}

// same yields one text for each element; numbered yields another one each time.
func same(unit string) func(int) string { return func(int) string { return unit } }
func numbered(format string) func(int) string {
	return func(i int) string { return fmt.Sprintf(format, i) }
}

// text writes the JSON of a message whose last field is filled.
func (p place) text(open string, unit func(int) string, last string) func(int) []byte {
	return func(size int) []byte {
		var out strings.Builder
		var ends []string
		for i, fd := range p {
			out.WriteString(`{"` + fd.JSONName() + `":`)
			end := "}"
			if fd.IsList() && i < len(p)-1 {
				out.WriteString("[")
				end = "]}"
			}
			ends = append(ends, end)
		}
		out.WriteString(open)
		for i := 0; out.Len() < size-p.overhead()-32; i++ {
			if i > 0 && open != "1" {
				out.WriteByte(',')
			}
			out.WriteString(unit(i))
		}
		out.WriteString(last)
		for i := len(ends) - 1; i >= 0; i-- {
			out.WriteString(ends[i])
		}
		return []byte(out.String())
	}
}

// general are shapes of any message.
func general() []shape {
	deep := func(open, shut string) func(int) []byte {
		return func(size int) []byte {
			n := size / (len(open) + len(shut)) / 2
			return []byte(strings.Repeat(open, n) + strings.Repeat(shut, n))
		}
	}
	of := func(unit string) func(int) []byte {
		return func(size int) []byte { return repeat([]byte(unit), size) }
	}
	unknown := string(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1))
	group := string(protowire.AppendTag(nil, 1000, protowire.StartGroupType))
	return []shape{
		{"unknown fields", of(unknown), func(size int) []byte { return []byte(list("{", `"x":1`, "}", size)) }, true, 0},
		{"nested", of(group), deep("[", "]"), false, 0},
		{"nested objects", of(group), deep(`{"a":`, "}"), false, 0},
		{"garbage", of("\xff"), of(" "), false, 0},
	}
}

// batchOfFull is a batch of as many items as are allowed, each with as many wrong
// elements as are allowed.
func batchOfFull(int) []byte {
	labels, to := make(map[string]string), make([]string, 50)
	for i := range 32 {
		labels[fmt.Sprint("?", i)] = "\x01"
	}
	item := &fireoncev1.ScheduleJobRequest{Labels: labels, Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{
		Email: &fireoncev1.Email{To: to, Cc: to, Bcc: to},
	}}}
	batch := &fireoncev1.BatchScheduleJobsRequest{}
	for range 500 {
		batch.Requests = append(batch.Requests, item)
	}
	data, err := proto.Marshal(batch)
	if err != nil {
		panic(err) // plain texts
	}
	return data
}

// batchOfBodies is a batch whose bodies have as many values as are allowed in all.
func batchOfBodies() *fireoncev1.BatchScheduleJobsRequest {
	batch := &fireoncev1.BatchScheduleJobsRequest{}
	for range 500 {
		list := &structpb.ListValue{}
		for range wirelimit.AllValues/500/2 - 1 {
			list.Values = append(list.Values, structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewNullValue()}}))
		}
		batch.Requests = append(batch.Requests, &fireoncev1.ScheduleJobRequest{Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{
			Webhook: &fireoncev1.Webhook{Content: &fireoncev1.Webhook_BodyJson{BodyJson: structpb.NewListValue(list)}},
		}}})
	}
	return batch
}

func batchOfBodiesInBinary(int) []byte {
	data, err := proto.Marshal(batchOfBodies())
	if err != nil {
		panic(err) // plain values
	}
	return data
}

func batchOfBodiesInJSON(int) []byte {
	data, err := protojson.Marshal(batchOfBodies())
	if err != nil {
		panic(err)
	}
	return data
}

// contractCases yields what the contract's own fields allow.
func contractCases(sizes Sizes) iter.Seq[Case] {
	return func(yield func(Case) bool) {
		for r := range methods(sizes) {
			for _, s := range general() {
				if !r.cases("", s, yield) {
					return
				}
			}
			for at := range places(r.input, nil) {
				for s := range shapes(at) {
					if !r.cases(at.String(), s, yield) {
						return
					}
				}
			}
			full := shape{"a lawful number of wrong elements", batchOfFull, nil, true, 0}
			bodies := shape{"a lawful number of values in bodies", batchOfBodiesInBinary, batchOfBodiesInJSON, true, usualBatch}
			if r.limit == sizes.Batch && (!r.cases("requests", full, yield) || !r.cases("requests", bodies, yield)) {
				return
			}
			for c := range r.bombs() {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// cases yields one shape by each way that suits it.
func (r rpc) cases(field string, s shape, yield func(Case) bool) bool {
	for _, w := range ways {
		if !w.suits(r, s) {
			continue
		}
		keys := []Key{r.key}
		if field == "" && s.many { // what has no key is turned away whatever it is
			keys = []Key{r.key, NoKey, WrongKey}
		}
		for _, key := range keys {
			write := s.binary
			if w.json {
				write = s.json
			}
			c, ok := w.pack(r, key, func() []byte { return write(r.limit) })
			c.Limit = max(c.Limit, s.least)
			c.Name = fmt.Sprintf("%s %s %s, %s, %s", r.path, field, s.name, w.name, key)
			if ok && !yield(c) {
				return false
			}
		}
	}
	return true
}
