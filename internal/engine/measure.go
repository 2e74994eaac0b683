package engine

import "sync/atomic"

// measure begins the counters of the connectors, and has the engine's saturation read at
// scrapes.
func (e *Engine) measure() {
	e.Metrics.Expect(e.Connectors.Names()...)
	for _, s := range []struct {
		name, help string
		busy       *atomic.Int64
		limit      int
	}{
		{"senders", "jobs that are prepared or sent", &e.sending, cap(e.senders)},
		{"places", "jobs that are claimed and whose outcome is not stored", &e.placed, cap(e.places)},
		{"lookers", "looks, polls and repeats under way", &e.looking, cap(e.lookers)},
	} {
		e.Metrics.Gauge(s.name+"_busy", "Of "+s.name+"_limit: "+s.help+" now.", nil, func() float64 { return float64(s.busy.Load()) })
		e.Metrics.Gauge(s.name+"_limit", "At most so many "+s.help+" at a time.", nil, func() float64 { return float64(s.limit) })
	}
}
