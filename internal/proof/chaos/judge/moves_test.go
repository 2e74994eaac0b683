package judge

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// The judge's table of transitions is the one of docs/protocol.md.
func TestMovesAreTheDocumentedOnes(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```transitions\n")
	table, _, _ := strings.Cut(rest, "```")
	documented := make(map[string]bool)
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		documented[f[0]+" "+f[2]] = true
	}
	own := make(map[string]bool)
	for from, all := range moves {
		for _, to := range all {
			own[from.String()+" "+to.String()] = true
		}
	}
	if len(own) < 40 || !maps.Equal(own, documented) {
		t.Errorf("the judge has\n%v\nand the page\n%v", slices.Sorted(maps.Keys(own)), slices.Sorted(maps.Keys(documented)))
	}
}
