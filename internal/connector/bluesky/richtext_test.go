package bluesky

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestFacets(t *testing.T) {
	for text, want := range map[string][]string{
		"plain words":                          nil,
		"see https://example.org.":             {"link https://example.org"},
		"see (https://example.org/a)":          {"link https://example.org/a"},
		"https://example.org/a_(b) HTTP://b.c": {"link https://example.org/a_(b)"},
		"https://example.org/#part, and":       {"link https://example.org/#part"},
		"https://user:pw@example.org":          {"link https://user:pw@example.org"},
		"https://":                             nil,
		"xhttps://example.org":                 nil,
		"example.org, and EXAMPLE.ORG is text": {"link https://example.org"},
		"httpbin.org httpx.notadomain":         {"link https://httpbin.org"},
		"きょうのまち　#海　#夏祭り　https://a.jp　b.jp":               {"tag 海", "tag 夏祭り", "link https://a.jp", "link https://b.jp"},
		"#a\u00a0#b\u2028#c\u0085#d":                     {"tag a", "tag b", "tag c\u0085#d"},
		"$tsla ($A) $1.50 $ABCDEF":                       {"tag $TSLA", "tag $A"},
		"Grüße #köln! #2026 #a1":                         {"tag köln", "tag a1"},
		"#":                                              nil,
		"#one#two three#four":                            {"tag one#two"},
		"＃日本語":                                           {"tag 日本語"},
		"#\ufe0f\u20e3":                                  nil,
		"#" + strings.Repeat("a", 65):                    nil,
		"@ada.example is text, @ada.bsky.social. is not": {"mention ada.bsky.social"},
		"👩‍👩‍👧 https://example.org #a":                   {"link https://example.org", "tag a"},
	} {
		var got []string
		for _, f := range facetsOf(text) {
			shown := text[f.Index.Start:f.Index.End]
			switch feature := f.Features[0]; feature.Type {
			case typeLink:
				got = append(got, "link "+feature.URI)
				if shown != strings.TrimPrefix(feature.URI, "https://") && shown != feature.URI {
					t.Errorf("%q: %q is shown for %q", text, shown, feature.URI)
				}
			case typeMention:
				got = append(got, "mention "+feature.DID)
				if shown != "@"+feature.DID {
					t.Errorf("%q: %q is shown for %q", text, shown, feature.DID)
				}
			case typeTag:
				got = append(got, "tag "+feature.Tag)
				if shown != "#"+feature.Tag && shown != "＃"+feature.Tag && strings.ToUpper(shown) != feature.Tag {
					t.Errorf("%q: %q is shown for %q", text, shown, feature.Tag)
				}
			}
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestFacetsAreInOrder: whatever the text, facets lie in it, apart from each other, on
// whole characters.
func TestFacetsAreInOrder(t *testing.T) {
	word := rapid.OneOf(
		rapid.SampledFrom([]string{"#tag", "https://a.example/ü#x", "(http://b.c)", "#", "＃日本", " ", "\n", "é", "👩‍👩‍👧", "#1", ".", "#a,"}),
		rapid.StringN(0, 8, 32),
	)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(word, 0, 20).Draw(t, "words"), rapid.SampledFrom([]string{" ", ""}).Draw(t, "between"))
		end := 0
		for _, f := range facetsOf(text) {
			if f.Index.Start < end || f.Index.End <= f.Index.Start || f.Index.End > len(text) {
				t.Fatalf("%q: facet %+v after %d", text, f, end)
			}
			if utf8.ValidString(text) && !utf8.ValidString(text[f.Index.Start:f.Index.End]) {
				t.Fatalf("%q: facet %+v cuts a character", text, f)
			}
			end = f.Index.End
		}
	})
}
