package engine

// measure has the engine's saturation read at scrapes.
func (e *Engine) measure() {
	for _, s := range []struct {
		name, help string
		slots      slots
	}{
		{"senders", "jobs that are prepared or sent", e.senders},
		{"places", "jobs that are claimed and whose outcome is not stored", e.places},
		{"lookers", "looks, polls and repeats under way", e.lookers},
	} {
		e.Metrics.Gauge(s.name+"_busy", "Of "+s.name+"_limit: "+s.help+" now.", nil, func() float64 { return float64(len(s.slots)) })
		e.Metrics.Gauge(s.name+"_limit", "At most so many "+s.help+" at a time.", nil, func() float64 { return float64(cap(s.slots)) })
	}
}
