package twittertext

import "testing"

// TestWeigh: lengths as twitter-text's own conformance data and X's documentation
// (docs.x.com, counting characters) give them.
func TestWeigh(t *testing.T) {
	for text, want := range map[string]int{
		"":                        0,
		"hello":                   5,
		"Grüße":                   5,
		"Cafe\u0301":              4,
		"あいう":                     6,
		"한국어":                     6,
		"‘quotes’ – and — dashes": 23,
		"→":                       2,
		"\U0001f600":              2,
		"\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466": 2,
		"\U0001f44d\U0001f3fd": 2,
		"\U0001f1e9\U0001f1ea": 2,
		"1\ufe0f\u20e3":        2,
		"\u2764\ufe0f":         2,
		"\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f": 2,
		"http://a.com": 23,
		"https://example.com/a/very/long/path?with=a&query=1": 23,
		"a.com":                    23,
		"see example.com/x, and y": 4 + 23 + 7,
		"(https://en.wikipedia.org/wiki/Primer_(film))": 25,
		"https://a.com/x.":    24,
		"node.js":             7, // no top-level domain
		"example.de":          23,
		"www.example.de":      23,
		"example.de/x":        23,
		"ada@example.com":     15,
		"@example.com":        12,
		"1.5":                 3,
		"e.g. this":           9,
		"https://localhost/x": 19,
	} {
		if got := Weigh(text); got != want {
			t.Errorf("%q weighs %d, want %d", text, got, want)
		}
	}
}

// TestFirstBarred: a character that X takes in no post is named with its place.
func TestFirstBarred(t *testing.T) {
	for text, want := range map[string]int{"": 0, "hello": 0, "\ufeffhello": 1, "é😀\ufffe": 3, "a\uffffb\ufeff": 2, "\ufffd\u202a": 0} {
		if r, place := FirstBarred(text); place != want || (r != 0) != (want > 0) {
			t.Errorf("%+q: %U at %d, want %d", text, r, place, want)
		}
	}
}

func FuzzWeigh(f *testing.F) {
	f.Add("hello あa.com https://b.de/x 😀\u200d👩🏽 xn--a.b")
	f.Fuzz(func(t *testing.T, text string) {
		if n := Weigh(text); n < 0 || n > 23*len(text) {
			t.Errorf("%q weighs %d", text, n)
		}
		for _, found := range [][]Span{Links(text), Addresses(text)} {
			at := 0
			for _, l := range found {
				if l.From < at || l.To <= l.From || l.To > len(text) {
					t.Errorf("links of %q: %v", text, found)
				}
				at = l.To
			}
		}
	})
}
