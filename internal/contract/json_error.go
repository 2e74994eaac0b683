package contract

import (
	"bytes"
	"encoding/json"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/fireonce/fireonce/internal/textfile"
)

// Rules of this file: an error of protojson becomes a violation of the field that the
// decoder was at. It knows a line and a column; the field is found by reading the text up
// to there. No value is quoted, and no key of a map.

// The rules that JSON can break.
const (
	ruleSyntax  = "json.syntax"
	ruleUnknown = "json.unknown_field"
	ruleTwice   = "json.set_twice"
	ruleValue   = "json.value"
)

var (
	jsonPosition = regexp.MustCompile(`\(line (\d+):(\d+)\)`)
	// unknownName is where protojson quotes the name of a field that it does not know.
	unknownName = regexp.MustCompile(`(?s)unknown field ("(?:[^"\\]|\\.)*")`)
)

// explainJSON explains an error of protojson.
func explainJSON(err error, text []byte, md protoreflect.MessageDescriptor) *JSONError {
	words := err.Error()
	at, line, column := positionOf(words, text)
	found := func(path, rule, sentence string) *JSONError {
		return &JSONError{Field: path, Rule: rule, Sentence: sentence, Line: line, Column: column}
	}
	spot := spotAt(text, at, md)
	switch quoted := unknownName.FindStringSubmatch(words); {
	case quoted != nil:
		name, _ := strconv.Unquote(quoted[1])
		return found(spot.parent, ruleUnknown, spot.unknownField(name))
	case strings.Contains(words, "duplicate field"):
		return found(spot.path, ruleTwice, "is set twice")
	case strings.Contains(words, "duplicate map key"):
		return found(spot.path, ruleTwice, "has a name twice")
	case strings.Contains(words, "is already set"):
		return found(spot.parent, ruleTwice, spot.oneOf())
	case isSyntax(words) && !json.Valid(text):
		return explainSyntax(text)
	case spot.free && spot.isNumber():
		return found(spot.path, ruleNumber, spot.unheld())
	case spot.field == nil && spot.path == "":
		return found("", ruleSyntax, noObject)
	default:
		return found(spot.path, ruleValue, spot.wants())
	}
}

// explainSyntax explains a text that is no JSON.
func explainSyntax(text []byte) *JSONError {
	if len(bytes.TrimSpace(text)) == 0 {
		return &JSONError{Rule: ruleSyntax, Sentence: "is empty; one that sets nothing is {}"}
	}
	line, column, why := textfile.ExplainJSON(text)
	return &JSONError{Rule: ruleSyntax, Sentence: "is not JSON: " + why, Line: line, Column: column}
}

// noObject is the sentence for JSON that is no object.
const noObject = "is not a JSON object of this contract: one begins with { and ends with }"

// oneOf returns a sentence about a field that is set beside another one of its oneof.
func (s spot) oneOf() string {
	if s.field == nil || s.field.ContainingOneof() == nil {
		return "sets two fields of which only one may be set"
	}
	fields := s.field.ContainingOneof().Fields()
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = fields.Get(i).JSONName()
	}
	return "sets two fields of which only one may be set: " + strings.Join(names, ", ")
}

// isSyntax reports whether protojson calls a text malformed. It does so, too, where a value
// is of another form than its field.
func isSyntax(words string) bool {
	return strings.Contains(words, "syntax error") || strings.Contains(words, "unexpected EOF")
}

// positionOf reads where the decoder was: an offset in the text, and its line and column.
func positionOf(words string, text []byte) (at, line, column int) {
	found := jsonPosition.FindStringSubmatch(words)
	if found == nil {
		return len(text), 0, 0
	}
	line, _ = strconv.Atoi(found[1])
	column, _ = strconv.Atoi(found[2])
	for range line - 1 {
		at += bytes.IndexByte(text[at:], '\n') + 1
	}
	for range column - 1 {
		_, size := utf8.DecodeRune(text[at:])
		at += size
	}
	return min(at, len(text)), line, column
}

// spot is a place in a JSON text of the contract.
type spot struct {
	path   string
	parent string                       // the path of the object that it is in
	field  protoreflect.FieldDescriptor // nil: not known
	single bool                         // one element of a list
	text   bool                         // a value of a map of texts
	free   bool                         // a body in JSON, or in one: its path is the body's
	value  json.Token
	open   []*frame // the objects and lists around it, the outermost first
}

// frame is an object or a list that is open.
type frame struct {
	md    protoreflect.MessageDescriptor // of an object; nil: of no message of the contract
	fd    protoreflect.FieldDescriptor   // whose value it is
	path  string
	list  bool
	index int
	named bool // the next token of an object is its value
	free  bool // it is in a body in JSON
	next  spot // of that value
}

// spotAt returns the place of the token at an offset. What it cannot follow it leaves
// out: the path is then that of the object around it.
func spotAt(text []byte, at int, root protoreflect.MessageDescriptor) (now spot) {
	for next, end := range spots(text, root) {
		if now = next; end > at {
			break
		}
	}
	return now
}

// spots yields the place of each token, and the offset at which the token ends. The end of an object
// or a list is where the last token before it is.
func spots(text []byte, root protoreflect.MessageDescriptor) iter.Seq2[spot, int] {
	return func(yield func(spot, int) bool) {
		in := json.NewDecoder(bytes.NewReader(text))
		in.UseNumber()
		var open []*frame
		now := spot{}
		for {
			token, err := in.Token()
			if err != nil {
				return
			}
			var top *frame
			if len(open) > 0 {
				top = open[len(open)-1]
			}
			delim, isDelim := token.(json.Delim)
			name, isText := token.(string)
			switch {
			case isDelim && (delim == '}' || delim == ']'):
				open = open[:len(open)-1]
			case isText && top != nil && !top.list && !top.named:
				top.enter(name)
				now = top.next
				now.open = open
			default:
				now = valueSpot(top)
				now.value, now.open = token, open
				if isDelim {
					open = append(open, opened(now, delim, top == nil, root))
				}
			}
			if !yield(now, int(in.InputOffset())) || len(open) == 0 {
				return
			}
		}
	}
}

// unheldNumber returns the first number of a body in JSON that a double would change; nil: there is
// none. The text is one that was decoded.
func unheldNumber(text []byte, md protoreflect.MessageDescriptor) *JSONError {
	if !anyUnheld(text) {
		return nil
	}
	for at, end := range spots(text, md) {
		if number, ok := at.value.(json.Number); ok && at.free && !held(number.String()) {
			line, column := placeOf(text, end-len(number))
			return &JSONError{Field: at.path, Rule: ruleNumber, Sentence: at.unheld(), Line: line, Column: column}
		}
	}
	return nil
}

// anyUnheld reports whether a text that is JSON has a number that a double would change, be it in a body or
// not. It spares almost every text the objects that places are made of.
func anyUnheld(text []byte) bool {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == '-' || c >= '0' && c <= '9':
			begin := i
			for i+1 < len(text) && strings.IndexByte("0123456789.eE+-", text[i+1]) >= 0 {
				i++
			}
			if !held(string(text[begin : i+1])) {
				return true
			}
		}
	}
	return false
}

// unheld returns a sentence about a number that a double would change.
func (s spot) unheld() string {
	said := "has a number that a double would change"
	if plain := textBeside(s.field); plain != nil {
		said += "; " + plain.JSONName() + " takes it as it is, or write it as a string"
	}
	return said
}

// placeOf returns the line and the column of an offset.
func placeOf(text []byte, at int) (line, column int) {
	before := text[:at]
	begin := bytes.LastIndexByte(before, '\n') + 1
	return bytes.Count(before, []byte{'\n'}) + 1, utf8.RuneCount(before[begin:]) + 1
}

// enter takes the name of an object's member.
func (f *frame) enter(name string) {
	f.named = true
	f.next = spot{path: f.path, parent: f.path}
	if f.free {
		f.next.field, f.next.free = f.fd, true
		return
	}
	if f.md == nil {
		f.next.text = f.fd != nil && f.fd.IsMap() && f.fd.MapValue().Kind() == protoreflect.StringKind
		return
	}
	fd := f.md.Fields().ByJSONName(name)
	if fd == nil {
		fd = f.md.Fields().ByTextName(name)
	}
	if fd == nil {
		return
	}
	f.next.field, f.next.path, f.next.free = fd, string(fd.Name()), isValue(fd.Message())
	if f.path != "" {
		f.next.path = f.path + "." + f.next.path
	}
}

// valueSpot is the place of a value.
func valueSpot(top *frame) spot {
	switch {
	case top == nil:
		return spot{}
	case top.list && top.free:
		return spot{path: top.path, parent: top.path, field: top.fd, free: true}
	case top.list:
		path := top.path + "[" + strconv.Itoa(top.index) + "]"
		top.index++
		return spot{path: path, parent: top.path, field: top.fd, single: true}
	default:
		top.named = false
		return top.next
	}
}

// opened is the object or the list that begins at a place.
func opened(at spot, delim json.Delim, outermost bool, root protoreflect.MessageDescriptor) *frame {
	f := &frame{path: at.path, fd: at.field, list: delim == '[', free: at.free}
	switch {
	case outermost:
		f.md = root
	case at.free:
	case at.field != nil && !f.list && !at.field.IsMap() && (at.single || !at.field.IsList()):
		f.md = at.field.Message()
	}
	return f
}

// wantsWhole returns what the value of a map, a list or an unknown field must be; empty: it is none of these.
func (s spot) wantsWhole() string {
	switch fd := s.field; {
	case fd == nil && s.text:
		return "must be a text in double quotes"
	case fd == nil:
		return "has a value that this contract does not have"
	case fd.IsMap() && fd.MapValue().Kind() == protoreflect.StringKind:
		return `must be an object of names and texts, such as {"name": "text"}`
	case fd.IsMap():
		return "must be an object of names and values"
	case fd.IsList() && !s.single:
		return "must be a list"
	default:
		return ""
	}
}

// wants returns what a field's value must be.
func (s spot) wants() string {
	fd := s.field
	if whole := s.wantsWhole(); whole != "" {
		return whole
	}
	text, isText := s.value.(string)
	switch fd.Kind() {
	case protoreflect.EnumKind:
		said := OneOfValues(fd.Enum())
		if meant := nearValues(fd.Enum(), text); isText && len(meant) > 0 {
			said += "; did you mean " + strings.Join(meant, " or ") + "?"
		}
		return said
	case protoreflect.BoolKind:
		return "must be true or false"
	case protoreflect.StringKind:
		if _, structure := s.value.(json.Delim); structure {
			if typed := jsonBeside(fd); typed != nil {
				return "must be a string of UTF-8, in double quotes; " + typed.JSONName() + " takes JSON as it is"
			}
			return `must be a string of UTF-8, in double quotes; JSON in it is written "{\"name\": 1}"`
		}
		return "must be a string of UTF-8, in double quotes"
	case protoreflect.BytesKind:
		said := "must be a string of base64"
		if plain := fd.ContainingMessage().Fields().ByName(fd.Name() + "_text"); plain != nil {
			said += "; " + plain.JSONName() + " takes a text as it is"
			if typed := jsonBeside(fd); typed != nil {
				said += ", " + typed.JSONName() + " JSON"
			}
		}
		return said
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return "must be a number"
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return messageWanted(fd.Message())
	default:
		return "must be a whole number that fits into " + fd.Kind().String()
	}
}

// isNumber reports whether the value at a place is a number.
func (s spot) isNumber() bool {
	_, number := s.value.(json.Number)
	return number
}

func messageWanted(md protoreflect.MessageDescriptor) string {
	switch md.FullName() {
	case "google.protobuf.Timestamp":
		return `must be a time in RFC 3339, such as "2030-01-31T09:00:00Z"`
	case "google.protobuf.Duration":
		return `must be a duration in seconds, such as "90s" or "0.5s"`
	case "google.protobuf.Value":
		return `must be JSON, such as {"order": 43}, whose strings are UTF-8`
	case "google.protobuf.FieldMask":
		return `must be the names of fields in one string, such as "payload,labels"`
	default:
		return "must be an object"
	}
}
