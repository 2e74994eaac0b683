package recur

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// An Error is one fault of a spec, in one field.
type Error struct {
	Path   string // where in the spec: cron[1], exclude.dates[0], zone
	Field  string // which part of that: hour, BYDAY; empty for the whole
	Reason string // the fault, in plain words for a user
}

func (e *Error) Error() string { return e.Path + ": " + e.Reason }

// Errors lists all faults of a spec. It is never empty.
type Errors []*Error

func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "; ")
}

// fault is the reason of an error and the part of the text that it concerns.
type fault struct{ field, reason string }

func (f *fault) Error() string { return f.reason }

// maxQuoted bounds how much of the spec a message quotes.
const maxQuoted = 40

func quote(text string) string {
	if len(text) > maxQuoted {
		cut := maxQuoted
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return strconv.Quote(text)
}
