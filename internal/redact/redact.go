// Package redact keeps secrets out of logs and messages by their types: a value that holds
// one prints as a fixed text, whatever the verb and whoever logs it.
//
// It covers the value itself, pointers to it, and where fmt and encoding/json can ask it: in
// slices, maps and exported fields. An unexported field is printed without being asked, so
// what holds a secret there is covered itself, or is printed by nobody.
package redact

import (
	"fmt"
	"io"
	"log/slog"
)

// Text is what is printed instead.
const Text = "[redacted]"

// All hides all of a struct that it is embedded in.
type All struct{}

// String implements fmt.Stringer.
func (All) String() string { return Text }

// GoString implements fmt.GoStringer.
func (All) GoString() string { return Text }

// Format implements fmt.Formatter, for verbs that ask neither of them.
func (All) Format(s fmt.State, _ rune) { Format(s, Text) }

// LogValue implements slog.LogValuer.
func (All) LogValue() slog.Value { return slog.StringValue(Text) }

// MarshalJSON implements json.Marshaler: loggers of JSON ask it where they ask for no
// LogValue.
func (All) MarshalJSON() ([]byte, error) { return []byte(`"` + Text + `"`), nil }

// Format writes a text for whatever verb was asked.
func Format(s fmt.State, text string) { _, _ = io.WriteString(s, text) }
