package job

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// docTable returns the rows of the first table in a section of docs/protocol.md: the other
// cells of each row by its first cell.
func docTable(t *testing.T, section string) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "\n## "+section+"\n")
	if !found {
		t.Fatalf("docs/protocol.md has no section %q", section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	rows := make(map[string][]string)
	for line := range strings.Lines(rest) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			if len(rows) > 0 && !strings.HasPrefix(line, "|") {
				break
			}
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows[cells[0]] = cells[1:]
	}
	if len(rows) < 2 {
		t.Fatalf("section %q of docs/protocol.md has no table", section)
	}
	return rows
}

var docWait = regexp.MustCompile(`(?:(\d+) times )?\b(\d+)(?: (s|min|h)\b|,)`)

// docWaits returns the waits that a cell lists up to the end of its first sentence. A number
// without a unit must be zero.
func docWaits(t *testing.T, cell string) (waits []time.Duration) {
	t.Helper()
	cell, _, _ = strings.Cut(cell, ". ")
	cell, _, _ = strings.Cut(cell, ";")
	units := map[string]time.Duration{"": 0, "s": time.Second, "min": time.Minute, "h": time.Hour}
	for _, m := range docWait.FindAllStringSubmatch(cell, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		times := 1
		if m[1] != "" {
			if times, err = strconv.Atoi(m[1]); err != nil {
				t.Fatal(err)
			}
		}
		for range times {
			waits = append(waits, time.Duration(n)*units[m[3]])
		}
	}
	return waits
}

// TestDocumentedWaits compares the table of waits in docs/protocol.md with the code. The
// engine's tests compare the rows about the engine's own waits.
func TestDocumentedWaits(t *testing.T) {
	rows := docTable(t, "Waits")
	unread := sending(Observable, OnceOrAsk)
	unread.State, unread.FenceLeft = Ambiguous, -time.Hour
	polled := accepted(0)
	for row, wait := range map[string]func(n int) time.Duration{
		"the 1st, 2nd, … proven failure":     func(n int) time.Duration { return (RetryPolicy{}).Backoff(n, 0) },
		"the 1st, 2nd, … repeat under a key": func(n int) time.Duration { return (RetryPolicy{}).Replay(n, 0) },
		"a lease that ran out": func(n int) time.Duration {
			v := View{Job: Job{Status: Status{State: Claimed, Claims: n - 1}}}
			return must(t, v, LeaseOver{}).Delay
		},
		"the 1st, 2nd, … look or poll in a row that could not be completed; also the look before a later arm, or the start of a repeat": func(int) time.Duration {
			var d Decision
			unread, d = step(t, unread, Looked{Observation: Observation{Attempt: 1, Verdict: SawInconclusive}})
			return d.Delay
		},
		"a poll that was answered, and did not decide": func(n int) time.Duration {
			if n == 1 { // the first poll follows the handle
				return at(pollWaits, 0)
			}
			var d Decision
			polled, d = step(t, polled, Outcome{Attempt: 1, Result: ResultAccepted, Handle: "h", Polled: true})
			return d.Delay
		},
	} {
		cells := rows[row]
		if len(cells) != 1 {
			t.Errorf("docs/protocol.md has no wait after %q", row)
			continue
		}
		documented := docWaits(t, cells[0])
		var waits []time.Duration
		for n := range documented {
			waits = append(waits, wait(n+1))
		}
		if len(waits) < 4 || !slices.Equal(waits, documented) {
			t.Errorf("after %q: documented %v, waited %v", row, documented, waits)
		}
	}
	if last := docWaits(t, rows["the 1st, 2nd, … repeat under a key"][0]); last[len(last)-1] != DefaultMaxBackoff {
		t.Errorf("the longest documented wait is %v, the limit %v", last[len(last)-1], DefaultMaxBackoff)
	}
}

// TestDocumentedCounters checks that the table of counters in docs/protocol.md names every
// counter of a job, and the limits of the counters.
func TestDocumentedCounters(t *testing.T) {
	rows := docTable(t, "Counters")
	delete(rows, "Counter")
	var documented, counters []string
	for name := range rows {
		documented = append(documented, strings.Trim(name, "`"))
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Status]()) {
		if f.Type == reflect.TypeFor[int]() || f.Type == reflect.TypeFor[int64]() {
			counters = append(counters, strings.ToLower(f.Name))
		}
	}
	slices.Sort(documented)
	slices.Sort(counters)
	if !slices.Equal(documented, counters) {
		t.Errorf("documented counters %v, a job has %v", documented, counters)
	}
	for row, limits := range map[string][]string{
		"`attempt`": {strconv.Itoa(MaxAttempts)},
		"`claims`":  {strconv.Itoa(MaxClaims)},
		"`looks`": {
			strconv.Itoa(MaxLooks) + " looks", strconv.Itoa(MaxPolls) + " polls", strconv.Itoa(int(MaxHeld.Hours())) + " h",
		},
	} {
		for _, limit := range limits {
			if !strings.Contains(strings.Join(rows[row], " "), limit) {
				t.Errorf("the row of %s does not name its limit %s: %v", row, limit, rows[row])
			}
		}
	}
}
