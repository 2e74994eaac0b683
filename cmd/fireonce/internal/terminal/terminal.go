// Package terminal says what may be written to a terminal, and whether there is one.
package terminal

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// Is reports whether what is written to w reaches a terminal that can move its cursor.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Plain replaces what could drive a terminal by spaces: texts of other people may hold it.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf) {
			return ' '
		}
		return r
	}, s)
}

// Short is Plain, cut to n characters.
func Short(s string, n int) string {
	r := []rune(Plain(s))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}
