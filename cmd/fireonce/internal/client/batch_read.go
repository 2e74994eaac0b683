package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/fireonce/fireonce/internal/textfile"
)

// Rules of this file: a batch is read as programs and people write it: one object after the other, on
// one line or on several, or a JSON list of them; with blank lines, line ends of any kind and a byte order mark.
// Anything else is an error with its line.

// objects reads the JSON objects of a batch.
type objects struct {
	in           *bufio.Reader
	line, column int // of the last byte
	begun, list  bool
}

func newObjects(in io.Reader) *objects {
	return &objects{in: bufio.NewReader(in), line: 1}
}

// object is a text that begins with {, and where it begins.
type object struct {
	text         []byte
	line, column int
}

// next returns the next object. It fails with io.EOF at the end.
func (o *objects) next() (*object, error) {
	c, err := o.start()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case errors.Is(err, io.EOF) && o.list:
		return nil, o.wrong("the list ends too early; a ] is missing")
	case err != nil:
		return nil, err
	case o.list && c == ']':
		if _, err := o.skipSpace(); err == nil {
			return nil, o.wrong("there is something after the list")
		}
		return nil, io.EOF
	case c == '{':
		return o.object()
	case c == '/', c == '#':
		return nil, o.wrong("JSON has no comments; delete this line")
	case c == ',':
		return nil, o.wrong("there is no comma between lines; leave it out, or put all objects between [ and ]")
	default:
		return nil, o.wrong(`here must be an object, such as {"idempotencyKey": …}`)
	}
}

// start returns the byte with which the next object, or the end of the list, begins.
func (o *objects) start() (byte, error) {
	first := !o.begun
	if o.begun = true; first {
		if err := o.begin(); err != nil {
			return 0, err
		}
	}
	c, err := o.skipSpace()
	switch {
	case err != nil:
	case first && c == '[':
		o.list = true
		return o.skipSpace()
	case o.list && c != ']' && c != ',':
		return c, o.wrong("a comma is missing between two objects of the list")
	case o.list && c == ',':
		if c, err = o.skipSpace(); c == ']' {
			return c, o.wrong("there is a comma before ]; leave that comma out")
		}
	}
	return c, err
}

// begin drops the mark.
func (o *objects) begin() error {
	start, err := o.in.Peek(len(textfile.Mark))
	switch {
	case textfile.IsUTF16(start):
		return textfile.ErrUTF16
	case string(start) == textfile.Mark:
		_, err = o.in.Discard(len(start))
	}
	if errors.Is(err, io.EOF) {
		return nil // it is shorter
	}
	return err
}

const recordSeparator = 0x1e

// wrong is an error about the last byte.
func (o *objects) wrong(why string) error {
	return fmt.Errorf("line %d, column %d: %s", o.line, max(o.column, 1), why)
}

// skipSpace returns the next byte that is no blank. A mark within the text is left by programs that join files, and a
// record separator begins each object in RFC 7464.
func (o *objects) skipSpace() (byte, error) {
	for {
		c, err := o.read()
		if rest, _ := o.in.Peek(len(textfile.Mark) - 1); err == nil && string(append([]byte{c}, rest...)) == textfile.Mark {
			if _, err = o.in.Discard(len(rest)); err == nil {
				continue
			}
		}
		if err == nil && c == recordSeparator {
			continue
		}
		if err != nil || !bytes.ContainsRune([]byte(" \t\r\n"), rune(c)) {
			return c, err
		}
	}
}

func (o *objects) read() (byte, error) {
	c, err := o.in.ReadByte()
	switch {
	case err != nil:
	case c == '\n':
		o.line, o.column = o.line+1, 0
	case utf8.RuneStart(c):
		o.column++
	}
	return c, err
}

// object reads on to the end of an object whose { was read. One that does not end is returned as it is: the
// parser explains it.
func (o *objects) object() (*object, error) {
	out := &object{text: []byte{'{'}, line: o.line, column: o.column}
	quoted, escaped := false, false
	for depth := 1; depth > 0; {
		c, err := o.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if out.text = append(out.text, c); len(out.text) > maxLine {
			return nil, fmt.Errorf("line %d: the object has more than %d bytes", out.line, maxLine)
		}
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			depth--
		}
	}
	return out, nil
}
