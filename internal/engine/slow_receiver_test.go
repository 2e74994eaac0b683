package engine_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// ended is an unknown outcome of an exchange that the target itself ended.
func ended(why string) job.Outcome {
	out := unknown(why)
	out.PeerEnded = true
	return out
}

// slowReceiver has the platform look for the key as a request arrives, act after a while, and
// store the key then. The first request ends on our side with out; a later one is handled
// immediately. It returns the count of effects.
func slowReceiver(w *world, handling time.Duration, out job.Outcome) *atomic.Int64 {
	var effects atomic.Int64
	w.platform.publish = func(n int, c connector.Commit) job.Outcome {
		if n == 1 {
			time.AfterFunc(handling, func() { effects.Add(1) })
			if !out.PeerEnded {
				time.Sleep(time.Until(c.AnswerBy))
			}
			return out
		}
		effects.CompareAndSwap(0, 1)
		return job.Outcome{Result: job.ResultSucceeded}
	}
	return &effects
}

// A receiver that is slower than the answer timeout, and stores the key after its effect, is
// not asked again while it works. It is asked soon if it has ended the request itself.
func TestASlowReceiverIsNotAskedAgainWhileItWorks(t *testing.T) {
	handled := func(d time.Duration) option {
		return func(w *world) {
			w.platform.told = func() job.Traits {
				return job.Traits{Class: job.Keyed, KeyWindow: 24 * time.Hour, MaxHandling: d}
			}
		}
	}
	for name, c := range map[string]struct {
		stated, handling time.Duration
		out              job.Outcome
		effects          int
		least, most      time.Duration
	}{
		"our deadline":                     {0, 33 * time.Second, unknown("no answer"), 1, 90 * time.Second, 93 * time.Second},
		"a handling time beyond the fence": {0, 100 * time.Second, unknown("no answer"), 2, 90 * time.Second, 93 * time.Second},
		"a handling time that is stated":   {2 * time.Minute, 100 * time.Second, unknown("no answer"), 1, 190 * time.Second, 193 * time.Second},
		"the receiver's own end":           {0, 0, ended("500 Internal Server Error"), 1, time.Second, 5 * time.Second},
		"its own end with a handling time": {2 * time.Minute, 0, ended("500 Internal Server Error"), 1, time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *world) {
				effects := slowReceiver(w, c.handling, c.out)
				w.start()
				id := w.submit("slow")
				w.until(id, job.Succeeded, 10*time.Minute)
				w.pass(3 * time.Minute) // what the receiver still does
				attempts := w.attempts(id)
				if len(attempts) != 2 || int(effects.Load()) != c.effects {
					t.Fatalf("%d attempts, %d effects\n%s", len(attempts), effects.Load(), w.story(id))
				}
				if gone := attempts[1].ArmedAt.Sub(attempts[0].ArmedAt); gone < c.least || gone > c.most {
					t.Errorf("repeated after %v, not %v to %v\n%s", gone, c.least, c.most, w.story(id))
				}
			}, handled(c.stated))
		})
	}
}
