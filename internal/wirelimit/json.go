package wirelimit

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Rules of this file: only the structure of a JSON text is read, and no deeper than the
// contract's types go. The decoder checks whether a short value is valid for its type. A
// text whose structure does not match the type is malformed: a decoder fails at the same
// position or before.

// JSON returns nil if a JSON text is within the limits, and *TooMany or *Malformed otherwise.
func (p *Plan) JSON(text []byte) error {
	s := scan{text: text}
	var counts [row]uint32
	if err := s.message(p.root, rowOf(p.root, &counts), 0); err != nil {
		return err
	}
	if s.broken || s.next() != 0 {
		return &Malformed{At: min(s.at+1, len(text))}
	}
	return nil
}

// scan is the state of counting one JSON text.
type scan struct {
	text   []byte
	at     int
	values int
	broken bool
}

// next returns the next byte that is not a space; 0: there is none.
func (s *scan) next() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// take skips the byte c, or fails.
func (s *scan) take(c byte) bool {
	if s.broken || s.next() != c {
		s.broken = true
		return false
	}
	s.at++
	return true
}

// each calls one for each member between two brackets, until one fails.
func (s *scan) each(first, last byte, one func() *TooMany) *TooMany {
	if !s.take(first) {
		return nil
	}
	if s.next() == last {
		s.at++
		return nil
	}
	for {
		if err := one(); err != nil || s.broken {
			return err
		}
		if s.next() != ',' {
			s.take(last)
			return nil
		}
		s.at++
	}
}

// message counts one message. base is the offset of its row.
func (s *scan) message(m *message, counts []uint32, base int) *TooMany {
	return s.each('{', '}', func() *TooMany {
		name := s.str()
		if !s.take(':') { // before the name is looked up, as in a decoder
			return nil
		}
		f := m.named(name)
		if f == nil {
			s.broken = true
			return nil
		}
		return s.field(f, counts, base)
	})
}

// field counts the value of a field.
func (s *scan) field(f *field, counts []uint32, base int) *TooMany {
	switch {
	case s.next() == 'n' && !f.free: // null: as if the field were absent
		s.scalar()
		return nil
	case f.pairs:
		return s.each('{', '}', func() *TooMany {
			s.str()
			if !s.take(':') {
				return nil
			}
			return s.element(f, f.child.numbers[2], counts, base)
		})
	case !f.single:
		return s.each('[', ']', func() *TooMany { return s.element(f, f, counts, base) })
	case f.child == nil:
		s.value(f)
		return nil
	}
	count := &counts[base+f.counter]
	if *count++; int(*count) > f.limit {
		return &TooMany{Field: f.name, Limit: f.limit}
	}
	if f.free {
		return s.free(values{&counts[base+f.first], &s.values}, 0).of(f.name)
	}
	if f.text {
		return s.written(f, counts, base)
	}
	if err := s.message(f.child, counts, base+f.first); err != nil {
		return err.inside(f.name)
	}
	return nil
}

// free counts JSON of any form.
func (s *scan) free(v values, depth int) *TooMany {
	if err := v.add(); err != nil {
		return err
	}
	first := s.next()
	if first != '{' && first != '[' {
		s.value(anyScalar)
		return nil
	}
	depth, err := deeper(depth)
	switch {
	case err != nil:
		return err
	case first == '[':
		return s.each('[', ']', func() *TooMany { return s.free(v, depth) })
	default:
		return s.each('{', '}', func() *TooMany {
			s.str()
			if !s.take(':') {
				return nil
			}
			return s.free(v, depth)
		})
	}
}

// element counts one element of the list or map f. value describes its values.
func (s *scan) element(f, value *field, counts []uint32, base int) *TooMany {
	count := &counts[base+f.counter]
	if *count++; int(*count) > f.limit {
		return &TooMany{Field: f.name, Limit: f.limit}
	}
	if value.child == nil || value.text {
		s.value(value)
		return nil
	}
	var space [row]uint32
	if err := s.message(value.child, rowOf(value.child, &space), 0); err != nil {
		return err.inside(f.name + "[" + strconv.Itoa(int(*count)-1) + "]")
	}
	return nil
}

// written counts a message that is one value in JSON.
func (s *scan) written(f *field, counts []uint32, base int) *TooMany {
	s.next()
	begin := s.at
	s.scalar()
	if !f.commas || s.broken {
		return nil
	}
	names := f.child.numbers[1]
	count := &counts[base+f.first+names.counter]
	more := bytes.Count(s.text[begin:s.at], []byte{','}) + 1
	if *count += uint32(min(more, names.limit+1)); int(*count) > names.limit {
		return &TooMany{Field: f.name, Limit: names.limit}
	}
	return nil
}

// anyScalar is a scalar in JSON of any form.
var anyScalar = &field{free: true}

// value skips the value of a scalar. A decoder quotes an invalid value several times in its
// error, so a long value that it would not accept ends the text here.
func (s *scan) value(f *field) {
	s.next()
	begin := s.at
	s.scalar()
	token := s.text[begin:min(s.at, len(s.text))]
	if s.broken || len(token) <= longestName || f.kind == protoreflect.StringKind || f.free && token[0] == '"' {
		return
	}
	if f.kind != protoreflect.BytesKind || !inBase64(token) {
		s.at, s.broken = begin, true
	}
}

// inBase64 reports whether a decoder accepts a string as bytes.
func inBase64(quoted []byte) bool {
	if len(quoted) < 2 || quoted[0] != '"' {
		return false
	}
	text := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		var plain string
		if json.Unmarshal(quoted, &plain) != nil {
			return false
		}
		text = []byte(plain)
	}
	enc := base64.StdEncoding
	if bytes.ContainsAny(text, "-_") {
		enc = base64.URLEncoding
	}
	if len(text)%4 != 0 {
		enc = enc.WithPadding(base64.NoPadding)
	}
	_, err := io.Copy(io.Discard, base64.NewDecoder(enc, bytes.NewReader(text)))
	return err == nil
}

// scalar skips a text, a number or a word.
func (s *scan) scalar() {
	c := s.next()
	if c == '"' {
		s.str()
		return
	}
	begin := s.at
	for s.at < len(s.text) && !ends(s.text[s.at]) {
		s.at++
	}
	s.broken = s.broken || s.at == begin
}

// ends reports whether a byte ends a number or a word.
func ends(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', ',', ':', '"', '[', ']', '{', '}':
		return true
	default:
		return false
	}
}

// str skips a string and returns it with its quotes.
func (s *scan) str() []byte {
	if !s.take('"') {
		return nil
	}
	begin := s.at - 1
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			s.at++
			return s.text[begin:s.at]
		case '\\':
			s.at++
		}
		s.at++
	}
	s.at, s.broken = len(s.text), true
	return nil
}

// longestName bounds the length of a name of a field or of a value, or of a number, with
// escapes.
const longestName = 512

// named returns the field with a name as written in JSON.
func (m *message) named(quoted []byte) *field {
	if len(quoted) < 2 || len(quoted) > longestName {
		return nil
	}
	if f := m.names[string(quoted[1:len(quoted)-1])]; f != nil {
		return f
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return nil
	}
	var name string
	if json.Unmarshal(quoted, &name) != nil {
		return nil
	}
	return m.names[name]
}
