package mastodon

import (
	"testing"

	"github.com/fireonce/fireonce/internal/proof/oracles"
)

// TestOracle: texts are as long as Mastodon's client counts them, in graphemes, as its server does.
func TestOracle(t *testing.T) {
	oracles.Need(t)
	texts := oracles.Corpus(t, 6, 20_000)
	different := 0
	for i, want := range oracles.Ask[struct {
		Counted   string `json:"counted"`
		Graphemes int    `json:"graphemes"`
	}](t, "mastodon", oracles.Plain(texts)) {
		text := texts[i].Text
		counted, n := countable(text, usual.perURL), counted(content{Text: text}, usual.perURL)
		if counted == want.Counted && n == want.Graphemes {
			continue
		}
		if different++; different <= 10 {
			t.Errorf("%+q counts %d as %+q, want %d as %+q", text, n, counted, want.Graphemes, want.Counted)
		}
	}
	oracles.Report(t, "Mastodon's client", texts, different)
}
