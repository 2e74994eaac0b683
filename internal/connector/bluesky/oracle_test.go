package bluesky

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/oracles"
)

// TestOracle: facets and lengths are those of the reference client, but for the facets that a server
// would refuse.
func TestOracle(t *testing.T) {
	oracles.Need(t)
	texts := oracles.Corpus(t, 1, 30_000)
	type answer struct {
		Graphemes int     `json:"graphemes"`
		Facets    [][]any `json:"facets"`
	}
	different, named := 0, map[string]int{}
	for i, answer := range oracles.Ask[answer](t, "bluesky", oracles.Plain(texts)) {
		text := texts[i].Text
		var got, want []string
		end := 0.0
		for _, f := range facetsOf(text) {
			kind, feature := f.Features[0].Type, f.Features[0]
			got = append(got, fmt.Sprint(kind, " ", feature.URI+feature.Tag+feature.DID, " ", f.Index.Start, " ", f.Index.End))
		}
		for _, f := range answer.Facets {
			kind, value := f[0].(string), f[1].(string)
			switch {
			case kind == typeTag && len(value) > maxTagBytes:
				named["a tag of more bytes than the lexicon allows"]++
				continue
			case kind == typeLink && strings.HasPrefix(value, "http") && uriForm.MatchString(value):
			case kind == typeLink && bare(value):
				named["a host that begins with http"]++
				value = "https://" + value
			case kind == typeLink:
				named["a link that is no URI"]++
				continue
			}
			if f[2].(float64) < end {
				named["a facet that overlaps the one before it"]++
				continue
			}
			end = f[3].(float64)
			want = append(want, fmt.Sprint(kind, " ", value, " ", f[2], " ", f[3]))
		}
		if slices.Equal(got, want) && graphemesIn(text) == answer.Graphemes {
			continue
		}
		if different++; different <= 10 {
			t.Errorf("%+q has %d graphemes and %q;\n  wants %d and %q", text, graphemesIn(text), got, answer.Graphemes, want)
		}
	}
	oracles.Report(t, "@atproto/api", texts, different)
	t.Logf("differences that docs/platforms/bluesky.md names: %v", named)
}

// bare reports whether a link was a host without a scheme.
func bare(link string) bool {
	m := links.FindStringSubmatch(link)
	return m != nil && isDomain(m[2])
}

// TestOracleTables: the tables are what the client has.
func TestOracleTables(t *testing.T) {
	oracles.Need(t)
	if err := oracles.Tables(t, "bluesky", "tables.go"); err != nil {
		t.Error(err)
	}
}
