package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Fifty identical posts on purpose: all exist, each job bound to its own, and
// a job that waits is neither dialed for nor written about again and again.
func TestFiftyIdenticalPostsAllExist(t *testing.T) {
	for name, engines := range map[string]int{"one engine": 1, "two engines": 2} {
		t.Run(name, func(t *testing.T) {
			observable(t, func(t *testing.T, w *world) {
				w.platform.publish = func(n int, c connector.Commit) job.Outcome {
					out := w.platform.confirm(c)
					if n == 7 || n == 30 { // two answers are lost
						return unknown("connection reset")
					}
					return out
				}
				for range engines {
					w.start()
				}
				var ids []job.ID
				for i := range 50 {
					ids = append(ids, w.submit(fmt.Sprint("twin ", i), at(time.Minute)))
				}
				ended := map[string]bool{}
				var written, claims int
				for _, id := range ids {
					w.until(id, job.Succeeded, 30*time.Minute)
					ended[w.bound(id).Effect.ExternalID] = true
					written += len(w.events(id))
					claims += w.count(id, job.CauseClaimed)
				}
				// Which of two engines comes first is random: one job may be woken and
				// lose often. The sum is bounded: an end wakes one waiter of each
				// engine (three events), and a waiter that tries by itself (two events)
				// does so ever more rarely, ten times in this time.
				if most := 50*4 + 50*engines*3 + 50*10*2; written > most {
					t.Errorf("%d events, at most %d expected\n%s", written, most, w.story(ids[0]))
				}
				t.Logf("%d events, dialled %d times in %d claims", written, w.platform.opened, claims)
				if w.platform.total() != 50 || len(ended) != 50 || w.platform.sent() != 50 {
					t.Errorf("%d posts, %d bound, %d requests", w.platform.total(), len(ended), w.platform.sent())
				}
				// How often a job loses to another engine's is up to the scheduler, and each time
				// is a claim. An engine alone knows which jobs wait.
				if most := map[int]int{1: 50 * 3, 2: claims}[engines]; w.platform.opened > most {
					t.Errorf("dialled %d times, at most %d expected", w.platform.opened, most)
				}
			})
		})
	}
}

// The first job is unknown for long. The second one is written about ever more
// rarely, has the reason of its wait, and is sent within seconds of the first one's end.
func TestAWaiterIsLeftAloneAndGoesWhenItsTurnComes(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		var seen bool
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n == 1 {
				return unknown("connection reset")
			}
			return w.platform.confirm(c)
		}
		w.platform.observe = func(connector.Look) job.Observation {
			if !seen {
				return job.Observation{Verdict: job.SawInconclusive}
			}
			return job.Observation{Verdict: job.SawPresent, ExternalID: "found"}
		}
		w.start()
		first := w.submit("first")
		w.until(first, job.Ambiguous, time.Minute)
		second := w.submit("second")
		w.pass(90 * time.Minute)
		s := w.job(second)
		if s.State != job.Scheduled || s.Blocked != "waits for another job with the same content" || s.Failures != 0 {
			t.Errorf("%s, blocked %q, %d failures", s.State, s.Blocked, s.Failures)
		}
		if n := len(w.events(second)); n > 60 || w.platform.opened > 3 {
			t.Errorf("%d events, dialled %d times\n%s", n, w.platform.opened, w.story(second))
		}
		seen = true
		end := w.until(first, job.Succeeded, 10*time.Minute)
		w.until(second, job.Succeeded, 10*time.Second)
		if took := w.attempts(second)[0].ArmedAt.Sub(end.Ended); took > 6*time.Second {
			t.Errorf("armed %v after its turn had come", took)
		}
	})
}

// The first one's end is another engine's doing.
func TestAWaiterGoesWhenAnotherServerEndsTheFirst(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n == 1 {
				return unknown("connection reset")
			}
			return w.platform.confirm(c)
		}
		w.platform.observe = func(connector.Look) job.Observation {
			return job.Observation{Verdict: job.SawInconclusive}
		}
		w.start()
		first := w.submit("first")
		w.until(first, job.Ambiguous, time.Minute)
		second := w.submit("second")
		w.pass(80 * time.Minute)
		s := w.job(first)
		d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), job.Resolved{Ruling: job.RuleNotSent, Override: true})
		if err != nil {
			t.Fatal(err)
		}
		w.apply(s, d)
		w.until(second, job.Succeeded, 10*time.Second)
	})
}

// A waiter that has ended meanwhile does not block the next one.
func TestAWaiterThatWasCancelledIsStepped(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			out := w.platform.confirm(c)
			if n == 1 {
				return unknown("connection reset")
			}
			return out
		}
		w.start()
		first := w.submit("first")
		w.until(first, job.Ambiguous, time.Minute)
		second, third := w.submit("second"), w.submit("third")
		w.pass(time.Second)
		w.cancel(second)
		w.until(first, job.Succeeded, 10*time.Minute)
		w.until(third, job.Succeeded, 10*time.Second)
		if s := w.job(second); s.State != job.Canceled {
			t.Errorf("%s", s.State)
		}
	})
}

// cancel cancels a job, if it may be canceled.
func (w *world) cancel(id job.ID) {
	s := w.job(id)
	d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), job.CancelAsked{})
	if err != nil || d.Action != job.ActWrite {
		return
	}
	if _, err := w.store.Apply(w.t.Context(), []store.Change{{Job: id, Version: s.Version, Decision: d, Actor: "test"}}); err != nil {
		w.t.Error(err)
	}
}
