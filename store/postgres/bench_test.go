//go:build unix

package postgres

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
)

func openBench(b *testing.B) store.Store {
	b.Helper()
	s, err := Open(b.Context(), Options{URL: pgtest.NewFrom(b, Migrate), Migrate: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// BenchmarkHeld measures what 100,000 due jobs of a held connection cost the others.
func BenchmarkHeld(b *testing.B) { storetest.BenchmarkHeld(b, openBench) }

// BenchmarkRoll measures how fast the event log is counted.
func BenchmarkRoll(b *testing.B) { storetest.BenchmarkRoll(b, openBench) }

// benchFleet is one server on the real clock, with connections without bounds.
func benchFleet(b *testing.B) *fleet {
	return newFleetApart(b, 1, func(o *Options) { o.Now, o.MaxInFlight = nil, 1<<30 })
}

// BenchmarkSubmit stores jobs one by one from 64 concurrent callers.
func BenchmarkSubmit(b *testing.B) {
	f := benchFleet(b)
	conn, s := f.connect(), f.stores[0]
	items := make([]store.NewJob, b.N)
	for i := range items {
		items[i] = newSpec(conn)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				out, err := s.Create(context.Background(), items[i-1:i])
				if err != nil || !out[0].Created {
					b.Error(err, out)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkSubmitAlone stores jobs one after the other.
func BenchmarkSubmitAlone(b *testing.B) {
	f := benchFleet(b)
	conn, s := f.connect(), f.stores[0]
	took := make([]time.Duration, b.N)
	for i := range took {
		items := []store.NewJob{newSpec(conn)}
		begun := time.Now()
		out, err := s.Create(context.Background(), items)
		if took[i] = time.Since(begun); err != nil || !out[0].Created {
			b.Fatal(err, out)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[b.N/10].Microseconds()), "µs-p10")
	b.ReportMetric(float64(took[b.N/2].Microseconds()), "µs-p50")
}

// BenchmarkStart stores jobs one after the other that are sent as they are stored.
func BenchmarkStart(b *testing.B) {
	f := benchFleet(b)
	conn, s := f.connect(), f.stores[0]
	took := make([]time.Duration, b.N)
	for i := range took {
		begun := time.Now()
		c, err := startOf(s, conn)
		if took[i] = time.Since(begun); err != nil || c.Started == nil {
			b.Fatal(err, c)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[b.N/10].Microseconds()), "µs-p10")
	b.ReportMetric(float64(took[b.N/2].Microseconds()), "µs-p50")
}

// BenchmarkClaimArmApply takes stored jobs through claim, arm and success: a
// claimer and 64 senders, as the engine has them.
func BenchmarkClaimArmApply(b *testing.B) {
	f := benchFleet(b)
	conn, s := f.connect(), f.stores[0]
	for done := 0; done < b.N; done += store.MaxBatch {
		f.submit(min(b.N-done, store.MaxBatch), conn)
	}
	work := make(chan store.Leased, 256)
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		wg.Go(func() {
			// After an error the channel is still emptied, or the claimer would wait.
			for l := range work {
				a, err := armOne(s, intentOf(l))
				if err == nil {
					_, err = apply(s, a.Snapshot, answerOf(a.Snapshot, job.ResultSucceeded))
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	for done := 0; done < b.N; {
		got, err := s.Claim(context.Background(), store.ClaimParams{Worker: "w", Lease: time.Hour, Limit: 64})
		if err != nil {
			b.Fatal(err)
		}
		for _, l := range got {
			work <- l
		}
		done += len(got)
	}
	close(work)
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkPathClaimAndArm measures what arming with the claim saves.
func BenchmarkPathClaimAndArm(b *testing.B) { storetest.BenchmarkPathClaimAndArm(b, 1.4, openBench) }

// BenchmarkPathSuccess measures what the one statement for common successes saves.
func BenchmarkPathSuccess(b *testing.B) { storetest.BenchmarkPathSuccess(b, 1.2, openBench) }
