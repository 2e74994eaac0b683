package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// A target that has to be asked is asked first, even if a connection is idle and needs no
// credential.
func TestATargetIsAskedBeforeAnIdleLineIsUsed(t *testing.T) {
	c := &claims{}
	idling(t, c, func(t *testing.T, w *world) {
		asked := 0
		w.platform.probe = func() error {
			asked++
			return nil
		}
		w.start()
		id := w.submit("job")
		w.until(id, job.Succeeded, time.Minute)
		if s := w.job(id); s.Class != job.Keyed || asked != 1 {
			t.Errorf("armed as %s, after %d questions\n%s", s.Class, asked, w.story(id))
		}
	})
}

// A target that has to be asked what it can do is asked before the first arm. Its answer
// is frozen: a later attempt does not ask.
func TestATargetIsAskedWhatItCanDo(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		asked := 0
		w.platform.probe = func() error {
			if asked++; asked == 1 {
				return errors.New("not reachable")
			}
			return nil
		}
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			out := w.platform.confirm(c)
			if n == 1 {
				return unknown("connection reset")
			}
			return out
		}
		w.start()
		id := w.submit("one")
		w.until(id, job.Ambiguous, 10*time.Minute)
		if a := w.attempts(id); len(a) != 1 {
			t.Fatalf("%d attempts after a target that could not be asked", len(a))
		}
		s := w.job(id)
		if s.Class != job.Keyed || s.Failures != 1 {
			t.Errorf("class %s, %d failures; want what the target said, at its second answer", s.Class, s.Failures)
		}
		before := asked
		w.until(id, job.Succeeded, 10*time.Minute)
		if w.platform.total() != 1 || w.platform.sent() != 2 {
			t.Errorf("%d effects of %d requests", w.platform.total(), w.platform.sent())
		}
		if asked != before {
			t.Errorf("asked again for a later attempt: %d, then %d", before, asked)
		}
	})
}
