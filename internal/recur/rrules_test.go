package recur

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestRRulesAgainstGolden compares rules with a golden file of python-dateutil's results:
// testdata/rrules.py >testdata/rrules.golden.
func TestRRulesAgainstGolden(t *testing.T) {
	text, err := os.ReadFile("testdata/rrules.golden")
	if err != nil {
		t.Fatal(err)
	}
	zones, _ := embeddedZones(t)
	zone, err := zones.Load("UTC")
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ParseCivil("2027-01-31T00:00:00")
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range lines {
		part := strings.Split(line, " ")
		r, _, err := compileRRule(RRule{Rule: part[5], Start: part[4]}, zone, false, nil)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		var times []string
		for c, ok := r.next(minCivil-1, nil); ok && c < end; c, ok = r.next(c, nil) {
			times = append(times, c.String())
		}
		digest := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(times, "\n"))))[:16]
		if got := fmt.Sprintf("%d %s %s %s", len(times), times[0], times[len(times)-1], digest); got != strings.Join(part[:4], " ") {
			t.Errorf("%s from %s: %s, want %s", part[5], part[4], got, strings.Join(part[:4], " "))
		}
		// Back through the kept times, and to where the walk has to start again.
		for i := len(times) - 1; i >= 0; i-- {
			c, _ := ParseCivil(times[i])
			if again, _ := r.next(c-1, nil); again != c {
				t.Fatalf("%s: %s after one second before %s", part[5], again, c)
			}
		}
	}
	if len(lines) < 40 {
		t.Errorf("compared %d rules only", len(lines))
	}
}

// TestRulesAsTheyAreWritten: what calendars and people write around a rule changes nothing.
func TestRulesAsTheyAreWritten(t *testing.T) {
	zones, _ := embeddedZones(t)
	zone, err := zones.Load("UTC")
	if err != nil {
		t.Fatal(err)
	}
	start := civilOf(2027, 1, 1)
	for _, text := range []string{"FREQ=MONTHLY;BYDAY=2MO,FR", "RRULE:FREQ=MONTHLY;BYDAY=2MO,FR", "FREQ=MONTHLY;BYDAY=2MO,FR;", " freq=monthly; byday=2mo,fr "} {
		r, err := parseRRule(text, start, zone, nil)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var got []string
		for c, ok := r.next(start-1, nil); ok && len(got) < 4; c, ok = r.next(c, nil) {
			got = append(got, c.Date())
		}
		if want := "2027-01-01 2027-01-08 2027-01-11 2027-01-15"; strings.Join(got, " ") != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
