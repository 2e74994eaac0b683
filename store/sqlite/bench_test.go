//go:build unix

package sqlite

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
)

// newBenchJob has an id and a key as a server makes them, which rise: their places in the
// tables matter here.
func newBenchJob(conn store.Connection) store.NewJob {
	n := newJob(conn)
	n.Spec.ID = job.ID(uuid.Must(uuid.NewV7()))
	n.Spec.Key = n.Spec.ID.String()
	return n
}

// BenchmarkSubmit stores jobs one by one from 64 concurrent callers.
func BenchmarkSubmit(b *testing.B) {
	s := mustOpen(b, Options{Path: testPath(b)})
	conn := mustConnect(b, s)
	items := make([]store.NewJob, b.N)
	for i := range items {
		items[i] = newBenchJob(conn)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	begun := cpuTime(b)
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
	reportJobs(b, begun)
}

// BenchmarkClaimArmApply takes stored jobs through claim, arm and success: a
// claimer and 64 senders, as the engine has them.
func BenchmarkClaimArmApply(b *testing.B) {
	s := mustOpen(b, Options{Path: testPath(b), MaxInFlight: 1 << 30})
	conn := mustConnect(b, s)
	for done := 0; done < b.N; {
		n := min(b.N-done, store.MaxBatch)
		items := make([]store.NewJob, n)
		for i := range items {
			items[i] = newBenchJob(conn)
		}
		mustCreate(b, s, items...)
		done += n
	}
	work := make(chan store.Leased, 256)
	var wg sync.WaitGroup
	b.ResetTimer()
	begun := cpuTime(b)
	for range 64 {
		wg.Go(func() {
			// After an error the channel is still emptied, or the claimer would wait.
			for l := range work {
				if err := armAndApply(b, s, l); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for done := 0; done < b.N; {
		got, err := s.Claim(context.Background(), store.ClaimParams{Worker: "w", Lease: time.Hour, Limit: 64})
		if err != nil || len(got) == 0 {
			b.Fatal(err, len(got))
		}
		for _, l := range got {
			work <- l
		}
		done += len(got)
	}
	close(work)
	wg.Wait()
	reportJobs(b, begun)
}

func armAndApply(b *testing.B, s *Store, l store.Leased) error {
	a, err := s.Arm(context.Background(), []store.Arm{armOf(l)})
	if err != nil {
		return err
	}
	if a[0].Err != nil {
		return a[0].Err
	}
	out, err := s.Apply(context.Background(), []store.Change{success(b, a[0].Snapshot)})
	if err != nil {
		return err
	}
	return out[0].Err
}

// BenchmarkHeld measures what a held backlog costs a claim.
func BenchmarkHeld(b *testing.B) {
	storetest.BenchmarkHeld(b, func(b *testing.B) store.Store { return mustOpen(b, Options{Path: testPath(b)}) })
}

// BenchmarkRoll measures how fast the event log is counted.
func BenchmarkRoll(b *testing.B) {
	storetest.BenchmarkRoll(b, func(b *testing.B) store.Store { return mustOpen(b, Options{Path: testPath(b)}) })
}

// BenchmarkPathClaimAndArm measures what arming with the claim saves.
func BenchmarkPathClaimAndArm(b *testing.B) {
	storetest.BenchmarkPathClaimAndArm(b, 1.1, func(b *testing.B) store.Store { return mustOpen(b, Options{Path: testPath(b)}) })
}
