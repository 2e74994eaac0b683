package textfile_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/textfile"
)

func TestLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "a": "a", "a\r\nb\r\n": "a\nb\n", "\ufeffa\n": "a\n", "\ufeff": "", "a\ufeffb": "a\ufeffb", "a\rb\r": "a\nb\n", "a\r\n\rb": "a\n\nb", "\ufeff\ufeffa": "a", "é": "é", "\x00": "\x00",
	} {
		if got, err := textfile.Lines([]byte(text)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"\xff\xfea\x00", "\xfe\xff\x00a", "a\x00b\x00", "\x00a\x00b"} {
		if got, err := textfile.Lines([]byte(text)); !errors.Is(err, textfile.ErrUTF16) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestNotUTF8(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "größe\n日本\ufffd": 0, "a\nGr\xf6\xdfe": 2, "\xed\xa0\x80": 1, "日"[:2]: 1} {
		err := textfile.CheckUTF8([]byte(text))
		var wrong textfile.ErrNotUTF8
		if errors.As(err, &wrong); wrong.Line != want || (err == nil) != (want == 0) {
			t.Errorf("%q: %v, want line %d", text, err, want)
		}
	}
}

// TestUnseenInJSON: what looks like a blank or a quotation mark and is none is named.
func TestUnseenInJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{\u00a0\"a\": 1}": "U+00A0 is not a blank", "{\"a\":\u30001}": "U+3000 is not a blank", "{\"a\": 1\u200b}": "U+200B is not a blank", "\u2060{}": "U+2060",
		"{“a”: 1}": "U+201C is not a quotation mark", "{\"a\": „b“}": "U+201E is not a quotation mark", "{'a': 1}": "double quotes",
	} {
		if _, _, why := textfile.ExplainJSON([]byte(text)); !strings.Contains(why, want) {
			t.Errorf("%q: %s, want %s", text, why, want)
		}
	}
}
