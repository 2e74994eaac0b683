// Package redact keeps secrets out of logs and messages by their types: a value that holds
// a secret prints as a fixed text, for every verb and every logger.
//
// It covers the value itself, pointers to it, and values in slices, maps and exported fields,
// where fmt and encoding/json call its methods. They print an unexported field without calling
// its methods, so a struct with a secret in an unexported field must embed All itself, or must
// never be printed.
package redact

import (
	"fmt"
	"io"
	"log/slog"
)

// Text replaces a secret.
const Text = "[redacted]"

// All hides the whole struct in which it is embedded.
type All struct{}

// String implements fmt.Stringer.
func (All) String() string { return Text }

// GoString implements fmt.GoStringer.
func (All) GoString() string { return Text }

// Format implements fmt.Formatter, for verbs that call neither String nor GoString.
func (All) Format(s fmt.State, _ rune) { Format(s, Text) }

// LogValue implements slog.LogValuer.
func (All) LogValue() slog.Value { return slog.StringValue(Text) }

// MarshalJSON implements json.Marshaler: loggers of JSON call it where they do not call
// LogValue.
func (All) MarshalJSON() ([]byte, error) { return []byte(`"` + Text + `"`), nil }

// Format writes the same text for every verb.
func Format(s fmt.State, text string) { _, _ = io.WriteString(s, text) }
