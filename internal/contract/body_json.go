package contract

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// Rules of this file: a body that is typed as JSON (body_json) becomes text (body_text) before
// anything else is done with a request, so that fingerprints, limits, storage and connectors know
// text alone. The text is the canonical form of RFC 8785 (JCS): no white space, strings with the
// shortest escapes, keys in the order of their UTF-16 code units, numbers as ECMAScript prints
// them. The same JSON typed in another way is so the same request. A fingerprint depends on every
// byte of the form, and lasts as long as its job's key.

// The rules that a body in JSON can break, beside those of the JSON around it.
const (
	ruleKind   = "body_json.kind"
	ruleNumber = "body_json.number"
	ruleBytes  = "body_json.max_bytes"
	ruleFuture = "unknown_field"
)

// maxBody is the limit of body_text.
const maxBody = 256 << 10

// bodyFault is what makes a body no text.
type bodyFault struct{ rule, sentence string }

// Error implements error.
func (f bodyFault) Error() string { return f.sentence }

var (
	errKind   = bodyFault{ruleKind, "has a value of no kind; each is null, a number, a string, a bool, an object or a list"}
	errNumber = bodyFault{ruleNumber, "has a number that JSON does not have: NaN or an infinity"}
	errBytes  = bodyFault{ruleBytes, fmt.Sprintf("must have at most %d bytes without white space", maxBody)}
	errFuture = bodyFault{ruleFuture, "has a field that this server does not know"}
)

// CanonicalBody replaces the body_json of a request by its body_text, and returns what is wrong with
// it. It leaves lists alone: the requests of a batch are read one by one.
func CanonicalBody(m proto.Message) *fireoncev1.FieldViolation {
	return canonicalBody(m.ProtoReflect(), "")
}

func canonicalBody(m protoreflect.Message, above string) *fireoncev1.FieldViolation {
	for _, fd := range toBodies(m.Descriptor()) {
		if !m.Has(fd) {
			continue
		}
		path := above + string(fd.Name())
		if !isValue(fd.Message()) {
			if wrong := canonicalBody(m.Get(fd).Message(), path+"."); wrong != nil {
				return wrong
			}
			continue
		}
		text, err := canonicalOf(m.Get(fd).Message())
		if wrong := new(bodyFault); errors.As(err, wrong) {
			return &fireoncev1.FieldViolation{Field: path, Rule: wrong.rule, Message: wrong.sentence}
		}
		m.Set(textBeside(fd), protoreflect.ValueOfString(text)) // a member of one oneof takes the other's place
	}
	return nil
}

func canonicalOf(m protoreflect.Message) (string, error) {
	v, ok := m.Interface().(*structpb.Value)
	if !ok {
		return "", errKind // no decoder of the server makes one
	}
	return Canonical(v)
}

// isValue reports whether a type of message is any JSON.
func isValue(md protoreflect.MessageDescriptor) bool {
	return md != nil && md.FullName() == "google.protobuf.Value"
}

// textBeside returns the field that takes the same content as text; nil: there is none.
func textBeside(fd protoreflect.FieldDescriptor) protoreflect.FieldDescriptor {
	return beside(fd, "_json", "_text")
}

// jsonBeside returns the field that takes the same content as JSON; nil: there is none.
func jsonBeside(fd protoreflect.FieldDescriptor) protoreflect.FieldDescriptor {
	return beside(fd, "_text", "_json")
}

func beside(fd protoreflect.FieldDescriptor, suffix, other string) protoreflect.FieldDescriptor {
	name := strings.TrimSuffix(string(fd.Name()), suffix) + other
	return fd.ContainingMessage().Fields().ByName(protoreflect.Name(name))
}

// bodyPaths are the results of toBodies, by the name of the message.
var bodyPaths sync.Map

// toBodies returns the fields of a message that are a body in JSON or lead to one.
func toBodies(md protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	if known, ok := bodyPaths.Load(md.FullName()); ok {
		out, _ := known.([]protoreflect.FieldDescriptor)
		return out
	}
	var out []protoreflect.FieldDescriptor
	for i := range md.Fields().Len() {
		if fd := md.Fields().Get(i); fd.Cardinality() != protoreflect.Repeated && leadsToBody(fd, nil) {
			out = append(out, fd)
		}
	}
	bodyPaths.Store(md.FullName(), out)
	return out
}

// leadsToBody reports whether a field is JSON or a message in which JSON may be. above are the
// messages around it.
func leadsToBody(fd protoreflect.FieldDescriptor, above []protoreflect.FullName) bool {
	md := fd.Message()
	if isValue(md) {
		return true
	}
	if md == nil || slices.Contains(above, md.FullName()) {
		return false
	}
	above = append(above, md.FullName())
	for i := range md.Fields().Len() {
		if in := md.Fields().Get(i); in.Cardinality() != protoreflect.Repeated && leadsToBody(in, above) {
			return true
		}
	}
	return false
}

// Canonical returns the canonical form of JSON. It fails for what JSON cannot express, and above the
// limit of a body.
func Canonical(v *structpb.Value) (string, error) {
	out, err := appendValue(nil, v)
	return string(out), err
}

func appendValue(out []byte, v *structpb.Value) ([]byte, error) {
	if len(out) > maxBody {
		return nil, errBytes
	}
	if len(v.ProtoReflect().GetUnknown()) > 0 {
		return nil, errFuture
	}
	var err error
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		if kind.NullValue != structpb.NullValue_NULL_VALUE {
			return nil, errKind
		}
		out = append(out, "null"...)
	case *structpb.Value_BoolValue:
		out = strconv.AppendBool(out, kind.BoolValue)
	case *structpb.Value_NumberValue:
		if math.IsNaN(kind.NumberValue) || math.IsInf(kind.NumberValue, 0) {
			return nil, errNumber
		}
		out = appendNumber(out, kind.NumberValue)
	case *structpb.Value_StringValue:
		out = appendString(out, kind.StringValue)
	case *structpb.Value_ListValue:
		out, err = appendList(out, kind.ListValue)
	case *structpb.Value_StructValue:
		out, err = appendObject(out, kind.StructValue)
	default:
		return nil, errKind
	}
	if err == nil && len(out) > maxBody {
		err = errBytes
	}
	return out, err
}

func appendList(out []byte, list *structpb.ListValue) ([]byte, error) {
	if len(list.ProtoReflect().GetUnknown()) > 0 {
		return nil, errFuture
	}
	out = append(out, '[')
	for i, v := range list.GetValues() {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = appendValue(out, v); err != nil {
			return nil, err
		}
	}
	return append(out, ']'), nil
}

func appendObject(out []byte, object *structpb.Struct) ([]byte, error) {
	if len(object.ProtoReflect().GetUnknown()) > 0 {
		return nil, errFuture
	}
	out = append(out, '{')
	for i, key := range slices.SortedFunc(maps.Keys(object.GetFields()), compareUnits) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendString(out, key), ':')
		var err error
		if out, err = appendValue(out, object.GetFields()[key]); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// compareUnits compares two texts by their UTF-16 code units (RFC 8785, section 3.2.3). That is the
// order of their bytes, except for characters above U+FFFF, which come before U+E000.
func compareUnits(a, b string) int {
	for a != "" && b != "" {
		x, m := utf8.DecodeRuneInString(a)
		y, n := utf8.DecodeRuneInString(b)
		if x != y {
			return cmp.Or(cmp.Compare(firstUnit(x), firstUnit(y)), cmp.Compare(x, y))
		}
		a, b = a[m:], b[n:]
	}
	return cmp.Compare(len(a), len(b))
}

// firstUnit is the first UTF-16 code unit of a character.
func firstUnit(r rune) rune {
	const beyond, high = 0x10000, 0xd800
	if r < beyond {
		return r
	}
	return high + (r-beyond)>>10
}

// appendString appends a string with the escapes of RFC 8785, section 3.2.2.2. It ends above the limit of a
// body, which its caller refuses.
func appendString(out []byte, text string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for i := 0; i < len(text) && len(out) <= maxBody; i++ {
		switch c := text[i]; c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\b':
			out = append(out, `\b`...)
		case '\t':
			out = append(out, `\t`...)
		case '\n':
			out = append(out, `\n`...)
		case '\f':
			out = append(out, `\f`...)
		case '\r':
			out = append(out, `\r`...)
		default:
			if c < ' ' {
				out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
				continue
			}
			out = append(out, c)
		}
	}
	return append(out, '"')
}

// appendNumber appends a number as ECMAScript prints it (RFC 8785, section 3.2.2.3): the fewest digits
// that name it, with an exponent below 1e-6 and from 1e21 on.
func appendNumber(out []byte, f float64) []byte {
	if f == 0 { // minus zero, too
		return append(out, '0')
	}
	if size := math.Abs(f); size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(out, f, 'f', -1, 64)
	}
	out = strconv.AppendFloat(out, f, 'e', -1, 64)
	if n := len(out); out[n-4] == 'e' && out[n-2] == '0' { // e-07 is e-7
		out = append(out[:n-2], out[n-1])
	}
	return out
}

// held reports whether a number of a JSON text is the same after a double has held it: what is sent
// is then the number that was typed.
func held(number string) bool {
	const always = 15 // digits, without an exponent
	if len(number) <= always && !strings.ContainsAny(number, "eE") {
		return true
	}
	f, err := strconv.ParseFloat(number, 64)
	return err == nil && decimalOf(number) == decimalOf(strconv.FormatFloat(f, 'e', -1, 64))
}

// decimal is a number, digits × 10^exponent. Zero has no digits.
type decimal struct {
	negative bool
	digits   string // the first and the last are not 0
	exponent int
}

// decimalOf reads a number of a JSON text.
func decimalOf(number string) decimal {
	mantissa, power, _ := strings.Cut(strings.ToLower(number), "e")
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return decimal{}
	}
	exponent, err := strconv.Atoi(cmp.Or(power, "0"))
	if err != nil {
		exponent = math.MaxInt32 // no double has such a number
	}
	short := strings.TrimRight(digits, "0")
	return decimal{negative, short, exponent - len(fraction) + len(digits) - len(short)}
}
