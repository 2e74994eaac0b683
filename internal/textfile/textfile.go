// Package textfile reads texts as programs of every system write them: with a byte order mark, and
// with line ends of their own.
package textfile

import (
	"bytes"
	"errors"
)

// Mark is the byte order mark of UTF-8.
const Mark = "\uFEFF"

// ErrUTF16 is the error for a text in UTF-16.
var ErrUTF16 = errors.New("the text is UTF-16; save it as UTF-8")

// Plain returns a text without its mark. It fails with ErrUTF16.
func Plain(text []byte) ([]byte, error) {
	if IsUTF16(text) {
		return nil, ErrUTF16
	}
	return bytes.TrimPrefix(text, []byte(Mark)), nil
}

// IsUTF16 reports whether a text begins as one in UTF-16 does.
func IsUTF16(text []byte) bool {
	if len(text) < 2 {
		return false
	}
	a, b := text[0], text[1]
	return a == 0xFF && b == 0xFE || a == 0xFE && b == 0xFF || (a == 0) != (b == 0)
}

// Lines returns a text without its mark, in which each line ends with a line feed alone.
func Lines(text []byte) ([]byte, error) {
	text, err := Plain(text)
	return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), err
}
