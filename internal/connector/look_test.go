package connector_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// TestUntil: the fence by the platform's clock, whose offset from the store's does not
// matter; a store whose clock was set is not believed.
func TestUntil(t *testing.T) {
	store := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	mark := store.Add(3 * time.Hour) // the platform's clock
	at := func(gap time.Duration) connector.Look {
		armed := store.Add(gap)
		return connector.Look{First: job.Attempt{ArmedAt: armed}, Fence: armed.Add(time.Minute)}
	}
	for _, gap := range []time.Duration{0, time.Second, 5 * time.Minute} {
		l := at(gap)
		if got := l.Until(mark, mark.Add(time.Hour)); !got.Equal(mark.Add(time.Minute)) {
			t.Errorf("not knowing what time it is: %v", got)
		}
		l.Now = store.Add(time.Hour)
		if got := l.Until(mark, mark.Add(time.Hour)); !got.Equal(mark.Add(gap + time.Minute)) {
			t.Errorf("uploads of %v: until %v after the watermark", gap, got.Sub(mark))
		}
		for _, set := range []time.Duration{-time.Hour, time.Hour} {
			l.Now = store.Add(time.Hour + set)
			if got := l.Until(mark, mark.Add(time.Hour)); !got.Equal(mark.Add(time.Minute)) {
				t.Errorf("a clock that was set by %v: until %v after the watermark", set, got.Sub(mark))
			}
		}
	}
}
