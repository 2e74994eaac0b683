// Package meter measures what a soak's clients and servers show: how long calls take in
// each phase, and how much memory each server process holds.
package meter

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Phase is a part of a soak.
type Phase int

// The phases. A call that spans two counts for the later of them in this list, so that a
// fault never counts as a calm time.
const (
	Warming Phase = iota // servers start; not measured
	Quiet                // honest clients alone
	Calm                 // honest and hostile clients
	Storm                // honest and hostile clients, and faults
	phases
)

// String names a phase.
func (p Phase) String() string {
	return [...]string{Warming: "warming", Quiet: "quiet", Calm: "calm", Storm: "storm"}[p]
}

// Calls measures how long calls take, by kind and phase. It is safe for concurrent use.
type Calls struct {
	now func() time.Time

	mu    sync.Mutex
	phase Phase
	kinds map[string]*[phases]tally
}

// tally is the calls of one kind in one phase.
type tally struct {
	took   []time.Duration
	failed int
}

// NewCalls returns a meter in the phase Warming.
func NewCalls(now func() time.Time) *Calls {
	return &Calls{now: now, kinds: make(map[string]*[phases]tally)}
}

// Enter begins a phase.
func (c *Calls) Enter(p Phase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase = p
}

// Begin begins a call. The returned function ends it; failed is how many tries of it were
// not answered. A nil Calls measures nothing.
func (c *Calls) Begin(kind string) (end func(failed int)) {
	if c == nil {
		return func(int) {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	begun, phase := c.now(), c.phase
	return func(failed int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.add(kind, max(phase, c.phase), c.now().Sub(begun), failed)
	}
}

// Add counts what took some time in the present phase.
func (c *Calls) Add(kind string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(kind, c.phase, took, 0)
}

func (c *Calls) add(kind string, p Phase, took time.Duration, failed int) {
	if c.kinds[kind] == nil {
		c.kinds[kind] = new([phases]tally)
	}
	t := &c.kinds[kind][p]
	t.took = append(t.took, took)
	t.failed += failed
}

// Latency is how long the calls of one kind took in one phase.
type Latency struct {
	Calls  int `json:"calls"`
	Failed int `json:"failed_tries"`

	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	Max time.Duration `json:"max_ns"`
}

// Kinds lists the kinds of calls that were measured.
func (c *Calls) Kinds() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.kinds))
}

// Latency returns the latency of one kind in one phase.
func (c *Calls) Latency(kind string, p Phase) Latency {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds[kind] == nil {
		return Latency{}
	}
	t := c.kinds[kind][p]
	if len(t.took) == 0 {
		return Latency{}
	}
	sorted := slices.Sorted(slices.Values(t.took))
	return Latency{
		Calls: len(sorted), Failed: t.failed, P50: quantile(sorted, 50), P99: quantile(sorted, 99), Max: sorted[len(sorted)-1],
	}
}

// quantile returns the smallest duration that percent of all do not exceed.
func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}
