package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/fireonce/fireonce/store"
)

// rollJobs is how many jobs a measured roll counts.
const rollJobs = 12_000

// BenchmarkRoll measures how many events a second a store counts, without the pauses
// between steps: of one connection and of 600, in the smallest steps and in the largest.
// open returns an empty store on the real clock, another one with each call.
func BenchmarkRoll(b *testing.B, open func(b *testing.B) store.Store) {
	for _, conns := range []int{1, 600} {
		for _, size := range []int{1, store.MaxRollSize} {
			b.Run(fmt.Sprintf("conns=%d/size=%d", conns, size), func(b *testing.B) {
				w := &bench{B: b, s: open(b)}
				var list []store.Connection
				for range conns {
					list = append(list, w.connect())
				}
				for range b.N {
					w.fill(rollJobs, list...)
					w.roll(size)
				}
				b.ReportMetric(float64(b.N*rollJobs)/w.rolling.Seconds(), "events/s")
				b.ReportMetric(float64(w.longest.Milliseconds()), "longest-ms")
			})
		}
	}
}

// roll counts all events that are not counted yet.
func (w *bench) roll(size int) {
	w.Helper()
	for more := true; more; {
		begun := time.Now()
		r, err := w.s.Roll(w.Context(), store.RollParams{Owner: roller, Lease: lease, Size: size})
		w.must(err)
		took := time.Since(begun)
		w.rolling, w.longest, more = w.rolling+took, max(w.longest, took), r.More
	}
}
