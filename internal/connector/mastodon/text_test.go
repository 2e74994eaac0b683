package mastodon

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/internal/connector/mastodon/mastodontest"
)

func TestPlain(t *testing.T) {
	for source, want := range map[string]string{
		"<p>one<br />two</p><p>three &amp; &lt;b&gt;</p>": "one two three & <b>",
		"one":                           "one",
		"":                              "",
		"<p>a<b>b</b>c</p>":             "abc",
		"<ul><li>a</li><li>b</li></ul>": "a b",
		`<a href="x"><span class="invisible">https://</span><span>a.b</span></a>`:     "https://a.b",
		`<span class="h-card"><a href="x" class="mention">@<span>a</span></a></span>`: "@a",
	} {
		if got := normal(plain(source)); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}

func TestLikeHTML(t *testing.T) {
	for text, c := range map[string]struct {
		html string
		want likeness
	}{
		"Hello, world":                {"<p>Hello, world</p>", same},
		"a\n\nb":                      {"<p>a</p><p>b</p>", same},
		"Hi @ada@example.org!":        {"<p>Hi @ada!</p>", near},
		"see https://example.org/a/b": {"<p>see example.org/a…</p>", near},
		"it *is* so":                  {"<p>it <em>is</em> so</p>", near},
		"two words":                   {"<p>two other words</p>", other},
		"@ada@example.org":            {"<p>plain words</p>", other},
		"https://example.org":         {"<p>@ada</p>", near}, // neither has a word that says more
		"“quoted” – it’s":             {`<p>"quoted" - it's</p>`, near},
		"Gru\u0308ße":                 {"<p>Grüße</p>", same},
		"#köln is here":               {"<p>#<span>köln</span> is here</p>", same},
		"one two":                     {"<p>two one</p>", other},
		"Doors open 12:30":            {"<p>Doors open 13:30</p>", other},
		"order-12 is ready":           {"<p>order-13 is ready</p>", other},
		"don't wait":                  {"<p>don’t wait</p>", near},
		"wait -- what...":             {"<p>wait – what…</p>", near},
		"[my text](http://a.b/c) too": {`<p><a href="http://a.b/c">my text</a> too</p>`, near},
		"[a](http://b.c)d":            {`<p><a href="http://b.c">a</a>d</p>`, near},
		"![cat](http://b.c/d.png) so": {`<p><img src="http://b.c/d.png" alt="cat"> so</p>`, near},
		"1. one\n2. two":              {"<ol><li>one</li><li>two</li></ol>", near},
		"<b>bold</b> &amp; *bright*":  {"<p><b>bold</b> &amp; <em>bright</em></p>", near},
		"so:smile:so":                 {`<p>so<img alt=":smile:">so</p>`, near},
		"|a|b|":                       {"<table><tr><td>a</td><td>b</td></tr></table>", near},
		"wait...what":                 {"<p>wait…what</p>", near},
		"wait. What.now":              {"<p>wait. What.now</p>", same},
		"so:\n```go\nx := 1\n```":     {`<p>so:</p><pre><code class="language-go">x := 1</code></pre>`, near},
		"~~~ sh\nls\n~~~":             {"<pre><code>ls</code></pre>", near},
		"```x := 1```":                {"<p><code>x := 1</code></p>", near},
		"AT&T; 10:30:45 &lt;":         {"<p>AT&amp;T; 10:30:45 &amp;lt;</p>", same},
		"見て@ada@example.orgさん":        {"<p>見て@adaさん</p>", near},
		"a ❤\ufe0f b":                 {"<p>a ❤ b</p>", near},
	} {
		if got := (content{Text: text}).likeHTML(status{html: c.html}); got != c.want {
			t.Errorf("%q and %q: %d, want %d", text, c.html, got, c.want)
		}
	}
	for source, want := range map[string]likeness{
		"New: https://a.example/1":                          same,
		"New, https://a.example/1":                          near,
		"New, [https://a.example/1](https://a.example/1/).": near,
		"New, https://a.example/2":                          other,
		"New: https://a.example/2":                          other,
		"New":                                               other,
	} {
		if got := (content{Text: "New: https://a.example/1"}).likeSource(source, ""); got != want {
			t.Errorf("a link in a source, told as %q: %d, want %d", source, got, want)
		}
	}
	for source, want := range map[[2]string]likeness{
		{"food & drink", ""}: same, {"", "food & drink"}: same, {".", "food & drink"}: near, {"food", ""}: other, {"", ""}: other,
	} {
		if got := (content{Warning: "food & drink"}).likeSource(source[0], source[1]); got != want {
			t.Errorf("files with a warning alone, told as %q: %d, want %d", source, got, want)
		}
	}
	if got := (content{Text: "a", Warning: "w"}).likeHTML(status{html: "<p>a</p>"}); got != other {
		t.Errorf("without its warning: %d", got)
	}
}

// texts are made of what servers rewrite.
var texts = rapid.Custom(func(t *rapid.T) string {
	word := rapid.OneOf(
		rapid.StringMatching(`[a-zäöüß]{1,8}`),
		rapid.SampledFrom([]string{
			"@ada@example.org", "#tag", "https://example.org/a/very/long/path/that/is/cut?x=1&y=2", "<b>", "&amp;", "*", "it's", "👩‍👩‍👧", "e\u0301", "3.14", ":smile:",
		}),
	)
	gap := rapid.SampledFrom([]string{" ", "\n", "\n\n", "  "})
	var b strings.Builder
	for i := range rapid.IntRange(1, 12).Draw(t, "words") {
		if i > 0 {
			b.WriteString(gap.Draw(t, "gap"))
		}
		b.WriteString(word.Draw(t, "word"))
	}
	return b.String()
})

// TestRebuilding: a post is never taken for another one because its text came back as
// HTML: that would be the proof of an absence.
func TestRebuilding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts.Draw(t, "text")
		got := (content{Text: text}).likeHTML(status{html: mastodontest.HTML(text)})
		if got == other {
			t.Fatalf("%q is not found in %q", text, mastodontest.HTML(text))
		}
		if !strings.Contains(text, "@") && got != same {
			t.Fatalf("%q is not sure in %q", text, mastodontest.HTML(text))
		}
		if (content{Text: text}).likeSource(text, "") != same {
			t.Fatalf("%q is not its own source", text)
		}
	})
}

// TestOtherWords: a post with other words is not ours, however it is written.
func TestOtherWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts.Draw(t, "text")
		more := text + " " + rapid.StringMatching(`[a-z]{1,8}`).Draw(t, "more")
		if got := (content{Text: text}).likeHTML(status{html: mastodontest.HTML(more)}); got != other {
			t.Fatalf("%q is found in %q: %d", text, mastodontest.HTML(more), got)
		}
	})
}
