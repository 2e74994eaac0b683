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

// SearchFixture says what BenchmarkSearch expects of a store: N jobs of the project
// "default", number i of them one minute's Nth older than number i+1. Engines write the
// rows directly.
type SearchFixture struct {
	// Jobs is how many there are; one in a thousand is open, one in twenty failed.
	Jobs int
	// Connections are those of the jobs, in turn.
	Connections []job.ID
	Now         time.Time
}

// SearchJobs is the number of jobs that FIREONCE_SEARCH_JOBS asks for; 0: none.
func SearchJobs() int {
	n, _ := strconv.Atoi(os.Getenv("FIREONCE_SEARCH_JOBS"))
	return n
}

// searchReps is how often each question is asked.
const searchReps = 20

// BenchmarkSearch asks each question of a dashboard, and prints how long the answers took.
func BenchmarkSearch(b *testing.B, s store.Store, f SearchFixture) {
	q := func(edit func(q *store.JobQuery)) store.JobQuery {
		q := store.JobQuery{Project: "default", Limit: 50}
		edit(&q)
		return q
	}
	day := f.Now.Add(-24 * time.Hour)
	queries := []struct {
		name string
		q    store.JobQuery
	}{
		{"all", q(func(*store.JobQuery) {})},
		{"state FAILED", q(func(q *store.JobQuery) { q.States = []job.State{job.Failed} })},
		{"state NEEDS_RESOLUTION", q(func(q *store.JobQuery) { q.States = []job.State{job.NeedsResolution} })},
		{"one connection of 50", q(func(q *store.JobQuery) { q.Connections = f.Connections[:1] })},
		{"a whole key", q(func(q *store.JobQuery) { q.KeyPrefix = "shop-7:order-7" })},
		{"a key's beginning, 1 in 1,000", q(func(q *store.JobQuery) { q.KeyPrefix = "shop-7:" })},
		{"a part of a key, of one job", q(func(q *store.JobQuery) { q.KeyText = "order-123456" })},
		{"an external id", q(func(q *store.JobQuery) { q.ExternalID = "object-20" })},
		{"a recipient", q(func(q *store.JobQuery) { q.Recipient = "user-20@example.com" })},
		{"errors of one kind, 1 in 20", q(func(q *store.JobQuery) { q.ErrorKinds = []job.FailureKind{job.FailPermanent} })},
		{"errors of a kind that no job has", q(func(q *store.JobQuery) { q.ErrorKinds = []job.FailureKind{job.FailAuth} })},
		{"a class that no job has", q(func(q *store.JobQuery) { q.Classes = []job.Class{job.Handle} })},
		{"created in a day", q(func(q *store.JobQuery) { q.CreatedFrom = day })},
		{"ended in a day", q(func(q *store.JobQuery) { q.EndedFrom = day })},
		{"open, for a day in its state", q(func(q *store.JobQuery) {
			q.States, q.InState = []job.State{job.NeedsResolution}, 24*time.Hour
		})},
	}
	var page store.JobPage
	var counts store.JobCounts
	for _, tt := range queries {
		report(b, "ListJobs: "+tt.name, func() (err error) {
			page, err = s.List(b.Context(), tt.q)
			return err
		}, func() string { return fmt.Sprintf("%d jobs, more: %t", len(page.Jobs), page.More) })
		report(b, "CountJobs: "+tt.name, func() (err error) {
			counts, err = s.Count(b.Context(), tt.q, store.ByNothing)
			return err
		}, func() string {
			var sum store.StateCount
			for _, n := range counts.States {
				sum.Count, sum.Capped = sum.Count+n.Count, sum.Capped || n.Capped
			}
			return fmt.Sprintf("%d counted, capped: %t", sum.Count, sum.Capped)
		})
	}
	month := store.SeriesQuery{Project: "default", Width: store.Hour, From: store.Hour.Start(f.Now.Add(-31 * 24 * time.Hour)), Before: store.Hour.Start(f.Now.Add(time.Hour))}
	var series store.Series
	rows := func() string { return fmt.Sprintf("%d rows", len(series.Rows)) }
	ask := func(q store.SeriesQuery) func() error {
		return func() (err error) {
			series, err = s.Series(b.Context(), q)
			return err
		}
	}
	report(b, "QueryStats: a month by hour", ask(month), rows)
	month.Connections, month.ByConnection = f.Connections[:20], true
	report(b, "QueryStats: a month by hour, 20 connections apart", ask(month), rows)
}

// report asks again and again, and prints the median and the slowest.
func report(b *testing.B, name string, ask func() error, result func() string) {
	b.Helper()
	var took []time.Duration
	for range searchReps {
		begun := time.Now()
		if err := ask(); err != nil {
			b.Fatalf("%s: %v", name, err)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	// The log of a benchmark is cut off after ten lines.
	fmt.Fprintf(os.Stderr, "%-60s p50 %10v  p99 %10v  %s\n", name, took[len(took)/2].Round(10*time.Microsecond),
		took[len(took)*99/100].Round(10*time.Microsecond), result())
}
