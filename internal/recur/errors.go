package recur

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// An Error says what is wrong with one field of a spec.
type Error struct {
	Path   string // where in the spec: cron[1], exclude.dates[0], zone
	Field  string // which part of that: hour, BYDAY; empty for the whole
	Reason string // what is wrong, in plain words, fit for a person
}

func (e *Error) Error() string { return e.Path + ": " + e.Reason }

// Errors is all that is wrong with a spec. It is never empty.
type Errors []*Error

func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "; ")
}

// fault is a reason and the part of the text that it is about.
type fault struct{ field, reason string }

func (f *fault) Error() string { return f.reason }

// maxQuoted bounds what a message repeats of the spec.
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
