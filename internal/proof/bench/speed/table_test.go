//go:build unix

package main

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/stats"
)

// submitted is a benchmark in which a machine slowed down: ratios within a repetition
// stay, those of medians would not.
func submitted(t *testing.T) result {
	t.Helper()
	for _, h := range fullPlan().benchmarks() {
		if h.name == "submit" {
			return result{
				benchmark: h, fsync: []float64{0.3, 0.5, 2}, skipped: map[string]string{nameBoss: "no Node", nameGraphile: "no Node", nameAsynq: "no Redis"},
				samples: map[string][]sample{
					nameRiver:    {{"per_s": 1000}, {"per_s": 500}, {"per_s": 100}},
					nameFireonce: {{"per_s": 6000}, {"per_s": 2000}, {"per_s": 500}},
					nameSQLite:   {{"per_s": 6000}, {"per_s": 4000}, {"per_s": 100}},
					nameNetwork:  {{"per_s": 1000}, nil, {"per_s": 50}},
					nameGRPC:     {{"per_s": 1000}, nil, {"per_s": 50}},
				},
			}
		}
	}
	t.Fatal("no benchmark submit")
	return result{}
}

func TestJudged(t *testing.T) {
	lines := judged([]result{submitted(t)})
	want := map[string]line{
		"submit in process / River's Insert":                         {Spread: stats.Spread{Median: 5, Min: 4, Max: 6, N: 3}, Word: "pass", Missing: 1},
		"ScheduleJob at the gRPC port / River's Insert in process":   {Spread: stats.Spread{Median: 0.75, Min: 0.5, Max: 1, N: 2}, Word: "miss", Missing: 2 / 0.75},
		"ScheduleJob at the port for all protocols / River's Insert": {Spread: stats.Spread{Median: 0.75, Min: 0.5, Max: 1, N: 2}, Missing: 1},
		"SQLite / PostgreSQL: submit":                                {Spread: stats.Spread{Median: 1, Min: 0.2, Max: 2, N: 3}, Word: "pass", Missing: 1},
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines: %+v", len(lines), lines)
	}
	for _, l := range lines {
		w := want[l.Row]
		if l.Spread != w.Spread || l.Word != w.Word || math.Abs(l.Missing-w.Missing) > 1e-9 || l.Fsync != 0.5 {
			t.Errorf("%s: %+v", l.Row, l)
		}
	}
}

// TestVerdict: how fast something was is no fault, unless it was asked for.
func TestVerdict(t *testing.T) {
	r := submitted(t)
	if err := verdict([]result{r}, false); err != nil {
		t.Error(err)
	}
	if err := verdict([]result{r}, true); err == nil || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), "ScheduleJob at the gRPC port") {
		t.Errorf("not one missed bar: %v", err)
	}
	r.failed = []string{"submit, River, repetition 2: a job is lost"}
	if err := verdict([]result{r}, false); err == nil || !strings.Contains(err.Error(), "a job is lost") {
		t.Errorf("a lost job is no fault: %v", err)
	}
}

func TestReport(t *testing.T) {
	r := submitted(t)
	r.failed = []string{"submit, " + nameNetwork + ", repetition 2: gone"}
	var out strings.Builder
	if err := report(&out, options{repetitions: 3, dir: "/data"}, []result{r}); err != nil {
		t.Fatal(err)
	}
	all := strings.Split(strings.TrimSpace(out.String()), "\n")
	for _, want := range []string{"x5 [4..6]", "0.50 [0.30..2]", "FAILED submit, " + nameNetwork, "SKIPPED submit, " + nameAsynq + ": no Redis", "fsync=on"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	text, found := strings.CutPrefix(all[len(all)-1], resultPrefix)
	var got struct {
		QuietDisk  bool `json:"quiet_disk"`
		Bars       []line
		Benchmarks []struct {
			Systems map[string]map[string]stats.Spread
			Failed  []string
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || !found {
		t.Fatalf("the last line is not for machines: %v, %q", err, text)
	}
	if len(got.Bars) != 4 || !got.QuietDisk || len(got.Benchmarks) != 1 || len(got.Benchmarks[0].Failed) != 1 ||
		got.Benchmarks[0].Systems[nameNetwork]["per_s"] != (stats.Spread{Median: 525, Min: 50, Max: 1000, N: 2}) {
		t.Errorf("%+v", got)
	}
}

func TestReadSamples(t *testing.T) {
	got, err := readSamples([]byte("{\"per_s\":5}\n{\"per_s\":7,\"own_us\":0.5}\n"))
	if err != nil || len(got) != 2 || got[1]["own_us"] != 0.5 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "ready\n", "{\"per_s\":5}\npanic: no\n"} {
		if _, err := readSamples([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestValuesOfAFailedRepetition(t *testing.T) {
	got := submitted(t).values(cell{nameNetwork, "per_s"})
	if len(got) != 3 || !math.IsNaN(got[1]) || !slices.Equal(known(got), []float64{1000, 50}) {
		t.Errorf("%v", got)
	}
}

// TestTimeline: minutes stay in their order, and tables that hold little are left out.
func TestTimeline(t *testing.T) {
	at := func(p50, dead float64) sample {
		return sample{"p50_ms": p50, "size:jobs:dead rows": dead, "size:jobs:live rows": 5, "size:meta:live rows": 1}
	}
	var out strings.Builder
	if err := timeline(&out, benchmark{metrics: []metric{{"p50_ms", "ms p50"}}}, []sample{at(3, 10), at(1, 20), at(2, 1000)}); err != nil {
		t.Fatal(err)
	}
	var words [][]string
	for line := range strings.Lines(out.String()) {
		words = append(words, strings.Fields(line))
	}
	if len(words) < 5 || !slices.Equal(words[1], []string{"1", "3"}) || !slices.Equal(words[2], []string{"2", "1"}) || !slices.Equal(words[3], []string{"3", "2"}) {
		t.Errorf("minutes are out of order:\n%s", &out)
	}
	if text := out.String(); !strings.Contains(text, "10 > 20 > 1000") || strings.Contains(text, "meta") {
		t.Errorf("tables:\n%s", text)
	}
}
