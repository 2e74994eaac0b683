package textfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Rules of this file: a text that is no JSON is explained by the byte at which the parser stopped and the
// one before it, because the parser's own words are for programmers of parsers. No error has a value of the text,
// which may be a secret.

// DecodeJSON reads one JSON object of a file that an operator writes. It refuses fields that it does not know.
func DecodeJSON(text []byte, to any) error {
	text, err := Plain(text)
	if err != nil {
		return err
	}
	if !json.Valid(text) {
		line, column, why := ExplainJSON(text)
		return fmt.Errorf("line %d, column %d: no JSON: %s", line, column, why)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(to)
	if kind := new(json.UnmarshalTypeError); errors.As(err, &kind) {
		line, column := place(text, int(kind.Offset))
		return fmt.Errorf("line %d, column %d: %s is no %s", line, column, kind.Field, kind.Type)
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: ")) // an unknown field
	}
	return nil
}

// place returns the line and the column of an offset.
func place(text []byte, at int) (line, column int) {
	text = text[:min(at, len(text))]
	return 1 + bytes.Count(text, []byte{'\n'}), 1 + utf8.RuneCount(text[bytes.LastIndexByte(text, '\n')+1:])
}

// ExplainJSON returns where a text is no JSON, and why.
func ExplainJSON(text []byte) (line, column int, why string) {
	at, why := syntaxOf(text)
	line, column = place(text, at)
	return line, column, why
}

// syntaxOf returns where a text is no JSON, and why.
func syntaxOf(text []byte) (at int, why string) {
	if len(bytes.TrimSpace(text)) == 0 {
		return 0, "it is empty"
	}
	in := json.NewDecoder(bytes.NewReader(text))
	err := in.Decode(new(json.RawMessage))
	var wrong *json.SyntaxError
	switch {
	case bytes.HasPrefix(text, []byte(Mark)):
		return 0, "it begins with a byte order mark; leave that out"
	case IsUTF16(text):
		return 0, "it is UTF-16, and must be UTF-8"
	case errors.As(err, &wrong):
		at = max(int(wrong.Offset)-1, 0)
	case err == nil:
		at = int(in.InputOffset())
		at += len(text[at:]) - len(bytes.TrimLeft(text[at:], " \t\r\n"))
		return at, "something follows the JSON object"
	default:
		return len(text), "it ends too early; a }, a ] or a \" is missing"
	}
	if r, size := utf8.DecodeRune(text[at:]); size > 1 && (unicode.IsSpace(r) || unicode.Is(unicode.Cf, r)) {
		return at, fmt.Sprintf("U+%04X is not a blank of JSON; leave it out, or type a space", r)
	} else if size > 1 && unicode.Is(unicode.Quotation_Mark, r) {
		return at, fmt.Sprintf("U+%04X is not a quotation mark of JSON; names and texts stand in double quotes: \"", r)
	}
	return at, stoppedBy(text[at], lastOf(text[:at]))
}

// lastOf returns the last byte that is no space; 0: there is none.
func lastOf(text []byte) byte {
	text = bytes.TrimRight(text, " \t\r\n")
	if len(text) == 0 {
		return 0
	}
	return text[len(text)-1]
}

// stoppedBy explains a byte at which the parser stopped, by the one before it.
func stoppedBy(c, last byte) string {
	switch {
	case (c == '}' || c == ']') && last == ',':
		return "there is a comma before " + string(c) + "; leave that comma out"
	case c == ',':
		return "there is a comma that nothing needs"
	case c == '/' || c == '#':
		return "it has no comments"
	case c < ' ':
		return `a line break in a text is written \n, and a tab \t`
	case last == '\\':
		return `a \ in a text is written \\`
	case last == '{', c == '\'', last == ',' && c >= 'A':
		return "names and texts stand in double quotes"
	case last == ':', last == '[':
		return "a value is a text in double quotes, a number, true, false, null, [ … ] or { … }"
	case last != 0 && (c == '"' || c == '{' || c == '['):
		return "a comma or a colon is missing before this"
	default:
		return "an object begins with { and ends with }, and names and texts stand in double quotes"
	}
}
