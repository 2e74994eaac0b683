package judge

import (
	"fmt"
	"strings"

	"github.com/fireonce/fireonce/internal/job"
)

// A run in which most jobs are left to a person, or are not done, has no
// duplicates either. These are the largest shares of a class that may end so; in a
// run they are far smaller. Who asks a receiver that can neither dedupe nor be
// looked at is left with many unknown outcomes, and rightly: that share has no limit.
const (
	mostUndoneKeyed = 0.05
	mostUndone      = 0.10
	// fewUndone may always be: a handful of jobs has no shares.
	fewUndone = 3
)

// undone returns which rows left too much undone.
func undone(rows []Row) (why []string) {
	for _, r := range rows {
		class, _, _ := strings.Cut(r.Class, " ")
		if r.Blind {
			class = job.Opaque.String()
		}
		left, limit, what := r.NoEffect, mostUndone, "have no effect"
		switch class {
		case job.Keyed.String():
			left, limit, what = r.NoEffect+r.Unknown, mostUndoneKeyed, "have no effect or are left to a person"
		case job.Opaque.String():
			if r.Unknown > 0 && strings.HasSuffix(r.Class, " "+job.AtMostOnce.String()) {
				why = append(why, fmt.Sprintf("%s: %d of %d jobs are left to a person, which that delivery never asks", r.Class, r.Unknown, r.Jobs))
			}
		case strangers:
			continue
		default:
			left, what = r.NoEffect+r.Unknown, "have no effect or are left to a person"
		}
		if left > fewUndone && float64(left) > limit*float64(r.Jobs) {
			why = append(why, fmt.Sprintf("%s: %d of %d jobs %s", r.Class, left, r.Jobs, what))
		}
	}
	return why
}

// Bounded counts the jobs that a zero of duplicates speaks about: all but those with
// delivery AT_LEAST_ONCE, which may duplicate.
func Bounded(reports ...*Report) (n int) {
	for _, r := range reports {
		for _, row := range r.Rows {
			if row.Class != strangers && !row.resends() {
				n += row.Jobs
			}
		}
	}
	return n
}

// resends reports whether a row is of jobs with delivery AT_LEAST_ONCE.
func (r Row) resends() bool { return strings.HasSuffix(r.Class, " "+job.AtLeastOnce.String()) }
