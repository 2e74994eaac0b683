package tally_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/bench/duplicates/internal/tally"
)

// TestProgress: lines count once they are whole, and a subject counts once.
func TestProgress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p, err := tally.Follow(path)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, step := range []struct {
		text string
		want int
	}{
		{"", 0},
		{`{"type":"request","subject":"a"}` + "\n", 1},
		{`{"type":"effect","subject":"a"}` + "\n" + `{"type":"look"}` + "\n" + `{"type":"requ`, 1},
		{`est","subject":"b"}`, 1},
		{"\n" + `{"type":"request","subject":"a"}` + "\n", 2},
	} {
		if _, err := file.WriteString(step.text); err != nil {
			t.Fatal(err)
		}
		got, err := p.Started()
		if err != nil || got != step.want {
			t.Errorf("after %q: %d, %v; want %d", step.text, got, err, step.want)
		}
	}
	if _, err := file.WriteString("no record\n"); err != nil {
		t.Fatal(err)
	}
	if n, err := p.Started(); err == nil {
		t.Errorf("a line that is no record was taken: %d", n)
	}
}
