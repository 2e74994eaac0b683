package duration

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "2d": 48 * time.Hour, "1d12h": 36 * time.Hour, "1d1ms": 24*time.Hour + time.Millisecond,
		"-2d": -48 * time.Hour, "86400s": 24 * time.Hour, "86400.5s": 24*time.Hour + 500*time.Millisecond, "0": 0, "0d": 0, "36h": 36 * time.Hour,
		"106751d": 106751 * 24 * time.Hour,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "2", "1.5d", "2days", "1d-1h", "1d24h", "1h2d", "soon", "106752d", "106751d23h59m", "99999999999999999999d"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestFormat(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "90ms": 90 * time.Millisecond, "1m30s": 90 * time.Second, "1h": time.Hour, "1h30m": 90 * time.Minute, "10m": 10 * time.Minute,
		"1d": 24 * time.Hour, "8d12h13m10s": 204*time.Hour + 13*time.Minute + 10*time.Second, "-2d": -48 * time.Hour,
	} {
		if got := Format(d); got != want {
			t.Errorf("%v: %q, not %q", d, got, want)
		}
	}
}

// TestRoundTrip checks that Parse accepts what Format returns.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Min(-1<<63+1).Draw(t, "d"))
		if got, err := Parse(Format(d)); err != nil || got != d {
			t.Errorf("%v, shown as %q: %v, %v", d, Format(d), got, err)
		}
	})
}
