package job

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestStoredRetryPolicy has texts as databases have them: they must stay readable.
func TestStoredRetryPolicy(t *testing.T) {
	for text, want := range map[string]RetryPolicy{
		"":           {},
		"attempts=5": {MaxAttempts: 5},
		"attempts=12 delays=2000000,10000000 keep=86400000000": {
			MaxAttempts: 12, Delays: []time.Duration{2 * time.Second, 10 * time.Second}, KeepTrying: 24 * time.Hour,
		},
		"first=1000000 longest=60000000 factor=1.5": {MinBackoff: time.Second, MaxBackoff: time.Minute, Multiplier: 1.5},
	} {
		got, err := DecodeRetry(text)
		if err != nil || !got.Equal(want) || want.Encode() != text {
			t.Errorf("%q: %+v, %v; written as %q", text, got, err, want.Encode())
		}
	}
	for _, text := range []string{"attempts", "attempts=0", "delays=", "delays=1,,2", "first=-1", "factor=NaN", "factor=11", "keep=1h", "more=1"} {
		if got, err := DecodeRetry(text); !errors.Is(err, ErrRetryText) || !got.Equal(RetryPolicy{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestRetryPolicyIsStoredWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(MaxBackoff/time.Microsecond)).Draw(t, name)) * time.Microsecond
		}
		p := RetryPolicy{
			MaxAttempts: rapid.IntRange(0, 100).Draw(t, "attempts"), MinBackoff: span("first"), MaxBackoff: span("longest"), KeepTrying: span("keep"),
			Multiplier: rapid.SampledFrom([]float64{0, 1, 1.1, 10}).Draw(t, "factor"),
		}
		for range rapid.IntRange(0, MaxDelays).Draw(t, "delays") {
			p.Delays = append(p.Delays, span("delay")+time.Microsecond)
		}
		if got, err := DecodeRetry(p.Encode()); err != nil || !got.Equal(p) {
			t.Fatalf("%+v is read as %+v, %v", p, got, err)
		}
	})
}
