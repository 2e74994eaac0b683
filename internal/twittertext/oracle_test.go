package twittertext

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/text/unicode/norm"

	"github.com/fireonce/fireonce/internal/proof/oracles"
)

// TestOracle: links, weights and barred characters are those of X's own library.
func TestOracle(t *testing.T) {
	oracles.Need(t)
	texts := oracles.Corpus(t, 5, 30_000)
	type answer struct {
		Weight int      `json:"weight"`
		Valid  bool     `json:"valid"`
		Links  [][2]int `json:"links"`
	}
	different := 0
	for i, want := range oracles.Ask[answer](t, "x", oracles.Plain(texts)) {
		text := texts[i].Text
		var found [][2]int
		for _, l := range linksOf(unitsOf(norm.NFC.String(text))) {
			found = append(found, [2]int{l.from, l.to})
		}
		_, barred := FirstBarred(text)
		valid := text != "" && barred == 0 && Weigh(text) <= 280
		if slices.Equal(found, want.Links) && Weigh(text) == want.Weight && valid == want.Valid {
			continue
		}
		if different++; different <= 10 {
			t.Errorf("%+q (%d units)\n weighs %d, links %v, valid %t;\n  wants %d, links %v, valid %t", text, len(utf16.Encode([]rune(text))),
				Weigh(text), found, valid, want.Weight, want.Links, want.Valid)
		}
	}
	oracles.Report(t, "twitter-text", texts, different)
}

// TestOracleMastodon: addresses are those of Mastodon's client, whose pattern is put together from the library's parts.
func TestOracleMastodon(t *testing.T) {
	oracles.Need(t)
	texts := oracles.Corpus(t, 6, 20_000)
	different := 0
	for i, want := range oracles.Ask[struct{ Links string }](t, "mastodon", oracles.Plain(texts)) {
		text := texts[i].Text
		counted, from := "", 0
		for _, l := range Addresses(text) {
			counted, from = counted+text[from:l.From]+strings.Repeat("x", 23), l.To
		}
		if counted += text[from:]; counted == want.Links {
			continue
		}
		if different++; different <= 10 {
			t.Errorf("%+q counts as %+q, want %+q", text, counted, want.Links)
		}
	}
	oracles.Report(t, "links of Mastodon's client", texts, different)
}

// TestOracleTables: the tables are what the library has.
func TestOracleTables(t *testing.T) {
	oracles.Need(t)
	if err := oracles.Tables(t, "twittertext", "tables.go"); err != nil {
		t.Error(err)
	}
}
