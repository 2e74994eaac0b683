//go:build failpoints

package failpoint

import (
	"slices"
	"testing"
	"time"
)

func TestPlaces(t *testing.T) {
	for text, want := range map[string]place{
		"armed": {"armed", 1}, "armed:3": {"armed", 3}, "armed:0": {"armed", 1}, "": {"", 1},
	} {
		if got := placeFrom(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestOffsets(t *testing.T) {
	if got := offsetsFrom("2s,-300ms"); !slices.Equal(got, []time.Duration{2 * time.Second, -300 * time.Millisecond}) {
		t.Errorf("%v", got)
	}
	if got := offsetsFrom(""); got != nil {
		t.Errorf("%v without a word", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("nonsense was taken for no offset")
		}
	}()
	offsetsFrom("soon")
}
