// Package textfile reads texts as programs of every system write them: with a byte order mark, and
// with line ends of their own.
package textfile

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Mark is the byte order mark of UTF-8.
const Mark = "\uFEFF"

// ErrUTF16 is the error for a text in UTF-16.
var ErrUTF16 = errors.New("the text is UTF-16; save it as UTF-8")

// Plain returns a text without its mark, or marks: programs that join files leave several. It fails
// with ErrUTF16.
func Plain(text []byte) ([]byte, error) {
	if IsUTF16(text) {
		return nil, ErrUTF16
	}
	for bytes.HasPrefix(text, []byte(Mark)) {
		text = text[len(Mark):]
	}
	return text, nil
}

// IsUTF16 reports whether a text begins as one in UTF-16 does.
func IsUTF16(text []byte) bool {
	if len(text) < 2 {
		return false
	}
	a, b := text[0], text[1]
	return a == 0xFF && b == 0xFE || a == 0xFE && b == 0xFF || (a == 0) != (b == 0)
}

// Lines returns a text without its mark, in which each line ends with a line feed alone, whether it
// ended with CRLF, LF or CR.
func Lines(text []byte) ([]byte, error) {
	text, err := Plain(text)
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte("\r"), []byte("\n")), err
}

// ErrNotUTF8 is the error for a text in another encoding, with its first line that is not UTF-8.
type ErrNotUTF8 struct{ Line int }

func (e ErrNotUTF8) Error() string {
	return fmt.Sprintf("line %d is not UTF-8; save the text as UTF-8", e.Line)
}

// CheckUTF8 fails with ErrNotUTF8.
func CheckUTF8(text []byte) error {
	for i, line := 0, 1; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return ErrNotUTF8{line}
		}
		if r == '\n' {
			line++
		}
		i += size
	}
	return nil
}
