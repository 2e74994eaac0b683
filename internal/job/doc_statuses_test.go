package job

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestDocumentedStatuses compares the second table of docs/statuses.md with Decide: what comes
// after each kind of an answer, what bounds its wait, and whether it spends an attempt.
func TestDocumentedStatuses(t *testing.T) {
	page, err := os.ReadFile("../../docs/statuses.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string][]string)
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) == 4 {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows[cells[0]] = cells[1:]
		}
	}
	for row, tt := range map[string]struct {
		class   Class
		outcome Outcome
	}{
		"for now":         {Opaque, Outcome{Result: ResultRejected, Kind: FailTransient}},
		"rate limit":      {Opaque, Outcome{Result: ResultRejected, Kind: FailRateLimited}},
		"account held":    {Opaque, Outcome{Result: ResultRejected, Kind: FailAuth}},
		"unknown, KEYED":  {Keyed, Outcome{Result: ResultUnknown, PeerEnded: true}},
		"unknown, OPAQUE": {Opaque, Outcome{Result: ResultUnknown, PeerEnded: true}},
		"final":           {Opaque, Outcome{Result: ResultRejected, Kind: FailPermanent}},
	} {
		cells, known := rows[row]
		if !known {
			t.Errorf("docs/statuses.md has no row %q", row)
			continue
		}
		next, bound, spends := cells[0], cells[1], cells[2]
		const asked, own, keep = 40 * time.Minute, time.Hour, 100 * time.Hour
		decide := func(asked, left time.Duration) Decision {
			v := sending(tt.class, OnceOrAsk)
			v.KeepTrying, v.WindowLeft, v.FenceLeft, v.Traits.KeyWindow = left, left, 0, 48*time.Hour
			v.Traits.Retry = &RetryPolicy{Delays: []time.Duration{own}, KeepTrying: left}
			o := tt.outcome
			o.Attempt, o.RetryAfter = 1, asked
			return must(t, v, o)
		}
		d := decide(asked, keep)
		if (d.Failures == 1) != (spends == "yes") || spends != "yes" && spends != "no" {
			t.Errorf("%s: documented as spending %q, spends %d", row, spends, d.Failures)
		}
		larger := d.Delay == own && decide(2*own, keep).Delay == 2*own
		if larger != strings.HasPrefix(next, "the larger of our own wait") {
			t.Errorf("%s: documented %q, waits %v, and %v if asked for longer", row, next, d.Delay, decide(2*own, keep).Delay)
		}
		if waits := strings.HasPrefix(next, "the larger"); !waits {
			continue
		}
		late := decide(2*own, own+time.Minute)
		if bounded := late.To == Failed || late.Delay <= own+time.Minute; bounded != strings.Contains(bound, "the time to keep trying") {
			t.Errorf("%s: documented %q, to %s after %v", row, bound, late.To, late.Delay)
		}
		if byKey := decide(30*time.Hour, keep).Delay < 24*time.Hour; byKey != strings.Contains(bound, "half of the key window") {
			t.Errorf("%s: documented %q, waits %v", row, bound, decide(30*time.Hour, keep).Delay)
		}
	}
}
