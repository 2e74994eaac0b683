//go:build failpoints

package failpoint

import (
	"slices"
	"testing"
	"time"
)

func TestPlaces(t *testing.T) {
	for text, want := range map[string]trigger{
		"armed": {"armed", 1}, "armed:3": {"armed", 3}, "armed:0": {"armed", 1}, "": {"", 1},
	} {
		if got := triggerFrom(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestOffsets(t *testing.T) {
	if got := offsetsFrom("2s,-300ms"); !slices.Equal(got, []time.Duration{2 * time.Second, -300 * time.Millisecond}) {
		t.Errorf("%v", got)
	}
	if got := offsetsFrom(""); got != nil {
		t.Errorf("%v without the variable", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("an invalid text was accepted as no offset")
		}
	}()
	offsetsFrom("soon")
}

func TestHasten(t *testing.T) {
	if got := hastenFrom("400"); got != 400 {
		t.Errorf("%d times", got)
	}
	if got := Hasten(time.Minute); got != time.Minute {
		t.Errorf("%v of a minute without the variable", got)
	}
	for _, nonsense := range []string{"0", "-1", "soon"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was accepted as a number", nonsense)
				}
			}()
			hastenFrom(nonsense)
		}()
	}
}
