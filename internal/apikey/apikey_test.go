package apikey

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// form is the pattern for scanners from the package comment.
var form = regexp.MustCompile(`^fo_[0-9a-f]{16}_[A-Za-z0-9_-]{49}$`)

func TestKeys(t *testing.T) {
	seen := make(map[string]bool)
	for range 200 {
		k, err := New()
		if err != nil {
			t.Fatal(err)
		}
		text := k.Reveal()
		if !form.MatchString(text) || seen[text] || seen[k.ID] {
			t.Fatalf("%q", text)
		}
		seen[text], seen[k.ID] = true, true
		again, err := Parse(text)
		if err != nil || again != k || again.Hash() != k.Hash() {
			t.Fatalf("%v, %v", again, err)
		}
		for _, shown := range []string{fmt.Sprint(k), fmt.Sprintf("%v %+v %#v %s %q", k, k, k, k, k)} {
			if strings.Contains(shown, text[idEnd+1:]) || !strings.Contains(shown, k.ID) {
				t.Fatalf("shown as %s", shown)
			}
		}
	}
}

// TestParseRefuses checks that a text that differs from a key in one character is not a key.
func TestParseRefuses(t *testing.T) {
	k, err := New()
	if err != nil {
		t.Fatal(err)
	}
	text := k.Reveal()
	for i := range text {
		for _, c := range []byte("aZ0_-=+ \x00") {
			if bent := text[:i] + string(c) + text[i+1:]; bent != text {
				if _, err := Parse(bent); !errors.Is(err, ErrForm) {
					t.Errorf("letter %d as %q: %v", i, c, err)
				}
			}
		}
	}
	for _, other := range []string{"", "fo_", text[:length-1], text + "A", strings.ToUpper(text), " " + text, "fo_" + strings.Repeat("_", length-3)} {
		if _, err := Parse(other); !errors.Is(err, ErrForm) || strings.Contains(err.Error(), text[20:40]) {
			t.Errorf("%q: %v", other, err)
		}
	}
	// Keys that exist must be valid forever.
	const known = "fo_0123456789abcdef_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
	if got, err := Parse(known + sum(known)); err != nil || got.ID != "0123456789abcdef" || sum(known) != knownSum {
		t.Errorf("%v, %v, sum %s", got, err, sum(known))
	}
}

// knownSum was computed by another program (zlib.crc32).
const knownSum = "95bTbg"

func FuzzParse(f *testing.F) {
	k, err := New()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(k.Reveal())
	f.Add("fo_")
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := Parse(text); err == nil && (k.Reveal() != text || !form.MatchString(text)) {
			t.Errorf("%q was read as a key", text)
		}
	})
}
