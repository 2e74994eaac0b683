package engine_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// A job whose first request was lost looks once more before its second, just
// while its twin's post is there and the twin's answer is not. It must not take
// the post: two are wanted.
func TestALookBeforeALaterArmDoesNotTakeATwinsPost(t *testing.T) {
	for name, engines := range map[string]int{"one engine": 1, "two engines": 2} {
		t.Run(name, func(t *testing.T) {
			observable(t, func(t *testing.T, w *world) {
				w.platform.publish = func(n int, c connector.Commit) job.Outcome {
					if n == 1 {
						return unknown("connection reset") // lost on its way
					}
					out := w.platform.confirm(c)
					if n == 2 { // the twin, whose answer takes its time
						time.Sleep(20 * time.Second)
					}
					return out
				}
				for range engines {
					w.start()
				}
				a := w.submit("lost")
				s := w.until(a, job.Retrying, 10*time.Minute)
				b := w.submit("twin", at(s.NextAt.Sub(s.Now)-time.Second))
				w.until(b, job.Succeeded, 5*time.Minute)
				w.until(a, job.Succeeded, 10*time.Minute)
				w.pass(time.Minute)
				one, two := w.bound(a), w.bound(b)
				if w.platform.total() != 2 || one.Effect.ExternalID == two.Effect.ExternalID {
					t.Errorf("%d posts\n%s\n%s", w.platform.total(), w.story(a), w.story(b))
				}
				if n := w.count(a, job.CauseDuplicateEffect) + w.count(b, job.CauseDuplicateEffect) + w.count(a, job.CauseEffectShared) + w.count(b, job.CauseEffectShared); n > 0 {
					t.Errorf("%d alarms", n)
				}
			})
		})
	}
}

// A job that waits behind another one with the same content gets another content.
// Then it waits for no other job.
func TestAWaiterWithNewContentDoesNotWait(t *testing.T) {
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
		first := w.submit("first", says("same"))
		w.until(first, job.Ambiguous, time.Minute)
		second := w.submit("second", says("same"))
		w.pass(time.Second)
		w.update(second, "other")
		s := w.until(second, job.Succeeded, time.Minute)
		if s.Effect == nil || w.platform.postOf(s.Effect.ExternalID).text != "other" {
			t.Errorf("%+v", s.Effect)
		}
	})
}

// A job without a start window has the default one, and waits for a twin with the same
// growing pauses.
func TestAWaiterWithTheDefaultWindowIsLeftAlone(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.publish = func(int, connector.Commit) job.Outcome { return unknown("connection reset") }
		w.platform.observe = func(connector.Look) job.Observation {
			return job.Observation{Verdict: job.SawInconclusive}
		}
		w.start()
		first := w.submit("first")
		w.until(first, job.Ambiguous, time.Minute)
		second := w.submit("second", window(0))
		w.pass(100 * time.Minute)
		if n := len(w.events(second)); n > 70 {
			t.Errorf("%d events of a job that waits", n)
		}
	})
}

// A job that is moved to tomorrow while it waits for a twin starts tomorrow.
func TestAWaiterThatIsMovedKeepsItsTime(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			w.platform.commit(c.EffectKey)
			return unknown("connection reset")
		}
		w.start()
		first := w.submit("first")
		w.until(first, job.Ambiguous, time.Minute)
		second := w.submit("second")
		w.pass(time.Second)
		tomorrow := job.Micros(time.Now().Add(24 * time.Hour))
		s := w.job(second)
		d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), job.RescheduleAsked{At: tomorrow})
		if err != nil {
			t.Fatal(err)
		}
		w.apply(s, d)
		w.until(first, job.Succeeded, 10*time.Minute)
		w.pass(time.Hour)
		if w.platform.sent() != 1 || !w.job(second).NextAt.Equal(tomorrow) {
			t.Errorf("%d requests, due at %v\n%s", w.platform.sent(), w.job(second).NextAt, w.story(second))
		}
	})
}

// update changes the text of a waiting job.
func (w *world) update(id job.ID, text string) {
	w.t.Helper()
	s := w.job(id)
	d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), job.UpdateAsked{})
	if err != nil {
		w.t.Fatal(err)
	}
	applied, err := w.store.Apply(w.t.Context(), []store.Change{{
		Job: s.ID, Version: s.Version, Decision: d, Actor: "test",
		Content: &store.Content{Payload: []byte(text), HoldKey: s.HoldKey},
	}})
	if err != nil || applied[0].Err != nil {
		w.t.Fatal(err, applied)
	}
}
