package contract

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// Rules of this file: JSON is read strictly, by the server and by the command line alike, and both
// explain a fault in the same words. An error has no value that was sent: a value may be a secret in the wrong
// place, and a client may log the error. It has the name of an unknown field only if that looks like a
// field's name, and never inside a credential.

// JSONError is the first fault of a JSON text.
type JSONError struct {
	// Field is the path of the part that is wrong; empty: the whole.
	Field string
	// Rule is one of those that JSON can break.
	Rule string
	// Sentence has neither the field nor the place.
	Sentence string
	// Line and Column begin at 1; 0: they are not known.
	Line, Column int
}

// Error implements error.
func (e *JSONError) Error() string { return e.Text("the request") + e.place() }

// Text returns the fault of a whole, which has a name, without the place.
func (e *JSONError) Text(whole string) string { return ViolationText(e.violation(whole)) }

// Violation returns the fault as a violation of a request.
func (e *JSONError) Violation() *fireoncev1.FieldViolation {
	v := e.violation("the request")
	v.Message += e.place()
	return v
}

func (e *JSONError) violation(whole string) *fireoncev1.FieldViolation {
	v := &fireoncev1.FieldViolation{Field: e.Field, Rule: e.Rule, Message: e.Sentence}
	if e.Field == "" {
		v.Message = whole + " " + v.GetMessage()
	}
	return v
}

func (e *JSONError) place() string {
	if e.Line == 0 {
		return ""
	}
	return fmt.Sprintf(" (line %d, column %d)", e.Line, e.Column)
}

// ViolationText returns a violation as a part of an error's message.
func ViolationText(v *fireoncev1.FieldViolation) string {
	if v.GetField() == "" {
		return v.GetMessage()
	}
	return v.GetField() + ": " + v.GetMessage()
}

// ReadJSON decodes a message; nil: it is decoded.
func ReadJSON(text []byte, m proto.Message) *JSONError {
	if err := protojson.Unmarshal(text, m); err != nil {
		return explainJSON(err, text, m.ProtoReflect().Descriptor())
	}
	return unheldNumber(text, m.ProtoReflect().Descriptor())
}

// ExplainMalformed explains a text whose structure is not that of its message, from the offset at
// on. The decoder gets no more than was counted.
func ExplainMalformed(text []byte, at int, md protoreflect.MessageDescriptor) *JSONError {
	err := ReadJSON(text[:at], dynamicpb.NewMessage(md))
	if err != nil && err.Rule != ruleSyntax {
		return err
	}
	if !json.Valid(text) {
		return explainSyntax(text)
	}
	spot := spotAt(text, at-1, md)
	if spot.field == nil {
		return &JSONError{Rule: ruleSyntax, Sentence: noObject, Line: 1, Column: 1}
	}
	return &JSONError{Field: spot.path, Rule: ruleValue, Sentence: spot.wants()}
}

const (
	// maxSlips is how far a name may be from the one that was meant.
	maxSlips = 2
	// maxMeant is how many names an error suggests, and maxListed how many it lists.
	maxMeant  = 3
	maxListed = 20
	// maxName is the length up to which an unknown name is repeated, and maxDigits its digits: a secret
	// has more.
	maxName, maxDigits = 32, 2
)

// unknownField returns a sentence about a field that the object at a spot does not have.
func (s spot) unknownField(name string) string {
	said := "has a field that this contract does not have"
	if repeatable(name) && !s.secret() {
		said = "has no field " + strconv.Quote(name)
	}
	if len(s.open) == 0 || s.open[len(s.open)-1].md == nil {
		return said
	}
	camel := !strings.Contains(name, "_")
	if meant := s.meant(name); len(meant) > 0 {
		for i := range meant {
			if meant[i] = spelled(meant[i], camel); meant[i] == name {
				return said + "; it belongs in the outermost object"
			}
			meant[i] = strconv.Quote(meant[i])
		}
		return said + "; did you mean " + strings.Join(meant, " or ") + "?"
	}
	fields := s.open[len(s.open)-1].md.Fields()
	if fields.Len() == 0 || fields.Len() > maxListed {
		return said
	}
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = spelled(string(fields.Get(i).Name()), camel)
	}
	return said + "; it has " + strings.Join(names, ", ")
}

// repeatable reports whether a name looks like a field's: letters, some of them small, and next to no digits.
func repeatable(name string) bool {
	digits, small := 0, false
	for _, r := range name {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case r >= 'a' && r <= 'z':
			small = true
		case r >= 'A' && r <= 'Z', r == '_', r == '-', r == '.':
		default:
			return false
		}
	}
	return small && len(name) <= maxName && digits <= maxDigits
}

// secret reports whether a spot is in a credential.
func (s spot) secret() bool {
	for _, f := range s.open {
		if f.md != nil && f.md.Name() == "Credential" {
			return true
		}
	}
	return false
}

// meant returns the names that a name may have been meant for: of fields of the same object, or paths to
// fields of others.
func (s spot) meant(name string) (out []string) {
	word := folded(name)
	same := func(other protoreflect.FieldDescriptor) bool { return folded(string(other.Name())) == word }
	near := func(other protoreflect.FieldDescriptor) bool { return isNear(folded(string(other.Name())), word) }
	shared := func(other protoreflect.FieldDescriptor) bool { return shareWord(string(other.Name()), name) }
	here := s.open[len(s.open)-1].md
	inside := func(matches func(protoreflect.FieldDescriptor) bool) (out []string) {
		for i := range here.Fields().Len() {
			if fd := here.Fields().Get(i); matches(fd) && len(out) < maxMeant {
				out = append(out, string(fd.Name()))
			}
		}
		return out
	}
	outside := func(matches func(protoreflect.FieldDescriptor) bool) (out []string) {
		for i := len(s.open) - 1; i >= 0 && len(out) == 0; i-- { // from the inside out
			if f := s.open[i]; f.md != nil {
				out = pathsTo(f.md, f.path, matches)
			}
		}
		return out
	}
	for _, look := range []func() []string{
		func() []string { return inside(same) }, func() []string { return outside(same) }, func() []string { return inside(near) },
		func() []string { return inside(shared) }, func() []string { return outside(near) },
	} {
		if out = look(); len(out) > 0 {
			return out
		}
	}
	return nil
}

// pathsTo returns paths to matching fields of the messages in a message, the shortest first.
func pathsTo(md protoreflect.MessageDescriptor, at string, matches func(protoreflect.FieldDescriptor) bool) (out []string) {
	type place struct {
		md   protoreflect.MessageDescriptor
		path string
	}
	seen := map[protoreflect.FullName]bool{}
	for next := []place{{md, at}}; len(next) > 0 && len(out) < maxMeant; next = next[1:] {
		in := next[0]
		if seen[in.md.FullName()] {
			continue
		}
		seen[in.md.FullName()] = true
		for i := range in.md.Fields().Len() {
			fd := in.md.Fields().Get(i)
			path := strings.TrimPrefix(in.path+"."+string(fd.Name()), ".")
			if matches(fd) && len(out) < maxMeant {
				out = append(out, path)
			}
			if fd.Message() == nil || fd.IsMap() || fd.Message().ParentFile().Package() == "google.protobuf" {
				continue
			}
			if fd.IsList() {
				path += "[0]"
			}
			next = append(next, place{fd.Message(), path})
		}
	}
	return out
}

// folded returns a name without the differences between camelCase, snake_case and others.
func folded(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(name))
}

// spelled returns a path of text names in camelCase, if that is asked for.
func spelled(path string, camel bool) string {
	if !camel {
		return path
	}
	parts := strings.Split(path, "_")
	for i := 1; i < len(parts); i++ {
		if parts[i] != "" {
			parts[i] = strings.ToUpper(parts[i][:1]) + parts[i][1:]
		}
	}
	return strings.Join(parts, "")
}

// shareWord reports whether two names have a word of four letters or more in common.
func shareWord(a, b string) bool {
	for _, x := range words(a) {
		for _, y := range words(b) {
			if len(x) >= 4 && x == y {
				return true
			}
		}
	}
	return false
}

// words returns the words of a name in camelCase or snake_case, in small letters.
func words(name string) []string {
	var spaced strings.Builder
	for i, r := range name {
		if i > 0 && r >= 'A' && r <= 'Z' {
			spaced.WriteByte('_')
		}
		spaced.WriteRune(r)
	}
	return strings.FieldsFunc(strings.ToLower(spaced.String()), func(r rune) bool { return r == '_' || r == '-' || r == ' ' })
}

// nearValues returns the values of an enum that a text may have been meant for.
func nearValues(e protoreflect.EnumDescriptor, text string) (out []string) {
	names := valueNames(e)
	if len(names) == 0 {
		return nil
	}
	// DELIVERY_ONCE_OR_ASK is meant by ONCE_OR_ASK, too.
	prefix := strings.TrimSuffix(string(e.Values().ByNumber(0).Name()), "UNSPECIFIED")
	word := folded(text)
	for _, matches := range []func(short string) bool{
		func(short string) bool { return folded(short) == word || folded(prefix+short) == word },
		func(short string) bool { return isNear(folded(short), word) || isNear(folded(prefix+short), word) },
		func(short string) bool { return shareWord(strings.ToLower(short), text) },
	} {
		for _, name := range names {
			if matches(strings.TrimPrefix(name, prefix)) && len(out) < maxMeant {
				out = append(out, name)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// Nearest returns the name of a list that is spelled most like another one; empty: there is none.
func Nearest(name string, list []string) (meant string) {
	best := maxSlips + 1
	for _, other := range list {
		if d := slips(folded(other), folded(name)); d < best && 2*d < len(other) {
			best, meant = d, other
		}
	}
	return meant
}

// isNear reports whether a word may be a slip of another one.
func isNear(meant, word string) bool {
	d := slips(meant, word)
	return d <= maxSlips && 2*d < len(meant)
}

// slips is the number of letters that were left out, added or changed. It is of no use
// for names of very different length, and then any large number.
func slips(a, b string) int {
	if max(len(a)-len(b), len(b)-len(a)) > maxSlips {
		return len(a) + len(b)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := corner
			if a[i] != b[j] {
				change++
			}
			corner = row[j+1]
			row[j+1] = min(change, row[j]+1, corner+1)
		}
	}
	return row[len(b)]
}
