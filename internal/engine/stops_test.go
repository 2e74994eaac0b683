package engine_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// stopAll makes a stop, and returns what ends it.
func (w *world) stopAll(s store.Stop) (end func()) {
	w.t.Helper()
	s.ID, s.Cause = newID(), store.StoppedByPerson
	if _, _, err := w.store.CreateStop(w.t.Context(), store.NewStop{Stop: s}); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		w.t.Helper()
		if _, err := w.store.EndStop(w.t.Context(), "", s.ID, "test"); err != nil {
			w.t.Fatal(err)
		}
	}
}

// A stopped job makes no request to its target, keeps what it may cost, and goes on within seconds of
// the end.
func TestAStoppedJobIsLeftAlone(t *testing.T) {
	for name, s := range map[string]store.Stop{
		"everything": {Scope: store.StopEverything},
		"a label":    {Scope: store.StopLabel, Project: "default", Label: "team", Value: "red"},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *world) {
				end := w.stopAll(s)
				w.start()
				id := w.submit("stopped", func(n *store.NewJob) { n.Spec.Labels = map[string]string{"team": "red"} })
				w.pass(time.Hour)
				if w.platform.opened > 0 || w.platform.sent() > 0 {
					t.Errorf("prepared %d times and sent %d times under a stop", w.platform.opened, w.platform.sent())
				}
				if n := len(w.events(id)); n > 30 {
					t.Errorf("%d events in an hour", n)
				}
				end()
				if got := w.until(id, job.Succeeded, 30*time.Second); got.Failures != 0 || got.Attempt != 1 || w.platform.sent() != 1 {
					t.Errorf("%d failures, %d attempts, sent %d times", got.Failures, got.Attempt, w.platform.sent())
				}
			})
		})
	}
}

// A repeat under a key waits for the end of a stop, without a request, and then goes before a first
// attempt.
func TestAStoppedRepeatGoesFirst(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		var sent []string
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			if len(sent) == 0 {
				sent = append(sent, "lost")
				return unknown("reset")
			}
			sent = append(sent, "again")
			return job.Outcome{Result: job.ResultSucceeded, Message: "done"}
		}
		w.start()
		repeat := w.submit("repeat")
		w.until(repeat, job.Ambiguous, time.Minute)
		end := w.stopAll(store.Stop{Scope: store.StopEverything})
		opened := w.platform.opened
		first := w.submit("first")
		w.pass(30 * time.Minute)
		if w.platform.opened != opened || len(sent) != 1 {
			t.Errorf("prepared %d times, sent %v under a stop", w.platform.opened-opened, sent)
		}
		end()
		w.until(first, job.Succeeded, time.Minute)
		if got := w.job(repeat); got.State != job.Succeeded || !got.Updated.Before(w.job(first).Updated) {
			t.Errorf("the repeat is %s at %v, the first attempt at %v\n%s", got.State, got.Updated, w.job(first).Updated, w.story(repeat))
		}
	})
}

// An announced stop begins and ends by itself.
func TestAWindowStopsAndEnds(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		now := time.Now()
		w.stopAll(store.Stop{Scope: store.StopProject, Project: "default", Begin: now.Add(time.Minute), End: now.Add(time.Hour)})
		w.start()
		w.until(w.submit("before"), job.Succeeded, 30*time.Second)
		w.pass(2 * time.Minute)
		in := w.submit("in")
		w.pass(30 * time.Minute)
		if w.platform.sent() != 1 {
			t.Errorf("sent %d times in the window", w.platform.sent())
		}
		w.until(in, job.Succeeded, 30*time.Minute)
		if at := w.job(in).Updated; at.Before(now.Add(time.Hour)) || at.After(now.Add(time.Hour+time.Minute)) {
			t.Errorf("sent at %v, the window ended at %v", at, now.Add(time.Hour))
		}
	})
}
