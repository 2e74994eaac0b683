// Package fastpath decides whether a second way through the code earns its keep. A fast path is
// a special case beside the general way, which could do the same: it stays only as long as its
// benchmark, which compares the two, does not fail. `make bench-paths` runs all of them.
package fastpath

import (
	"slices"
	"testing"
	"time"
)

// rounds is how often each way is measured. They take turns, so that whatever else the
// machine does meets both.
const rounds = 15

// Worth fails a benchmark whose general way takes less than least times as long as the fast
// one: then the fast path is not worth its lines. Each function does the same work; the ratio
// of their medians is reported.
func Worth(b *testing.B, least float64, fast, general func(round int)) {
	b.Helper()
	var took [2][]time.Duration
	for round := range rounds {
		for way, do := range []func(int){fast, general} {
			begin := time.Now()
			do(round)
			took[way] = append(took[way], time.Since(begin))
		}
	}
	for way := range took {
		slices.Sort(took[way])
	}
	ratio := float64(took[1][rounds/2]) / float64(took[0][rounds/2])
	b.ReportMetric(0, "ns/op") // the loop of b is not used
	b.ReportMetric(float64(took[0][rounds/2].Microseconds()), "fast-µs")
	b.ReportMetric(ratio, "general/fast")
	if ratio < least {
		b.Errorf("the general way takes %.2f times as long as the fast path, which is to be %.2f at least: delete the fast path", ratio, least)
	}
}
