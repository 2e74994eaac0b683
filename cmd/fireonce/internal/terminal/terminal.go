// Package terminal detects terminals, and removes control characters from texts for them.
package terminal

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Is reports whether w writes to a terminal that can move its cursor.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Width returns the columns of the terminal to which w writes; otherwise: it is none.
func Width(w io.Writer, otherwise int) int {
	if f, ok := w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil {
			return columns
		}
	}
	return otherwise
}

// Plain replaces terminal control characters with spaces: a text of foreign origin may have
// them.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf) {
			return ' '
		}
		return r
	}, s)
}

// Lines is Plain for each line of a text.
func Lines(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		text, ended := strings.CutSuffix(line, "\n")
		out.WriteString(Plain(text))
		if ended {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

// JSON escapes the control characters that a JSON text may contain unescaped: DEL and U+0080 to
// U+009F. The meaning of the text stays the same: they occur only in strings.
func JSON(text []byte) []byte {
	return jsonControls.ReplaceAllFunc(text, func(found []byte) []byte {
		r, _ := utf8.DecodeRune(found)
		return fmt.Appendf(nil, `\u%04x`, r)
	})
}

var jsonControls = regexp.MustCompile(`[\x{7f}-\x{9f}]`)

// Short returns Plain's text, cut to n characters.
func Short(s string, n int) string {
	r := []rune(Plain(s))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}
