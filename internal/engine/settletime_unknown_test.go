package engine_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// TestUnknownSettleTimesAreLong: while a connector cannot say its settle times, no look is
// made too early, and none proves an absence.
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

// TestAnotherClassIsNotLessCareful: a job was sent to an OBSERVABLE target, which is then
// said to dedupe. The connection has no settle times any more, and one look proves nothing.
func TestAnotherClassIsNotLessCareful(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		looked := job.Traits{Class: job.Observable, ReadLag: 10 * time.Second, Negatives: 2, Spacing: time.Minute}
		var dedupes atomic.Bool
		w.platform.told = func() job.Traits {
			if dedupes.Load() {
				return job.Traits{Class: job.Keyed, KeyWindow: time.Hour}
			}
			return looked
		}
		w.platform.observe = func(connector.Look) job.Observation { return job.Observation{Verdict: job.SawAbsent} }
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n > 1 {
				return w.platform.confirm(c)
			}
			return unknown("no answer")
		}
		id := w.submit("one", says("hi"))
		w.start()
		w.until(id, job.Ambiguous, time.Minute)
		dedupes.Store(true)
		time.Sleep(time.Hour)
		if s := w.job(id); s.State != job.Ambiguous || s.Class != job.Observable || s.Attempt != 1 {
			t.Errorf("%s, attempt %d\n%s", s.State, s.Attempt, w.story(id))
		}
		dedupes.Store(false) // the setting is restored, and with it the proof
		w.until(id, job.Succeeded, 3*time.Hour)
		if s := w.job(id); s.Attempt != 2 {
			t.Errorf("attempt %d\n%s", s.Attempt, w.story(id))
		}
	})
}
