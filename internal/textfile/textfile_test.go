package textfile_test

import (
	"errors"
	"testing"

	"github.com/fireonce/fireonce/internal/textfile"
)

func TestLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "a": "a", "a\r\nb\r\n": "a\nb\n", "\ufeffa\n": "a\n", "\ufeff": "", "a\ufeffb": "a\ufeffb", "a\rb": "a\rb", "é": "é", "\x00": "\x00",
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
