package progress

import (
	"bytes"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(0, 0)
	l := line(&out, func() time.Time { return now })
	step := func(d time.Duration, do func(), want string) {
		t.Helper()
		out.Reset()
		now = now.Add(d)
		do()
		if out.String() != want {
			t.Errorf("%q, not %q", out.String(), want)
		}
	}
	show := func() { l.Show("%d jobs", 7) }
	step(quiet-1, show, "")
	step(0, l.Clear, "")
	step(1, show, "\r\x1b[K7 jobs")
	step(pause-1, show, "")
	step(1, show, "\r\x1b[K7 jobs")
	step(0, l.Clear, "\r\x1b[K")
	step(0, l.Clear, "")
}

func TestNoTerminal(t *testing.T) {
	l := New(new(bytes.Buffer))
	if l != nil {
		t.Fatal("a buffer is no terminal")
	}
	l.Show("x") // and does nothing
	l.Clear()
}
