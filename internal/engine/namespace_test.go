package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// A round keeps the effect key of its first attempt, also where recover has given the
// installation another namespace since; a job that begins then has a key of that one.
func TestARoundKeepsItsEffectKeyInAnotherNamespace(t *testing.T) {
	keep := func(t *testing.T, w *world) {
		w.config.Namespace = "old"
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n == 1 {
				return rejected(job.FailPermanent, 400)
			}
			return w.platform.confirm(c)
		}
		w.start()
		id := w.submit("job")
		w.until(id, job.Failed, time.Minute)
		first := w.attempts(id)[0].EffectKey
		w.stop()
		w.config.Namespace = "new"
		w.start()
		other := w.submit("other")
		w.until(other, job.Succeeded, time.Minute)
		s := w.job(id)
		d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), job.RetryAsked{})
		if err != nil {
			t.Fatal(err)
		}
		w.apply(s, d)
		w.until(id, job.Succeeded, time.Hour)
		a := w.attempts(id)
		if len(a) != 2 || a[1].EffectKey != first || first != job.EffectKey("old", "default", "job", 1) {
			t.Errorf("armed under %q, and then %q in %d attempts", first, a[len(a)-1].EffectKey, len(a))
		}
		if got := w.attempts(other)[0].EffectKey; got != job.EffectKey("new", "default", "other", 1) {
			t.Errorf("another job is armed under %q", got)
		}
	}
	inEach(t, keep)
	t.Run("with idle lines", func(t *testing.T) { idling(t, &claims{}, keep) })
}

// unread is a store whose attempts cannot be read.
type unread struct{ engine.Store }

func (unread) Attempts(context.Context, store.Ref, int, int) ([]job.Attempt, error) {
	return nil, store.ErrUnavailable
}

// A retry of a KEYED job has what it needs from the row that is claimed.
func TestAKeyedRetryReadsNoAttempts(t *testing.T) {
	retried := func(t *testing.T, w *world) {
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n == 1 {
				return rejected(job.FailTransient, 503)
			}
			return w.platform.confirm(c)
		}
		w.start()
		id := w.submit("job")
		w.until(id, job.Succeeded, time.Hour)
		if a := w.attempts(id); len(a) != 2 || a[0].EffectKey != a[1].EffectKey {
			t.Errorf("attempts %+v", a)
		}
	}
	in(t, retried, through(func(s engine.Store) engine.Store { return unread{s} }))
	c := &claims{}
	idling(t, c, retried)
	if n := c.arms.Load(); n != 0 {
		t.Errorf("%d intents were not written with their claims", n)
	}
}
