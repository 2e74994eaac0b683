package store

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: every query about jobs has a bound on what it reads. A filter is
// answered in one of two ways:
//   - by the jobs that an index names, if they are at most SearchCandidates: all of them are
//     read;
//   - by a walk in the list's order, which reads WalkSteps jobs of each state at most. Such a
//     page may have fewer jobs than its limit, or none, and still have a next page.

// SearchCandidates bounds the jobs that an index names for a filter.
const SearchCandidates = 10_000

// WalkSteps are the numbers of jobs of each state that the steps of one walk read.
var WalkSteps = []int{1000, 4000, 10_000}

// Bounds of a count: the jobs of each state that are counted where an index has all filtered
// columns, and those that are read otherwise.
const (
	CountIndexed = 100_000
	CountLooked  = 10_000
	// CountGroups bounds the groups of a count.
	CountGroups = 1000
)

// GroupBy is how the jobs of a count are grouped.
type GroupBy int

const (
	// ByNothing: there are no groups.
	ByNothing GroupBy = iota
	// ByConnection: the job's connection.
	ByConnection
	// ByClass: the job's effect class.
	ByClass
	// ByErrorKind: the kind of the job's last error.
	ByErrorKind
)

// JobCounts is the result of Count.
type JobCounts struct {
	Now time.Time
	// States has each state that the query allows.
	States map[job.State]StateCount
	// Groups are the largest groups, at most CountGroups, the largest first.
	Groups []JobGroup
}

// StateCount counts the jobs of a state. Capped: there are at least as many.
type StateCount struct {
	Count  int64
	Capped bool
}

// JobGroup counts the jobs of one group. GroupBy determines which one of the values is set.
type JobGroup struct {
	Connection job.ID
	Class      job.Class
	ErrorKind  job.FailureKind
	Count      int64
}

// LargestGroups orders groups, and drops those above the bound.
func LargestGroups(groups []JobGroup) []JobGroup {
	slices.SortFunc(groups, func(a, b JobGroup) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), bytes.Compare(a.Connection[:], b.Connection[:]),
			cmp.Compare(a.Class, b.Class), cmp.Compare(a.ErrorKind, b.ErrorKind))
	})
	return groups[:min(len(groups), CountGroups)]
}

// CountedStates returns the states that a query allows.
func (q JobQuery) CountedStates() []job.State {
	if len(q.States) == 0 {
		return job.States
	}
	return slices.Compact(slices.Sorted(slices.Values(q.States)))
}

// NotCanceled returns the states that a query allows, without CANCELED.
func (q JobQuery) NotCanceled() []job.State {
	return slices.DeleteFunc(slices.Clone(q.CountedStates()), func(s job.State) bool { return s == job.Canceled })
}

// Place is the position of a job in a list: its time in the list's order, and its id.
type Place struct {
	At time.Time
	ID job.ID
}

// Compare orders places by an order; ties in time go by id, in the same direction.
func (o Order) Compare(a, b Place) int {
	c := cmp.Or(a.At.Compare(b.At), bytes.Compare(a.ID[:], b.ID[:]))
	if o == ByScheduledAsc || o == ByCreatedAsc {
		return c
	}
	return -c
}

// Walk is a walk in progress: it merges the results of the parts of each step.
type Walk struct {
	order Order
	limit int
	hits  []Place
	// ends are the last places of the parts that stopped early in this step.
	ends []Place
	step int
}

// NewWalk returns a walk for a page.
func NewWalk(q JobQuery, limit int) *Walk { return &Walk{order: q.Order, limit: limit} }

// Hit adds a job that a part of the step found.
func (w *Walk) Hit(p Place) { w.hits = append(w.hits, p) }

// End adds the place where a part of the step stopped early.
func (w *Walk) End(p Place) { w.ends = append(w.ends, p) }

// Step returns how many jobs each part of the present step reads.
func (w *Walk) Step() int { return WalkSteps[w.step] }

// Next ends a step. It returns where the next step begins. done: the page is complete, with
// its jobs and, if more is true, the place after which the next page begins.
func (w *Walk) Next() (after Place, page []Place, more, done bool) {
	slices.SortFunc(w.hits, w.order.Compare)
	ended := len(w.ends) > 0
	if ended {
		// What lies behind the first end is not known of all parts yet.
		after = slices.MinFunc(w.ends, w.order.Compare)
		n, _ := slices.BinarySearchFunc(w.hits, after, w.order.Compare)
		if n < len(w.hits) && w.order.Compare(w.hits[n], after) == 0 {
			n++
		}
		w.hits = w.hits[:n]
	}
	if len(w.hits) > w.limit {
		page = w.hits[:w.limit]
		return page[w.limit-1], page, true, true
	}
	w.step++
	if !ended || w.step == len(WalkSteps) || len(w.hits) == w.limit {
		return after, w.hits, ended, true
	}
	w.ends = nil
	return after, nil, false, false
}
