package firing_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/store"
)

var update = flag.Bool("update", false, "write testdata/outages.txt")

// TestOutages compares what becomes of the times of an outage, for each policy, with a table for
// people: testdata/outages.txt. `go test ./internal/firing -run TestOutages -update` writes it.
func TestOutages(t *testing.T) {
	var b strings.Builder
	b.WriteString(outagesHead)
	for _, period := range []time.Duration{10 * time.Second, time.Minute, time.Hour} {
		for _, down := range []time.Duration{75 * time.Second, 130 * time.Second, 190 * time.Second, 6 * time.Hour} {
			fmt.Fprintf(&b, "\nEvery %s, down for %s: %d times came\n", brief(period), brief(down), cameIn(period, down))
			for _, catchUp := range []string{"NONE", "LATEST", "ALL"} {
				for _, overlap := range []string{"SKIP", "BUFFER_ONE", "ALLOW"} {
					fmt.Fprintf(&b, "  %-6s %-10s  %s\n", catchUp, overlap, became(t, period, down, catchUp, overlap))
				}
			}
		}
	}
	path := filepath.Join("testdata", "outages.txt")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s differs; with -update it is written again:\n%s", path, b.String())
	}
}

const outagesHead = `What becomes of the times of an outage, for each policy of catch-up and overlap. The window is an
hour, and each job takes 4 s. All jobs from before the outage have ended. Times are those before
the start of the server, oldest first: "FIRED 70s..10s (7)" are seven times, from 70 s to 10 s
before the start, that made a job each. A time that is 4 s old when the server starts is "4s".
"then" are the times of the hour after the start, if not all of them fired.

  FIRED      made a job
  MISSED     made none: it is too old, or the policy is NONE
  COALESCED  made none: a later one made its job in its place
  SKIPPED    made none: an earlier job had not ended

ListFirings has the newest 300 of the MISSED and COALESCED times of one decision. The older ones are
"only counted".
`

// lead is how long before the start of the server the newest time of the outage is.
const lead = 4 * time.Second

func cameIn(period, down time.Duration) int { return int((down-lead)/period) + 1 }

// became returns what became of the times of an outage. The newest is a lead before its end.
func became(t *testing.T, period, down time.Duration, catchUp, overlap string) string {
	t.Helper()
	p := firing.Policies{
		CatchUp: map[string]firing.CatchUp{"NONE": firing.CatchUpNone, "LATEST": firing.CatchUpLatest, "ALL": firing.CatchUpAll}[catchUp],
		Overlap: map[string]firing.Overlap{"SKIP": firing.Skip, "BUFFER_ONE": firing.BufferOne, "ALLOW": firing.Allow}[overlap],
	}
	o := every(t, period, 4*time.Second, p)
	newest := begin.Add(time.Duration(cameIn(period, down)) * period)
	up := newest.Add(lead)
	if err := o.run(up, up.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	counts, then := "", ""
	var old, fresh []store.FiringDecision
	for _, f := range o.rows {
		if f.Firing.Nominal.After(up) {
			fresh = append(fresh, f)
		} else {
			old = append(old, f)
		}
	}
	// The ledger has the newest of many missed times, and the counts have all.
	if lost := cameIn(period, down) - len(old); lost > 0 {
		counts = fmt.Sprintf("only counted (%d), ", lost)
		if c := o.due.Schedule.Counts; c.Missed+c.Coalesced < int64(lost) {
			t.Errorf("%s %s: %d times are not in the ledger, and %+v", catchUp, overlap, lost, o.due.Schedule.Counts)
		}
	}
	for _, f := range fresh {
		if f.Job == nil {
			then = ", then " + runs(fresh, up)
			break
		}
	}
	return counts + runs(old, up) + then
}

// runs returns outcomes in the order in which they were decided: "MISSED 70s..20s (6), FIRED 10s".
func runs(rows []store.FiringDecision, up time.Time) string {
	words := map[store.FiringOutcome]string{
		store.FiringFired: "FIRED", store.FiringMissed: "MISSED", store.FiringCoalesced: "COALESCED", store.FiringSkippedByOverlap: "SKIPPED",
	}
	var out []string
	for i := 0; i < len(rows); {
		n := i
		for n < len(rows) && rows[n].Firing.Outcome == rows[i].Firing.Outcome {
			n++
		}
		first, last := rows[i].Firing, rows[n-1].Firing
		text := words[first.Outcome] + " " + brief(up.Sub(first.Nominal))
		if n-i > 1 {
			text += fmt.Sprintf("..%s (%d)", brief(up.Sub(last.Nominal)), n-i)
		}
		out = append(out, text)
		i = n
	}
	return strings.Join(out, ", ")
}

// brief is a duration without its zero parts; after the start it has a plus.
func brief(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "+", -d
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return sign + s
}
