package connectortest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
)

// statusPage has the table of statuses, from the repository's root.
const statusPage = "docs/statuses.md"

// documented returns what docs/statuses.md says of each status in a connector's row. A status
// that the row does not name is unknown; so is a 2xx where more than the status makes a success.
func documented(t *testing.T, row string) map[int]Want {
	t.Helper()
	columns := []Want{
		succeeded, {Result: job.ResultRejected, Kind: job.FailTransient}, {Result: job.ResultRejected, Kind: job.FailRateLimited},
		{Result: job.ResultRejected, Kind: job.FailAuth}, permanent,
	}
	for line := range strings.Lines(page(t)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != len(columns)+1 || strings.TrimSpace(cells[0]) != row {
			continue
		}
		out := make(map[int]Want)
		for code := range 1000 {
			out[code] = unknown
		}
		for i, want := range columns {
			for _, code := range codesIn(t, cells[i+1], i == 0) {
				if out[code] != unknown {
					t.Fatalf("%s names %d twice in the row %s", statusPage, code, row)
				}
				out[code] = want
			}
		}
		return out
	}
	t.Fatalf("%s has no row %s", statusPage, row)
	return nil
}

// page reads the page. Tests run in the folder of their package.
func page(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(statusPage))); err == nil {
			return string(text)
		}
	}
	t.Fatalf("%s was not found", statusPage)
	return ""
}

// codesIn reads a list such as "307, 400–407". "–" is an empty one, and so are words, if they
// may be there.
func codesIn(t *testing.T, cell string, words bool) (out []int) {
	t.Helper()
	cell = strings.TrimSpace(cell)
	if cell == "–" || words && strings.HasPrefix(cell, "with ") {
		return nil
	}
	for part := range strings.SplitSeq(cell, ", ") {
		first, last, isRange := strings.Cut(part, "–")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err != nil || err2 != nil || from > to {
			t.Fatalf("%s: %q is no list of statuses", statusPage, cell)
		}
		for code := from; code <= to; code++ {
			out = append(out, code)
		}
	}
	return out
}
