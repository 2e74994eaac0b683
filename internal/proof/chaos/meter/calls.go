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
	Warming Phase = iota // servers start, or attacks end; not measured
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

	mu       sync.Mutex
	phase    Phase
	took     map[string]*[phases][]time.Duration
	failures [phases]map[string]int // tries that were not answered, by what came instead
}

// NewCalls returns a meter in the phase Warming.
func NewCalls(now func() time.Time) *Calls {
	return &Calls{now: now, took: make(map[string]*[phases][]time.Duration)}
}

// Enter begins a phase.
func (c *Calls) Enter(p Phase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.phase = p
}

// Begin begins a call. The returned function ends it when it was answered. A nil Calls
// measures nothing.
func (c *Calls) Begin(kind string) (end func()) {
	if c == nil {
		return func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	begun, phase := c.now(), c.phase
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.add(kind, max(phase, c.phase), c.now().Sub(begun))
	}
}

// Add counts what took some time in the present phase.
func (c *Calls) Add(kind string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(kind, c.phase, took)
}

func (c *Calls) add(kind string, p Phase, took time.Duration) {
	if c.took[kind] == nil {
		c.took[kind] = new([phases][]time.Duration)
	}
	c.took[kind][p] = append(c.took[kind][p], took)
}

// Failed counts a try of a call that was not answered, in the present phase.
func (c *Calls) Failed(why string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failures[c.phase] == nil {
		c.failures[c.phase] = make(map[string]int)
	}
	c.failures[c.phase][why]++
}

// Failures returns how many tries were not answered in a phase, by what came instead.
func (c *Calls) Failures(p Phase) map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.failures[p])
}

// Latency is how long the calls of one kind took in one phase.
type Latency struct {
	Calls int `json:"calls"`

	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	Max time.Duration `json:"max_ns"`
}

// Kinds lists the kinds of calls that were measured.
func (c *Calls) Kinds() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.took))
}

// Latency returns the latency of one kind in one phase.
func (c *Calls) Latency(kind string, p Phase) Latency {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.took[kind] == nil || len(c.took[kind][p]) == 0 {
		return Latency{}
	}
	sorted := slices.Sorted(slices.Values(c.took[kind][p]))
	return Latency{Calls: len(sorted), P50: quantile(sorted, 50), P99: quantile(sorted, 99), Max: sorted[len(sorted)-1]}
}

// quantile returns the smallest duration that percent of all do not exceed.
func quantile(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}
