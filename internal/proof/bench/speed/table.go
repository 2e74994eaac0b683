//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/stats"
)

// resultPrefix begins the line that is for machines.
const resultPrefix = "SPEED RESULT "

// quietDisk is up to which fsync, in milliseconds, the bars were set for.
const quietDisk = 0.6

// report writes the tables for people, and a last line for machines.
func report(w io.Writer, o options, results []result) error {
	fmt.Fprintf(w, "\n%d processors, PostgreSQL with %s; data in %s\n", runtime.NumCPU(), settingsText(), o.dir)
	fmt.Fprintf(w, "medians of %d repetitions [lowest..highest]; proportions are within a repetition\n", o.repetitions)
	for _, r := range results {
		if err := r.table(w); err != nil {
			return err
		}
	}
	lines := judged(results)
	fmt.Fprint(w, "\nBars\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tmeasured\tbar\t\tfsync ms\t")
	for _, l := range lines {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t\n", l.Row, shown(l.Spread), l.Bar, l.Word, stats.Short(l.Fsync))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		for _, name := range slices.Sorted(maps.Keys(r.skipped)) {
			fmt.Fprintf(w, "SKIPPED %s, %s: %s\n", r.name, name, r.skipped[name])
		}
		for _, f := range r.failed {
			fmt.Fprintln(w, "FAILED", f)
		}
	}
	return machines(w, o, results, lines)
}

func settingsText() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		out = append(out, name+"="+settings[name])
	}
	return strings.Join(out, " ")
}

// table is what a benchmark measured.
func (r result) table(w io.Writer) error {
	fsync := stats.Of(r.fsync)
	fmt.Fprintf(w, "\n%s: %s\n(fsync %s ms)\n", r.name, r.what, shown(fsync))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\t")
	for _, m := range r.metrics {
		fmt.Fprintf(t, "%s\t", m.unit)
	}
	compared := r.compared()
	for _, m := range compared {
		fmt.Fprintf(t, "%s / River's\t", m.unit)
	}
	fmt.Fprintln(t)
	for _, c := range r.systems {
		if r.skipped[c.name] != "" {
			continue
		}
		fmt.Fprintf(t, "%s\t", c.name)
		for _, m := range r.metrics {
			fmt.Fprintf(t, "%s\t", shown(stats.Of(known(r.values(cell{c.name, m.key})))))
		}
		for _, m := range compared {
			ratios := stats.Ratios(r.values(cell{c.name, m.key}), r.values(cell{nameRiver, m.key}))
			fmt.Fprintf(t, "x%s\t", shown(stats.Of(ratios)))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil || !r.long {
		return err
	}
	for _, c := range r.systems {
		if err := timeline(w, r.benchmark, r.samples[c.name]); err != nil {
			return err
		}
	}
	return nil
}

// compared are the metrics that are shown in proportion to River's: the first two,
// where River is there.
func (r result) compared() []metric {
	if len(r.samples[nameRiver]) == 0 {
		return nil
	}
	return r.metrics[:min(2, len(r.metrics))]
}

// known leaves out what failed.
func known(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), math.IsNaN)
}

func shown(s stats.Spread) string {
	switch s.N {
	case 0:
		return "-"
	case 1:
		return stats.Short(s.Median)
	default:
		return fmt.Sprintf("%s [%s..%s]", stats.Short(s.Median), stats.Short(s.Min), stats.Short(s.Max))
	}
}

// line is a bar and what was measured.
type line struct {
	Row string `json:"row"`
	stats.Spread
	Bar stats.Bar `json:"bar"`
	// Word is "pass" or "miss"; "" without a bar, or when nothing was measured.
	Word string `json:"verdict"`
	// Missing is by which factor the bar is missed.
	Missing float64 `json:"missing"`
	Fsync   float64 `json:"fsync_ms"`
}

// judged are the bars of the benchmarks that were run.
func judged(results []result) []line {
	var out []line
	for _, b := range bars() {
		for _, r := range results {
			if r.name != b.benchmark {
				continue
			}
			values := known(r.values(b.of))
			if b.to != (cell{}) {
				values = stats.Ratios(r.values(b.of), r.values(b.to))
			}
			l := line{Row: b.title, Spread: stats.Of(values), Bar: b.Bar, Fsync: stats.Of(r.fsync).Median, Missing: 1}
			if b.Set() && l.N > 0 {
				l.Missing, l.Word = b.Missing(l.Median), "miss"
				if b.Met(l.Median) {
					l.Word = "pass"
				}
			}
			out = append(out, l)
		}
	}
	return out
}

// machines writes everything on one line.
func machines(w io.Writer, o options, results []result, lines []line) error {
	type benchmarkLine struct {
		Benchmark string                             `json:"benchmark"`
		What      string                             `json:"what"`
		Fsync     stats.Spread                       `json:"fsync_ms"`
		Systems   map[string]map[string]stats.Spread `json:"systems"`
		Ratios    map[string]map[string]stats.Spread `json:"to_river,omitempty"`
		Skipped   map[string]string                  `json:"skipped,omitempty"`
		Failed    []string                           `json:"failed,omitempty"`
	}
	out := struct {
		Quick       bool            `json:"quick"`
		Repetitions int             `json:"repetitions"`
		QuietDisk   bool            `json:"quiet_disk"`
		Bars        []line          `json:"bars"`
		Benchmarks  []benchmarkLine `json:"benchmarks"`
	}{Quick: o.quick, Repetitions: o.repetitions, QuietDisk: true, Bars: lines}
	for _, r := range results {
		l := benchmarkLine{Benchmark: r.name, What: r.what, Fsync: stats.Of(r.fsync), Systems: map[string]map[string]stats.Spread{}, Skipped: r.skipped, Failed: r.failed}
		out.QuietDisk = out.QuietDisk && l.Fsync.Median <= quietDisk
		for name, samples := range r.samples {
			l.Systems[name] = make(map[string]stats.Spread)
			for _, m := range r.compared() {
				if l.Ratios == nil {
					l.Ratios = make(map[string]map[string]stats.Spread)
				}
				if l.Ratios[name] == nil {
					l.Ratios[name] = make(map[string]stats.Spread)
				}
				l.Ratios[name][m.key] = stats.Of(stats.Ratios(r.values(cell{name, m.key}), r.values(cell{nameRiver, m.key})))
			}
			for _, s := range samples {
				for key := range s {
					l.Systems[name][key] = stats.Of(known(r.values(cell{name, key})))
				}
			}
		}
		out.Benchmarks = append(out.Benchmarks, l)
	}
	text, err := json.Marshal(out)
	if err == nil {
		_, err = fmt.Fprintf(w, "%s%s\n", resultPrefix, text)
	}
	return err
}

// verdict is the exit status: whether each job took effect once, and not how fast;
// how fast only when it is asked for.
func verdict(results []result, withBars bool) error {
	var broken []string
	for _, r := range results {
		broken = append(broken, r.failed...)
	}
	if withBars {
		for _, l := range judged(results) {
			if l.Word == "miss" {
				broken = append(broken, fmt.Sprintf("%s: %s, the bar is %s", l.Row, stats.Short(l.Median), l.Bar))
			}
		}
	}
	if len(broken) == 0 {
		return nil
	}
	return errors.New(strings.Join(broken, "\n"))
}

// brief is a measurement's first metric, while others go on.
func brief(of benchmark, samples []sample, err error) string {
	if err != nil {
		return "FAILED: " + err.Error()
	}
	var out []string
	for _, m := range of.metrics {
		if v, ok := samples[0][m.key]; ok {
			out = append(out, stats.Short(v)+" "+m.unit)
		}
	}
	return strings.Join(out, ", ")
}
