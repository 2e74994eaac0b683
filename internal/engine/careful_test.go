package engine_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// TestUnknownSettleTimesAreLong: while a connector cannot tell how long one must
// wait for the truth, nobody looks too early, and no look proves an absence.
func TestUnknownSettleTimesAreLong(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		var silent atomic.Bool
		silent.Store(true)
		w.platform.settle = func() error {
			if silent.Load() {
				return errors.New("nobody there")
			}
			return nil
		}
		var looks atomic.Int32
		w.platform.observe = func(connector.Look) job.Observation {
			looks.Add(1)
			return job.Observation{Verdict: job.SawAbsent}
		}
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n > 1 {
				return w.platform.confirm(c)
			}
			return unknown("no answer")
		}
		id := w.submit("one", says("hi"))
		w.start()
		w.until(id, job.Ambiguous, time.Minute)
		time.Sleep(time.Hour)
		if n := looks.Load(); n != 0 {
			t.Errorf("%d looks in the first hour\n%s", n, w.story(id))
		}
		time.Sleep(30 * time.Minute)
		if s := w.job(id); looks.Load() != 1 || s.State != job.Ambiguous {
			t.Errorf("%s after %d looks\n%s", s.State, looks.Load(), w.story(id))
		}
	})
}
