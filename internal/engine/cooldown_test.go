package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// cool sets a cool-down on the connection.
func (w *world) cool(d time.Duration) {
	w.t.Helper()
	conn, err := w.store.Connection(w.t.Context(), store.Ref{Project: "default", ID: w.conn.ID})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.store.ChangeConnection(w.t.Context(), store.ConnectionChange{
		Project: "default", ID: conn.ID, Version: conn.Version, Limits: &store.ConnectionLimits{CoolDown: d},
	}); err != nil {
		w.t.Fatal(err)
	}
}

// apart fails if two requests of different jobs began within a cool-down.
func (w *world) apart(d time.Duration, ids ...job.ID) {
	w.t.Helper()
	for _, one := range ids {
		for _, other := range ids {
			for _, a := range w.attempts(one) {
				for _, b := range w.attempts(other) {
					if one != other && b.ArmedAt.Sub(a.ArmedAt).Abs() < d {
						w.t.Errorf("attempt %d of %s at %v, and %d of %s at %v", a.Number, one, a.ArmedAt, b.Number, other, b.ArmedAt)
					}
				}
			}
		}
	}
}

// A retry of the first job passes, and counts. The second job waits until the end of the
// cool-down, has that as its reason, and is sent then, with one try.
func TestACoolDownKeepsTwoJobsApart(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n == 1 {
				return job.Outcome{Result: job.ResultRejected, Kind: job.FailTransient, Message: "try again"}
			}
			return w.platform.confirm(c)
		}
		w.cool(time.Hour)
		w.start()
		first := w.submit("first")
		w.until(first, job.Retrying, time.Minute)
		second := w.submit("second")
		w.until(first, job.Succeeded, 5*time.Minute)
		s := w.job(second)
		again := w.attempts(first)[1].ArmedAt
		if s.State != job.Scheduled || s.Blocked != job.ConnectionCoolsDown || s.Attempt != 0 || s.Failures != 0 {
			t.Errorf("%s, %q, attempt %d, %d failures\n%s", s.State, s.Blocked, s.Attempt, s.Failures, w.story(second))
		}
		w.until(second, job.Succeeded, 2*time.Hour)
		if late := w.attempts(second)[0].ArmedAt.Sub(again); late < time.Hour || late > time.Hour+time.Minute {
			t.Errorf("armed %v after the retry of the first\n%s", late, w.story(second))
		}
		if len(w.events(second)) > 10 {
			t.Errorf("a job that waits is written about again and again\n%s", w.story(second))
		}
	})
}

// Two servers send jobs that are all due at the same time. A job whose start window ends
// while it waits for the cool-down is EXPIRED.
func TestJobsInACoolDownGoOneByOne(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		const cool = 30 * time.Minute
		w.cool(cool)
		w.start()
		w.start()
		var ids []job.ID
		for i := range 6 {
			ids = append(ids, w.submit(fmt.Sprint("job ", i), at(time.Minute), window(100*time.Minute)))
		}
		w.pass(4 * time.Hour)
		w.apart(cool, ids...)
		states := map[job.State]int{}
		for _, id := range ids {
			states[w.job(id).State]++
		}
		// At 1, 31, 61 and 91 minutes; the windows end at 101.
		if states[job.Succeeded] != 4 || states[job.Expired] != 2 || w.platform.total() != 4 {
			t.Errorf("%v, %d effects\n%s", states, w.platform.total(), w.story(ids[5]))
		}
	})
}

// The cool-down of a schedule applies to its own jobs, and their reason names the schedule.
func TestACoolDownOfASchedule(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		schedule := newID()
		fired := func(n *store.NewJob) { n.Spec.Schedule, n.Spec.CoolDown = schedule, time.Hour }
		w.start()
		first := w.submit("first", fired)
		w.until(first, job.Succeeded, time.Minute)
		second, other := w.submit("second", fired), w.submit("other")
		w.until(other, job.Succeeded, time.Minute)
		w.pass(time.Minute)
		if s := w.job(second); s.State != job.Scheduled || s.Blocked != job.ScheduleCoolsDown {
			t.Errorf("%s, %q\n%s", s.State, s.Blocked, w.story(second))
		}
		w.until(second, job.Succeeded, 2*time.Hour)
		w.apart(time.Hour, first, second)
	})
}

// A replay of an unknown attempt does not wait for the cool-down: it is the same effect.
func TestARepeatDoesNotWaitForACoolDown(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n == 1 {
				return unknown("connection reset")
			}
			return w.platform.confirm(c)
		}
		w.cool(time.Hour)
		w.start()
		first := w.submit("first")
		w.until(first, job.Succeeded, 10*time.Minute)
		if n := len(w.attempts(first)); n != 2 || w.platform.total() != 1 {
			t.Errorf("%d attempts, %d effects\n%s", n, w.platform.total(), w.story(first))
		}
	})
}
