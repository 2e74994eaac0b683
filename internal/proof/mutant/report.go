package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// verdict is what became of a mutant, in one word.
func (r result) verdict() string {
	switch {
	case errors.Is(r.err, errStale):
		return "stale"
	case r.err != nil:
		return "broken"
	case r.found == nil:
		return "survived"
	default:
		return "caught"
	}
}

// String is one line about one mutant, and the reason if it has failed.
func (r result) String() string {
	switch r.verdict() {
	case "caught":
		f := r.found
		text := fmt.Sprintf("%s: caught by %s at seed %d of %s after %d worlds in %.1f s",
			r.mutant.name, f.invariant, f.seed, f.test, f.worlds, f.took.Seconds())
		if !r.expected() {
			text += fmt.Sprintf(" (expected %s)", strings.Join(r.mutant.expect, " or "))
		}
		return text
	case "survived":
		return fmt.Sprintf("%s: SURVIVED %d worlds", r.mutant.name, r.worlds)
	default:
		return fmt.Sprintf("%s: %s: %v", r.mutant.name, strings.ToUpper(r.verdict()), r.err)
	}
}

// summary is the last line, for machines.
type summary struct {
	Mutants  int     `json:"mutants"`
	Caught   int     `json:"caught"`
	Survived int     `json:"survived"`
	Broken   int     `json:"broken"`
	Stale    int     `json:"stale"`
	Worlds   uint64  `json:"true_code_worlds"`
	Seconds  float64 `json:"seconds"`
}

// report prints the table and the summary. It fails unless every mutant was caught.
func report(out io.Writer, results []result, worlds uint64, took time.Duration) error {
	s := summary{Mutants: len(results), Worlds: worlds, Seconds: float64(took.Milliseconds()) / 1000}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "MUTANT\tCAUGHT BY\tSEED\tTEST\tWORLDS\tSECONDS\tRULE DROPPED")
	for _, r := range results {
		verdict, seed, test, worlds, seconds := strings.ToUpper(r.verdict()), "", "", r.worlds, ""
		switch r.verdict() {
		case "caught":
			s.Caught++
			verdict, test, worlds = r.found.invariant, r.found.test, r.found.worlds
			seed, seconds = fmt.Sprint(r.found.seed), fmt.Sprintf("%.1f", r.found.took.Seconds())
		case "survived":
			s.Survived++
		case "broken":
			s.Broken++
		case "stale":
			s.Stale++
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.mutant.name, verdict, seed, test, worlds, seconds, r.mutant.rule)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nMUTANTS %s\n", line)
	if s.Caught != s.Mutants {
		return fmt.Errorf("%d of %d mutants were not caught", s.Mutants-s.Caught, s.Mutants)
	}
	return nil
}

// list prints what the mutants drop.
func list(out io.Writer, mutants []mutant) {
	for _, m := range mutants {
		fmt.Fprintf(out, "%-31s %s\n", m.name, m.rule)
	}
	fmt.Fprintf(out, "%d mutants\n", len(mutants))
}
