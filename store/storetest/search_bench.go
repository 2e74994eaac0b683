package storetest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// SearchFixture is what BenchmarkSearch expects of a store: N jobs of the project
// "default". Engines write the rows directly, as SearchRow has them.
type SearchFixture struct {
	Jobs int
	// Connections are those of the jobs: the first has one job in four, the last one in
	// 100,000, and the others share the rest.
	Connections []job.ID
	Now         time.Time
	// Ended: no job has anything left to do, so that a server can run over them.
	Ended bool
	// Read returns how many pages the database has read, out of its cache or not, and how
	// many rows and entries of indexes, if it counts them.
	Read func() (pages, rows int64)
}

// Span is the time that the jobs of a SearchFixture are spread over.
const Span = 90 * 24 * time.Hour

// SearchRow has the columns of job i as expressions that both engines understand. Of
// 10,000 jobs ten need a person, ten are SCHEDULED, one each is RETRYING, ACCEPTED and
// AMBIGUOUS, 500 have FAILED, 100 were CANCELED and 100 have EXPIRED.
var SearchRow = struct{ State, Class, ErrorKind, Key, Labels, Conn, External, Recipient string }{
	State: `(CASE WHEN i % 1000 = 0 THEN 7 WHEN i % 1000 = 1 THEN 1 WHEN i % 10000 = 2 THEN 6 WHEN i % 10000 = 3 THEN 4
		WHEN i % 10000 = 4 THEN 5 WHEN i % 20 = 11 THEN 9 WHEN i % 100 = 22 THEN 10 WHEN i % 100 = 33 THEN 11 ELSE 8 END)`,
	Class: "(CASE WHEN i % 10 = 5 THEN 3 ELSE 1 END)",
	// PERMANENT, RATE_LIMITED, AMBIGUOUS and EXHAUSTED; no job has AUTH.
	ErrorKind: `(CASE WHEN i % 20 <> 11 THEN 0 WHEN i / 20 % 10 = 0 THEN 3 WHEN i / 20 % 10 = 1 THEN 5 WHEN i / 20 % 10 = 2 THEN 7 ELSE 2 END)`,
	Key:       "'shop-' || (i % 1000) || ':order-' || i",
	// One job in four has labels: one that many have, and one of its own.
	Labels: `(CASE WHEN i % 4 = 1 THEN '{"team":"team-' || (i / 4 % 7) || '","order":"' || i || '"}' ELSE '{}' END)`,
	Conn:   "(CASE WHEN i % 100000 = 99 THEN 49 WHEN i % 4 = 0 THEN 0 ELSE 1 + i % 48 END)",
	// Of jobs that SUCCEEDED.
	External:  "(CASE WHEN i % 10 = 4 THEN 'object-' || i END)",
	Recipient: "(CASE WHEN i % 4 = 2 THEN 'user-' || (i % 100000) || '@example.com' END)",
}

// State has the state of job i.
func (f SearchFixture) State() string {
	if f.Ended {
		return "(CASE WHEN i % 20 = 11 THEN 9 WHEN i % 100 = 22 THEN 10 WHEN i % 100 = 33 THEN 11 ELSE 8 END)"
	}
	return SearchRow.State
}

// SearchJobs is the number of jobs that FIREONCE_SEARCH_JOBS asks for; 0: none.
func SearchJobs() int {
	n, _ := strconv.Atoi(os.Getenv("FIREONCE_SEARCH_JOBS"))
	return n
}

// searchReps is how often each query runs, as long as that takes less than searchTime.
const (
	searchReps = 20
	searchTime = 5 * time.Second
)

// BenchmarkSearch runs each query of a dashboard, and prints how long the answers took and
// what the database read for one.
func BenchmarkSearch(b *testing.B, s store.Store, f SearchFixture) {
	w := &searchBench{B: b, s: s, f: f}
	fmt.Fprintf(os.Stderr, "%-52s %10s %10s %8s %8s\n", "", "p50", "slowest", "pages", "rows")
	for _, q := range w.questions() {
		q.q.Project, q.q.Limit = "default", 50
		w.list(q.name, q.q)
		w.count(q.name, q.q)
	}
	for name, by := range map[string]store.GroupBy{"connection": store.ByConnection, "kind of error": store.ByErrorKind} {
		w.report("CountJobs: all, by "+name, func() (string, error) {
			c, err := s.Count(b.Context(), store.JobQuery{Project: "default"}, by)
			return fmt.Sprintf("%d groups", len(c.Groups)), err
		})
	}
	w.series("a month by hour", store.SeriesQuery{})
	w.series("a month by hour, 20 connections in one", store.SeriesQuery{Connections: f.Connections[:20]})
	w.series("a month by hour, 20 connections apart", store.SeriesQuery{Connections: f.Connections[:20], ByConnection: true})
}

type searchBench struct {
	*testing.B
	s store.Store
	f SearchFixture
}

type question struct {
	name string
	q    store.JobQuery
}

func (w *searchBench) questions() []question {
	now, day := w.f.Now, w.f.Now.Add(-24*time.Hour)
	some := w.f.Jobs/2 + 2 // has a recipient
	labeled := w.f.Jobs/4*2 + 1
	object := w.f.Jobs/200*100 + 4
	last := len(w.f.Connections) - 1
	one := func(s job.State) []job.State { return []job.State{s} }
	label := func(k, v string) map[string]string { return map[string]string{k: v} }
	return []question{
		{"all", store.JobQuery{}},
		{"all, by creation", store.JobQuery{Order: store.ByCreatedDesc}},
		{"from the middle on", store.JobQuery{AfterTime: now.Add(-Span / 2), AfterID: job.ID{1}}},
		{"state FAILED", store.JobQuery{States: one(job.Failed)}},
		{"state FAILED, by creation", store.JobQuery{States: one(job.Failed), Order: store.ByCreatedDesc}},
		{"state NEEDS_RESOLUTION", store.JobQuery{States: one(job.NeedsResolution)}},
		{"a connection of every fourth job", store.JobQuery{Connections: w.f.Connections[:1]}},
		{"a connection of one job in 100,000", store.JobQuery{Connections: w.f.Connections[last:]}},
		{"a whole key", store.JobQuery{KeyPrefix: fmt.Sprintf("shop-%d:order-%d", some%1000, some)}},
		{"a key's beginning, 1 in 1,000", store.JobQuery{KeyPrefix: "shop-7:"}},
		{"a key's beginning, all", store.JobQuery{KeyPrefix: "shop-"}},
		{"a key's beginning that no job has", store.JobQuery{KeyPrefix: "none"}},
		{"a part of a key, 1 in 10", store.JobQuery{KeyText: "7:order"}},
		{"a part of a key that no job has", store.JobQuery{KeyText: "none"}},
		{"an external id", store.JobQuery{ExternalID: fmt.Sprintf("object-%d", object)}},
		{"a recipient", store.JobQuery{Recipient: fmt.Sprintf("user-%d@example.com", some%100_000/4*4+2)}},
		{"a label of one job", store.JobQuery{Labels: label("order", strconv.Itoa(labeled))}},
		{"a label of 1 in 28", store.JobQuery{Labels: label("team", "team-3")}},
		{"a label that no job has", store.JobQuery{Labels: label("team", "none")}},
		{"two labels, of 1 in 28 and none", store.JobQuery{Labels: map[string]string{"team": "team-3", "order": "none"}}},
		{"errors of one kind, 1 in 30", store.JobQuery{ErrorKinds: []job.FailureKind{job.FailPermanent}}},
		{"errors of one kind, by creation", store.JobQuery{ErrorKinds: []job.FailureKind{job.FailPermanent}, Order: store.ByCreatedAsc}},
		{"errors of a kind that no job has", store.JobQuery{ErrorKinds: []job.FailureKind{job.FailAuth}}},
		{"a class of 1 in 10", store.JobQuery{Classes: []job.Class{job.Observable}}},
		{"a class that no job has", store.JobQuery{Classes: []job.Class{job.Handle}}},
		{"a class that no job has, by creation", store.JobQuery{Classes: []job.Class{job.Handle}, Order: store.ByCreatedDesc}},
		{"created in a day", store.JobQuery{CreatedFrom: day}},
		{"created in a day, by creation, FAILED", store.JobQuery{CreatedFrom: day, States: one(job.Failed), Order: store.ByCreatedAsc}},
		{"created before all", store.JobQuery{CreatedBefore: now.Add(-2 * Span)}},
		{"scheduled in a minute, by creation", store.JobQuery{
			ScheduleTimeFrom: day, ScheduleTimeBefore: day.Add(time.Minute), Order: store.ByCreatedDesc,
		}},
		{"scheduled before all, by creation", store.JobQuery{ScheduleTimeBefore: now.Add(-2 * Span), Order: store.ByCreatedDesc}},
		{"ended in a day", store.JobQuery{EndedFrom: day}},
		{"ended before all", store.JobQuery{EndedBefore: now.Add(-2 * Span)}},
		{"open for a day", store.JobQuery{States: one(job.NeedsResolution), InState: 24 * time.Hour}},
		{"in a state for longer than any", store.JobQuery{InState: 2 * Span}},
		{"left behind", store.JobQuery{States: one(job.Canceled), OnlyLeftBehind: true}},
	}
}

func (w *searchBench) list(name string, q store.JobQuery) {
	w.report("ListJobs: "+name, func() (string, error) {
		page, err := w.s.List(w.Context(), q)
		return fmt.Sprintf("%d jobs, more: %t", len(page.Jobs), page.More), err
	})
}

func (w *searchBench) count(name string, q store.JobQuery) {
	if q.Order.ByCreated() || !q.AfterTime.IsZero() {
		return // counts have no order
	}
	w.report("CountJobs: "+name, func() (string, error) {
		counts, err := w.s.Count(w.Context(), q, store.ByNothing)
		var sum store.StateCount
		for _, n := range counts.States {
			sum.Count, sum.Capped = sum.Count+n.Count, sum.Capped || n.Capped
		}
		return fmt.Sprintf("%d counted, capped: %t", sum.Count, sum.Capped), err
	})
}

func (w *searchBench) series(name string, q store.SeriesQuery) {
	q.Project, q.Width = "default", store.Hour
	q.From, q.Before = store.Hour.Start(w.f.Now.Add(-31*24*time.Hour)), store.Hour.Start(w.f.Now.Add(time.Hour))
	w.report("QueryStats: "+name, func() (string, error) {
		series, err := w.s.Series(w.Context(), q)
		return fmt.Sprintf("%d rows", len(series.Rows)), err
	})
}

// report runs a query repeatedly, and prints the median, the slowest, which is often the
// first, and the reads of the first.
func (w *searchBench) report(name string, ask func() (string, error)) {
	w.Helper()
	var took []time.Duration
	var result string
	pages, rows := w.f.Read()
	first := time.Now()
	for i := 0; i < searchReps && (i == 0 || time.Since(first) < searchTime); i++ {
		begun := time.Now()
		answer, err := ask()
		took = append(took, time.Since(begun))
		if err != nil {
			w.Fatalf("%s: %v", name, err)
		}
		if i == 0 {
			result = answer
			p, r := w.f.Read()
			pages, rows = p-pages, r-rows
		}
	}
	slices.Sort(took)
	// The log of a benchmark is cut off after ten lines.
	fmt.Fprintf(os.Stderr, "%-52s %10v %10v %8d %8d  %s\n", name, took[len(took)/2].Round(10*time.Microsecond),
		took[len(took)-1].Round(10*time.Microsecond), pages, rows, result)
}
