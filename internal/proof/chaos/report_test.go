package main

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/nemesis"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

func TestOptions(t *testing.T) {
	for line, want := range map[string]options{
		"":                                  {jobs: 22_000, faults: 293, engines: []string{"postgres", "sqlite"}, servers: 3, seed: 1, limit: defaultLimit},
		"-short":                            {jobs: 3_000, faults: 60, engines: []string{"postgres", "sqlite"}, servers: 3, seed: 1, limit: defaultLimit},
		"-engine sqlite -jobs 50 -seed 9":   {jobs: 50, faults: 1, engines: []string{"sqlite"}, servers: 3, seed: 9, limit: defaultLimit},
		"-jobs 300000 -minutes 1.5 -keep":   {jobs: 300_000, faults: 4_000, engines: []string{"postgres", "sqlite"}, servers: 3, seed: 1, limit: 90 * time.Second, keep: true},
		"-platforms":                        {jobs: 4_000, faults: 53, engines: []string{"postgres", "sqlite"}, servers: 3, seed: 1, limit: defaultLimit, platforms: true},
		"-platforms -short":                 {jobs: 1_500, faults: 20, engines: []string{"postgres", "sqlite"}, servers: 3, seed: 1, limit: defaultLimit, platforms: true},
		"-outside -engine postgres -jobs 7": {jobs: 7, faults: 1, engines: []string{"postgres"}, servers: 3, seed: 1, limit: defaultLimit, outside: true},
	} {
		got, err := parse(strings.Fields(line), io.Discard)
		if err != nil || !slices.Equal(got.engines, want.engines) {
			t.Errorf("%q: %+v, %v", line, got, err)
		}
		got.engines, want.engines = nil, nil
		if a, b := toText(t, got), toText(t, want); a != b {
			t.Errorf("%q: %s, want %s", line, a, b)
		}
	}
	for _, line := range []string{"-engine oracle", "-servers 0", "-jobs -1", "more"} {
		if _, err := parse(strings.Fields(line), io.Discard); err == nil {
			t.Errorf("%q was taken", line)
		}
	}
}

// TestShares: nothing is left over.
func TestShares(t *testing.T) {
	o := options{engines: []string{enginePostgres, engineSQLite}}
	for _, total := range []int{0, 1, 2, 3001} {
		first, second := o.share(total, enginePostgres), o.share(total, engineSQLite)
		if first+second != total || first-second > 1 || first < second {
			t.Errorf("%d are %d and %d", total, first, second)
		}
	}
}

// TestDelaysAreWithinTheFence: a delayed write acts after the answer deadline and
// after a hasty proof of its absence, never after the fence.
func TestDelaysAreWithinTheFence(t *testing.T) {
	f := platformFaults()
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	longest := time.Duration(f.Delay)
	if hasty := settleTime - grace; longest <= hasty+time.Second/2 {
		t.Errorf("%v is hardly after %v, when a fence without grace would have proved the absence", longest, hasty)
	}
	if latest := attemptTimeout + longest; latest > attemptTimeout+grace-delayMargin {
		t.Errorf("a write may act %v after its arm, the fence is at %v", latest, attemptTimeout+grace)
	}
	if work := time.Duration(f.Work); work != longest || f.Faces[platform.FaceUnlocked][platform.Slow] == 0 {
		t.Errorf("receivers without a lock work for %v, and want %v", work, longest)
	}
	if f.Rates[platform.Late] != 0 || time.Duration(f.ReadLag) > readLag {
		t.Errorf("outside the assumptions: %+v", f)
	}
}

func toText(t *testing.T, o options) string {
	t.Helper()
	text, err := json.Marshal([]any{o.jobs, o.faults, o.servers, o.seed, o.limit, o.outside, o.keep, o.platforms})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// someTold is what subscriptions should be.
func someTold() *judge.ToldReport {
	return &judge.ToldReport{
		Notices: 2, Requests: 3, Repeats: 1, Selected: 2, Told: 1, Digests: 1, Counted: 1, Again: 1, Pauses: 1,
		Faults: map[platform.Fault]int{platform.Drop: 1},
	}
}

// TestWhatFailsACampaign: a violation does, a server that fell, and a platform whose
// faults did not bite.
func TestWhatFailsACampaign(t *testing.T) {
	good := func() *outcome {
		return &outcome{
			engine: "sqlite", report: &judge.Report{
				Name: "sqlite", Total: judge.Row{Jobs: 10, Effects: 10}, Faults: map[platform.Fault]int{platform.Drop: 3},
			},
			totals: platform.Totals{Faults: map[platform.Fault]int{platform.Drop: 9}}, // the control's, too
			faults: map[string]int{"kill": 2, "die at armed": 1}, control: judge.Tally{Subjects: 5, Duplicates: 2},
			planned: 4, lost: map[string]int{"arm": 5}, asked: 10, calls: 7, repeats: 2,
		}
	}
	for name, tt := range map[string]struct {
		spoil func(*outcome)
		ok    bool
	}{
		"nothing":           {func(*outcome) {}, true},
		"a duplicate":       {func(o *outcome) { o.report.Total.Violations, o.report.Total.Duplicates = 1, 1 }, false},
		"a server's end":    {func(o *outcome) { o.fell = []error{errors.New("server 1 ended by itself")} }, false},
		"a harmless world":  {func(o *outcome) { o.control.Duplicates = 0 }, false},
		"too much undone":   {func(o *outcome) { o.report.Undone = []string{"KEYED"} }, false},
		"no way forward":    {func(o *outcome) { o.stuck = "nothing came forward" }, false},
		"a quiet nemesis":   {func(o *outcome) { o.faults = nil }, false},
		"a lazy nemesis":    {func(o *outcome) { o.faults = map[string]int{"kill": 1} }, false},
		"an empty plan":     {func(o *outcome) { o.faults, o.planned = nil, 0 }, true},
		"no lost answer":    {func(o *outcome) { o.faults[nemesis.LossWindows], o.lost = 1, nil }, false},
		"a quiet platform":  {func(o *outcome) { o.report.Faults = nil }, false},
		"notices":           {func(o *outcome) { o.told = someTold() }, true},
		"a lost notice":     {func(o *outcome) { o.told = someTold(); o.told.Total = 1 }, false},
		"no repeat":         {func(o *outcome) { o.told = someTold(); o.told.Repeats = 0 }, false},
		"no digest":         {func(o *outcome) { o.told = someTold(); o.told.Counted = 0 }, false},
		"a submit unserved": {func(o *outcome) { o.asked = 11 }, true}, // the load was cut short, which is said
	} {
		out := good()
		tt.spoil(out)
		var text strings.Builder
		ok, err := tell(&text, options{seed: 4}, time.Minute, []*outcome{out})
		if err != nil || ok != tt.ok {
			t.Errorf("%s: %v, %v, want %v", name, ok, err, tt.ok)
		}
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		last, found := strings.CutPrefix(lines[len(lines)-1], "CHAOS RESULT ")
		var result judge.Result
		if err := json.Unmarshal([]byte(last), &result); err != nil || !found {
			t.Fatalf("%s: the last line is %q: %v", name, lines[len(lines)-1], err)
		}
		if result.OK != tt.ok || result.OK != (len(result.Wrong) == 0) || len(result.Ends) != len(out.fell) ||
			result.Seed != 4 || result.ProcessFaults["kill"] != out.faults["kill"] || result.Controls["sqlite"].Subjects != 5 ||
			result.PlatformFaults[platform.Drop] != out.report.Faults[platform.Drop] || result.LostCommits["arm"] != out.lost["arm"] ||
			result.FaultsPlanned != out.planned || result.Asked != out.asked || result.Calls != 7 || result.Repeats != 2 {
			t.Errorf("%s: %+v", name, result)
		}
		if name == "nothing" && !strings.Contains(text.String(), "process faults: 3 (die at armed 1, kill 2); 4 planned; answers to COMMIT lost: 5 (arm 5)") {
			t.Errorf("%s: no word of the faults:\n%s", name, text.String())
		}
	}
}
