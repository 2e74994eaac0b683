package terminal

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	const text = "a\x1b[2J\u009b1mb\x7f\u202ec\nd\x9b"
	if got, want := Plain(text), "a [2J 1mb  c d\ufffd"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if got, want := Lines("one\x1b\r\ntwo\n"), "one  \ntwo\n"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// TestJSON checks that an escaped text decodes to the original.
func TestJSON(t *testing.T) {
	const text = "a\x1b\u009b1mb\x7fé\u0080\u009f\u00a0"
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	escaped := JSON(raw)
	if strings.ContainsFunc(string(escaped), func(r rune) bool { return r < ' ' || r >= 0x7f && r <= 0x9f }) {
		t.Errorf("%q", escaped)
	}
	var got string
	if err := json.Unmarshal(escaped, &got); err != nil || got != text {
		t.Errorf("%q, %v", got, err)
	}
}
