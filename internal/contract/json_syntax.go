package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// Rules of this file: a text that is no JSON is explained by the byte at which the parser stopped and the
// one before it, because the parser's own words are for programmers of parsers.

// Mark is the byte order mark, with which some programs begin a text.
const Mark = "\uFEFF"

// explainSyntax explains a text that is no JSON.
func explainSyntax(text []byte) *JSONError {
	if len(bytes.TrimSpace(text)) == 0 {
		return &JSONError{Rule: ruleSyntax, Sentence: "is empty; one that sets nothing is {}"}
	}
	at, why := syntaxOf(text)
	line := 1 + bytes.Count(text[:at], []byte{'\n'})
	column := 1 + utf8.RuneCount(text[bytes.LastIndexByte(text[:at], '\n')+1:at])
	return &JSONError{Rule: ruleSyntax, Sentence: "is not JSON: " + why, Line: line, Column: column}
}

// syntaxOf returns where a text is no JSON, and why.
func syntaxOf(text []byte) (at int, why string) {
	in := json.NewDecoder(bytes.NewReader(text))
	err := in.Decode(new(json.RawMessage))
	var wrong *json.SyntaxError
	switch {
	case bytes.HasPrefix(text, []byte(Mark)):
		return 0, "it begins with a byte order mark; leave that out"
	case len(text) > 1 && (text[0] == 0 || text[1] == 0 || text[0] == 0xFE && text[1] == 0xFF || text[0] == 0xFF && text[1] == 0xFE):
		return 0, "it is UTF-16, and must be UTF-8"
	case errors.As(err, &wrong):
		at = max(int(wrong.Offset)-1, 0)
	case err == nil:
		at = int(in.InputOffset())
		at += len(text[at:]) - len(bytes.TrimLeft(text[at:], " \t\r\n"))
		return at, "there is something after its end"
	default:
		return len(text), "it ends too early; a }, a ] or a \" is missing"
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
