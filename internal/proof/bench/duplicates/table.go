package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// resultPrefix begins each line that is for machines.
const resultPrefix = "PEERS RESULT "

// columns are the head of the table.
const columns = "\tjobs\trequests\tfaults\teffects\tduplicates/1000\tlost\tunknown\tfalse failed\tunfinished\tkills\tseconds\t"

// report writes the table for people, then a line for machines per system.
func report(w io.Writer, s settings, results []result) error {
	fmt.Fprintf(w, "\n%d jobs each, %d at once, timeout %v, %d times SIGKILL, seed %d, at most %v\n",
		s.jobs, s.senders, s.timeout, s.kills, s.seed, s.limit)
	keyed := func(r result) bool { return r.Face == platform.FaceKeyed }
	for _, part := range []struct {
		title string
		keyed bool
	}{{"The receiver acts on each request", false}, {"The receiver drops a key that it has seen", true}} {
		fmt.Fprintf(w, "\n%s\n", part.title)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, columns)
		for _, r := range results {
			if keyed(r) == part.keyed && r.Skipped == "" {
				fmt.Fprintln(t, row(r))
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintf(w, "\nfaults: %s\n", faultsOf(results))
	fmt.Fprintf(w, "a zero in %d jobs means: with 95 %% confidence fewer than %.1f in 1,000\n", s.jobs, 1000*judge.Bound95(s.jobs))
	for _, r := range results {
		if r.Skipped != "" {
			fmt.Fprintf(w, "SKIPPED %s: %s\n", r.System, r.Skipped)
		}
	}
	return lines(w, results)
}

func row(r result) string {
	unknown := fmt.Sprint(r.Unknown)
	if r.Unknown > 0 {
		unknown = fmt.Sprintf("%d (%d there)", r.Unknown, r.UnknownEffect)
	}
	return fmt.Sprintf("%s\t%d\t%d\t%d\t%d\t%.1f\t%d\t%s\t%d\t%d\t%d\t%.0f\t", r.System, r.Jobs, r.Requests, r.FaultsDelivered(),
		r.Effects, r.Duplicates, r.Lost, unknown, r.FalseFailed, r.Unfinished, r.Kills, r.Seconds)
}

// lines are for machines.
func lines(w io.Writer, results []result) error {
	for _, r := range results {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s%s\n", resultPrefix, line)
	}
	return nil
}

// undone counts the jobs that ended without being done, as the system says. At a
// receiver that can neither dedupe nor be looked at, unknown outcomes are none.
func (r result) undone() int {
	if r.Face == platform.FaceOpaque {
		return r.Failed
	}
	return r.Failed + r.Unknown
}

// mostUndone is how many of our jobs may end so: who does nothing, or asks a person
// about everything, duplicates nothing either.
func mostUndone(jobs int) int { return max(3, jobs/10) }

// verdict returns what must not be in the results: a broken promise of ours, or
// faults that hurt no system, which would make a zero of ours worth nothing.
func verdict(results []result) error {
	var broken []string
	control, bitten := false, false
	for _, r := range results {
		switch {
		case r.Skipped != "":
		case r.ours:
			for what, n := range map[string]int{
				"duplicated": r.Duplicated, "lost": r.Lost, "said to have failed, but there": r.FalseFailed,
			} {
				if n > 0 {
					broken = append(broken, fmt.Sprintf("%s: %d jobs %s", r.System, n, what))
				}
			}
			if n := r.undone(); n > mostUndone(r.Jobs) {
				broken = append(broken, fmt.Sprintf("%s: %d jobs failed or left to a person", r.System, n))
			}
		case r.Face == platform.FaceOpaque:
			control = true
			bitten = bitten || r.Duplicated > 0
		}
	}
	if control && !bitten {
		broken = append(broken, "no other system duplicated anything: the faults did not bite")
	}
	if len(broken) == 0 {
		return nil
	}
	slices.Sort(broken)
	return fmt.Errorf("%s", strings.Join(broken, "\n"))
}

// faultsOf lists what was delivered, most frequent first.
func faultsOf(results []result) string {
	sum := make(map[string]int)
	for _, r := range results {
		for kind, n := range r.Faults {
			sum[kind] += n
		}
	}
	kinds := slices.SortedFunc(maps.Keys(sum), func(a, b string) int {
		if sum[a] != sum[b] {
			return sum[b] - sum[a]
		}
		return strings.Compare(a, b)
	})
	for i, k := range kinds {
		kinds[i] = fmt.Sprintf("%s %d", k, sum[k])
	}
	return strings.Join(kinds, ", ")
}
