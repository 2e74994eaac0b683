package main

import (
	"fmt"
	"io"

	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// recurringOutcome is what a campaign found of schedules.
type recurringOutcome struct {
	*judge.RecurringReport
	// Control is the naive scheduler's.
	Control judge.Tally `json:"control"`
	// Hasty are the calls that clients broke off, Refused those that were repeated because the
	// service did not take them for now.
	Hasty   int64 `json:"hasty"`
	Refused int64 `json:"refused"`
}

// judge weighs what the service said of the schedules.
func (r *recurring) judge(scheduled []judge.Recurring, log string) (*recurringOutcome, error) {
	report, err := judge.JudgeRecurring(scheduled, platform.ReadLog(log))
	if err != nil {
		return nil, err
	}
	control, err := judge.Count(platform.ReadLog(log), isNaiveCron)
	return &recurringOutcome{RecurringReport: report, Control: control, Hasty: r.hasties.Load(), Refused: r.refused.Load()}, err
}

// print prints what the schedules did.
func (out *recurringOutcome) print(w io.Writer) {
	fmt.Fprintf(w, "  schedules: %d, paused by hand %d times; %d times that had to be decided, %d jobs; firings: %s\n",
		out.Schedules, out.Pauses, out.Times, out.Jobs, counts(out.Firings))
	fmt.Fprintf(w, "  %d trigger keys made a job, in %d answers; %d of %d items used; %d calls broken off, %d refused for now\n",
		out.Triggers, out.TriggerAnswers, out.Used, out.Items, out.Hasty, out.Refused)
	fmt.Fprintf(w, "  control, a scheduler that posts and then notes that it has: %d times, %d requests, %d effects, %d duplicates\n",
		out.Control.Subjects, out.Control.Requests, out.Control.Effects, out.Control.Duplicates)
	for _, v := range out.Violations {
		fmt.Fprintf(w, "  %s: %s: %s\n", v.Subject, v.Kind, v.Detail)
	}
	for _, k := range judge.RecurringKinds {
		if n := out.Kinds[k]; n > 0 {
			fmt.Fprintf(w, "  schedules: %d × %s\n", n, k)
		}
	}
}

// wrong returns why the schedules fail the campaign; nothing: they do not.
func (out *recurringOutcome) wrong() []string {
	var why []string
	if out.Total > 0 {
		why = append(why, fmt.Sprintf("%d violations of schedules", out.Total))
	}
	if out.Control.Duplicates == 0 {
		why = append(why, "the naive scheduler made no duplicate: the faults do not bite")
	}
	// Zero violations prove nothing about what never happened.
	for what, n := range map[string]int{
		"firing made a job": out.Firings[judge.OutcomeFired], "trigger was answered twice": out.TriggerAnswers - out.Triggers,
		"item was used": out.Used, "schedule was paused": out.Pauses, "firing was kept by an earlier job": out.Firings[judge.OutcomeSkipped],
	} {
		if n <= 0 {
			why = append(why, "no "+what)
		}
	}
	return why
}
