package metrics

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Rules of this file: the guarantee is measured while it holds. Effects are those that a
// platform has answered or shown, duplicates those that were seen; a duplicate that nothing
// shows is not counted, here or anywhere.

// guarantee counts since the process began.
type guarantee struct {
	since               atomic.Int64 // in nanoseconds since 1970
	effects, duplicates atomic.Int64
}

// Guarantee is what this process has seen since it began.
type Guarantee struct {
	Since time.Time
	// Effects were proven, and Duplicates were seen.
	Effects, Duplicates int64
	// Bound95 is the upper bound, with 95 % confidence, of the share of effects that have a
	// duplicate; 1 when there is no effect yet.
	Bound95 float64
}

func (g *guarantee) begin(now time.Time) { g.since.Store(now.UnixNano()) }

func (g *guarantee) read() Guarantee {
	out := Guarantee{Since: time.Unix(0, g.since.Load()).UTC(), Duplicates: g.duplicates.Load(), Effects: g.effects.Load()}
	out.Bound95 = Bound95(out.Effects, out.Duplicates)
	return out
}

// Guarantee reads the counts.
func (m *Metrics) Guarantee() Guarantee {
	if m == nil {
		return Guarantee{Bound95: 1}
	}
	return m.guarantee.read()
}

// mostExact is how many duplicates are bounded exactly; beyond it the normal approximation
// errs by less than 1 %.
const mostExact = 1000

// Bound95 is the largest rate of duplicates that would show so few of them in so many
// effects at least once in twenty times (the exact bound of a Poisson rate; 3/n for none).
func Bound95(effects, duplicates int64) float64 {
	if effects <= 0 {
		return 1
	}
	k := max(duplicates, 0)
	high := float64(k) + 4*math.Sqrt(float64(k)+1) + 4
	if k > mostExact {
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

// atMost is the probability of at most k events where mean are expected.
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
