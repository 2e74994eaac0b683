package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/meter"
)

const (
	// slower is how many times its quiet value the p99 of an honest kind of call may be
	// while hostile clients are at work.
	slower = 3
	// fewCalls have no 99th percentile.
	fewCalls = 100
	// Memory is flat if the mean of a life's last third is at most this much above that of
	// its first one: a share, and an amount that the collector needs.
	growthShare  = 1.25
	growthAmount = 32 * mebibyte
	// A life is judged if it has so many samples after those of its start.
	leastSamples = 30
	startSamples = 10
)

// honestKinds are the kinds of calls whose latency is judged. A batch is not: how many
// jobs it has is chance.
var honestKinds = []string{callSubmit, callRepeat, callGet, callList, callEvent}

// measuredPhases are those that are reported.
var measuredPhases = []meter.Phase{meter.Quiet, meter.Calm, meter.Storm}

// wrong returns what a soak found; nothing: all held.
func (s *soak) wrong() []string {
	var why []string
	for _, part := range slices.Sorted(maps.Keys(s.errs)) {
		why = append(why, part+": "+s.errs[part].Error())
	}
	for _, kind := range s.acts.Silent() {
		why = append(why, "no attack of the kind "+kind+" was made")
	}
	if len(s.quotas) > 0 && s.acts.Refused() == 0 {
		why = append(why, "the hostile project met none of its quotas")
	}
	why = append(why, slowCalls(s.calls)...)
	return append(why, grown(s.memory.Lives(), s.ceiling)...)
}

// slowCalls lists the kinds of calls that hostile clients slowed too much.
func slowCalls(calls *meter.Calls) (why []string) {
	for _, kind := range honestKinds {
		quiet, calm := calls.Latency(kind, meter.Quiet), calls.Latency(kind, meter.Calm)
		switch {
		case min(quiet.Calls, calm.Calls) < fewCalls:
			why = append(why, fmt.Sprintf("%s: %d quiet and %d calm calls are too few to compare", kind, quiet.Calls, calm.Calls))
		case calm.P99 > slower*quiet.P99:
			why = append(why, fmt.Sprintf("%s: p99 is %s beside hostile clients, more than %d times its quiet %s", kind, ms(calm.P99), slower, ms(quiet.P99)))
		}
	}
	return why
}

// grown lists the lives whose memory grew, or was more than the ceiling.
func grown(lives []meter.Life, ceiling int64) (why []string) {
	judged := 0
	for _, l := range lives {
		if l.Peak > ceiling {
			why = append(why, fmt.Sprintf("server %d (process %d) had %s resident, more than %s", l.Server, l.PID, mib(l.Peak), mib(ceiling)))
		}
		if len(l.Samples) < startSamples+leastSamples {
			continue
		}
		judged++
		l.Samples = l.Samples[startSamples:]
		if first, last := l.Thirds(); float64(last) > growthShare*float64(first)+growthAmount {
			why = append(why, fmt.Sprintf("server %d (process %d) grew in %d s from %s to %s", l.Server, l.PID, len(l.Samples), mib(first), mib(last)))
		}
	}
	if judged == 0 {
		why = append(why, "no server lived long enough for its memory to be judged")
	}
	return why
}

// print describes what a soak did and measured.
func (s *soak) print(w io.Writer) error {
	fmt.Fprintf(w, "  soak: %v; %d hostile acts; %d event streams\n", s.times, s.acts.Acts(), s.follower.streams)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "  honest calls\tquiet: calls\tp50\tp99\tcalm: calls\tp50\tp99\tmost\tstorm: calls\tp50\tp99\tmost")
	for _, kind := range s.calls.Kinds() {
		q, c, st := s.calls.Latency(kind, meter.Quiet), s.calls.Latency(kind, meter.Calm), s.calls.Latency(kind, meter.Storm)
		fmt.Fprintf(out, "  %s\t%d\t%s\t%s\t%d\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", kind, q.Calls, ms(q.P50), ms(q.P99),
			c.Calls, ms(c.P50), ms(c.P99), ms(c.Max), st.Calls, ms(st.P50), ms(st.P99), ms(st.Max))
	}
	for _, p := range measuredPhases {
		fmt.Fprintf(out, "  tries without an answer, %v\t%s\n", p, outcomes(s.calls.Failures(p)))
	}
	fmt.Fprintln(out, "\n  hostile acts\ttimes\tcame to")
	for _, kind := range s.acts.Kinds() {
		fmt.Fprintf(out, "  %s\t%s\n", kind, outcomes(s.acts[kind]))
	}
	fmt.Fprintf(out, "\n  resident memory\tprocess\tseconds\tfirst third\tlast third\thighest\n")
	for _, l := range s.quiet.Lives() {
		first, last := l.Thirds()
		fmt.Fprintf(out, "  server %d, quiet\t%d\t%d\t%s\t%s\t%s\n", l.Server, l.PID, len(l.Samples), mib(first), mib(last), mib(l.Peak))
	}
	short, peak := 0, int64(0)
	for _, l := range s.memory.Lives() {
		if len(l.Samples) < startSamples+leastSamples {
			short, peak = short+1, max(peak, l.Peak)
			continue
		}
		l.Samples = l.Samples[startSamples:]
		first, last := l.Thirds()
		fmt.Fprintf(out, "  server %d\t%d\t%d\t%s\t%s\t%s\n", l.Server, l.PID, len(l.Samples), mib(first), mib(last), mib(l.Peak))
	}
	fmt.Fprintf(out, "  %d shorter lives\t\t\t\t\t%s\n", short, mib(peak))
	return out.Flush()
}

// outcomes lists how often what came of an attack, the most frequent first.
func outcomes(of map[string]int) string {
	names := slices.SortedFunc(maps.Keys(of), func(a, b string) int { return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b)) })
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s %d", name, of[name]))
	}
	return fmt.Sprintf("%d\t%s", sum(of), strings.Join(parts, ", "))
}

// figures are what a soak measured, for programs.
type figures struct {
	Engine    string                              `json:"engine"`
	Seconds   float64                             `json:"hostile_seconds"`
	Latencies map[string]map[string]meter.Latency `json:"latencies"`
	Failures  map[string]map[string]int           `json:"tries_without_an_answer"`
	Acts      map[string]map[string]int           `json:"hostile_acts"`
	Peak      int64                               `json:"peak_bytes"`
	QuietPeak int64                               `json:"quiet_peak_bytes"`
	Lives     int                                 `json:"lives"`
}

// line returns a soak's figures as one line.
func (s *soak) line() (string, error) {
	f := figures{
		Engine: s.engine, Seconds: s.times.hostile().Seconds(),
		Latencies: make(map[string]map[string]meter.Latency), Failures: make(map[string]map[string]int), Acts: s.acts,
	}
	for _, kind := range s.calls.Kinds() {
		f.Latencies[kind] = make(map[string]meter.Latency)
		for _, p := range measuredPhases {
			f.Latencies[kind][p.String()] = s.calls.Latency(kind, p)
		}
	}
	for _, p := range measuredPhases {
		f.Failures[p.String()] = s.calls.Failures(p)
	}
	for _, l := range s.memory.Lives() {
		f.Peak, f.Lives = max(f.Peak, l.Peak), f.Lives+1
	}
	for _, l := range s.quiet.Lives() {
		f.QuietPeak = max(f.QuietPeak, l.Peak)
	}
	text, err := json.Marshal(f)
	return "SOAK FIGURES " + string(text), err
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }

func mib(bytes int64) string { return fmt.Sprintf("%d MiB", bytes/mebibyte) }
