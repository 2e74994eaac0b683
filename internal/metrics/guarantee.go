package metrics

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Rules of this file: only observations count. An effect counts if a platform has confirmed it
// or a look has found it, and a duplicate counts if it was seen. A duplicate without any sign
// of it cannot be counted.

// guarantee counts since the process began.
type guarantee struct {
	since               atomic.Int64 // in nanoseconds since the Unix epoch
	effects, duplicates atomic.Int64
}

// Guarantee holds what this process has observed since it started.
type Guarantee struct {
	Since time.Time
	// Effects counts proven effects, and Duplicates the duplicates that were seen.
	Effects, Duplicates int64
	// Bound95 is the upper bound, with 95 % confidence, of the share of effects that have a
	// duplicate; 1 if there is no effect yet.
	Bound95 float64
}

func (g *guarantee) begin(now time.Time) { g.since.Store(now.UnixNano()) }

func (g *guarantee) read() Guarantee {
	out := Guarantee{Since: time.Unix(0, g.since.Load()).UTC(), Duplicates: g.duplicates.Load(), Effects: g.effects.Load()}
	out.Bound95 = Bound95(out.Effects, out.Duplicates)
	return out
}

// Guarantee returns the present counts.
func (m *Metrics) Guarantee() Guarantee {
	if m == nil {
		return Guarantee{Bound95: 1}
	}
	return m.guarantee.read()
}

// maxExact is the largest number of duplicates for which the bound is computed exactly. Above
// it the normal approximation errs by less than 1 %.
const maxExact = 1000

// Bound95 returns the exact upper bound of a Poisson rate with 95 % confidence: a larger rate
// of duplicates would show so few of them in so many effects less than once in twenty times. It
// is about 3/n if none was seen.
func Bound95(effects, duplicates int64) float64 {
	if effects <= 0 {
		return 1
	}
	k := max(duplicates, 0)
	high := float64(k) + 4*math.Sqrt(float64(k)+1) + 4
	if k > maxExact {
		const z = 1.6449
		return min(1, (float64(k)+1+z*math.Sqrt(float64(k)+1))/float64(effects))
	}
	low := 0.0
	for range 60 {
		if mid := (low + high) / 2; atMost(k, mid) > 0.05 {
			low = mid
		} else {
			high = mid
		}
	}
	return min(1, high/float64(effects))
}

// atMost returns the probability of at most k events if mean are expected.
func atMost(k int64, mean float64) float64 {
	sum := 0.0
	for i := range k + 1 {
		gamma, _ := math.Lgamma(float64(i) + 1)
		sum += math.Exp(float64(i)*math.Log(mean) - mean - gamma)
	}
	return sum
}

var boundDesc = prometheus.NewDesc("fireonce_duplicate_rate_bound95",
	"Upper bound, with 95 % confidence, of the share of effects with a duplicate, from what this process has seen since its start.", nil, nil)

// Describe implements prometheus.Collector.
func (*guarantee) Describe(ch chan<- *prometheus.Desc) { ch <- boundDesc }

// Collect implements prometheus.Collector.
func (g *guarantee) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(boundDesc, prometheus.GaugeValue, g.read().Bound95)
}
