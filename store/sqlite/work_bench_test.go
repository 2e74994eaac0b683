//go:build unix

package sqlite

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/store"
)

// BenchmarkWork takes stored jobs through a claim that arms and success, as the engine works
// jobs of a target that is KEYED: the outcomes of a claim come together.
func BenchmarkWork(b *testing.B) {
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
	intend := func(l store.Leased) *store.Arm {
		a := armOf(l)
		return &a
	}
	work := make(chan []store.Change, 4)
	var wg sync.WaitGroup
	b.ResetTimer()
	begun := cpuTime(b)
	for range 4 {
		wg.Go(func() {
			for changes := range work {
				if _, err := s.Apply(context.Background(), changes); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for done := 0; done < b.N; {
		got, err := s.Claim(context.Background(), store.ClaimParams{Worker: "w", Lease: time.Hour, Limit: 32, Intent: intend})
		if err != nil || len(got) == 0 || got[0].Armed == nil {
			b.Fatal(err, len(got))
		}
		changes := make([]store.Change, len(got))
		for i, l := range got {
			changes[i] = success(b, l.Armed.Snapshot)
		}
		work <- changes
		done += len(got)
	}
	close(work)
	wg.Wait()
	reportJobs(b, begun)
}
