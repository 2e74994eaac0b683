package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/nemesis"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// tell prints what campaigns showed, and in the last line the same for programs.
// False: something is wrong.
func tell(w io.Writer, o options, took time.Duration, all []*outcome) (ok bool, err error) {
	result := judge.Result{
		OK: true, Seed: o.seed, Seconds: took.Seconds(), ProcessFaults: make(map[string]int),
		PlatformFaults: make(map[platform.Fault]int), LookFaults: make(map[platform.Fault]int),
		LostCommits: make(map[string]int), Controls: make(map[string]judge.Tally),
	}
	fmt.Fprintln(w)
	for _, out := range all {
		result.Reports = append(result.Reports, out.report)
		add(result.ProcessFaults, out.faults)
		add(result.PlatformFaults, out.report.Faults)
		add(result.LostCommits, out.lost)
		result.Asked, result.Calls, result.Repeats = result.Asked+out.asked, result.Calls+out.calls, result.Repeats+out.repeats
		result.FaultsPlanned += out.planned
		add(result.LookFaults, out.totals.LookFaults)
		result.Controls[out.engine] = out.control
		if out.recurring != nil {
			result.Controls[out.engine+" schedules"] = out.recurring.Control
			result.Recurring = append(result.Recurring, out.recurring.RecurringReport)
		}
		if out.told != nil {
			result.Told = append(result.Told, out.told)
		}
	}
	if err := judge.Table(w, result.Reports...); err != nil {
		return false, err
	}
	fmt.Fprintln(w)
	for _, out := range all {
		out.print(w)
		if out.soak != nil {
			if err := out.soak.print(w); err != nil {
				return false, err
			}
		}
		wrong := out.wrong()
		for _, why := range wrong {
			fmt.Fprintf(w, "%s: WRONG: %s\n", out.engine, why)
			result.Wrong = append(result.Wrong, out.engine+": "+why)
		}
		for _, err := range out.fell {
			result.Ends = append(result.Ends, out.engine+": "+err.Error())
		}
		result.OK = result.OK && len(wrong) == 0
		if out.soak == nil {
			continue
		}
		line, err := out.soak.line()
		if err != nil {
			return false, err
		}
		fmt.Fprintln(w, line)
	}
	line, err := judge.Line(result)
	fmt.Fprintln(w, line)
	return result.OK, err
}

// print prints what was done to one engine's servers.
func (out *outcome) print(w io.Writer) {
	submitted := out.report.Total.Jobs
	if out.recurring != nil {
		submitted -= out.recurring.Jobs
	}
	if out.told != nil {
		submitted -= toldLast
	}
	fmt.Fprintf(w, "%s: %d of %d jobs submitted in %d calls, %d of them repeats of one without an answer; %v in all\n",
		out.engine, submitted, out.asked, out.calls, out.repeats, out.took.Round(time.Second))
	fmt.Fprintf(w, "  process faults: %s; %d planned; answers to COMMIT lost: %s\n", counts(out.faults), out.planned, counts(out.lost))
	fmt.Fprintf(w, "  platform faults: %s\n", counts(out.report.Faults))
	fmt.Fprintf(w, "  faults of %d looks: %s\n", out.totals.Looks, counts(out.totals.LookFaults))
	if out.edged {
		fmt.Fprintf(w, "  answers of the proxy itself: %v\n", out.edge)
	}
	if out.owner != nil {
		fmt.Fprintf(w, "  %s\n", out.owner.said())
	}
	fmt.Fprintf(w, "  control, a client that tries %d times: %d subjects, %d requests, %d effects, %d duplicates\n",
		controlTries, out.control.Subjects, out.control.Requests, out.control.Effects, out.control.Duplicates)
	if out.recurring != nil {
		out.recurring.print(w)
	}
	if out.told != nil {
		printTold(w, out.told)
	}
}

// wrong returns why a campaign has failed; nothing: it has not.
func (out *outcome) wrong() []string {
	var why []string
	if n := out.report.Total.Violations; n > 0 {
		why = append(why, fmt.Sprintf("%d violations", n))
	}
	for _, undone := range out.report.Undone {
		why = append(why, "too much is undone: "+undone)
	}
	if out.owner != nil {
		if dull := out.owner.bites(); dull != "" {
			why = append(why, dull)
		}
	}
	if out.soak != nil {
		why = append(why, out.soak.wrong()...)
	}
	if out.recurring != nil {
		why = append(why, out.recurring.wrong()...)
	}
	if out.told != nil {
		why = append(why, wrongTold(out.told)...)
	}
	if out.stuck != "" {
		why = append(why, out.stuck)
	}
	if n := sum(out.faults); 2*n < out.planned {
		why = append(why, fmt.Sprintf("only %d of %d planned process faults were delivered", n, out.planned))
	}
	if out.faults[nemesis.LossWindows] > 0 && sum(out.lost) == 0 {
		why = append(why, "no answer to COMMIT was lost")
	}
	if sum(out.report.Faults) == 0 {
		why = append(why, "no fault of the platform met the service")
	}
	if out.edged && (out.edge.Refused == 0 || out.edge.Broken == 0) {
		why = append(why, "the proxy did not refuse, or its receiver never broke off")
	}
	if out.control.Duplicates == 0 {
		why = append(why, "the control made no duplicate: the platform's faults do not bite")
	}
	for _, err := range out.fell {
		why = append(why, err.Error())
	}
	return why
}

// counts lists numbers by name, and their sum.
func counts[K ~string](m map[K]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return fmt.Sprintf("%d (%s)", sum(m), strings.Join(parts, ", "))
}

func add[K comparable](to, from map[K]int) {
	for k, n := range from {
		to[k] += n
	}
}
