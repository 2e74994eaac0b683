package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// breakers makes engines that open a breaker after three tries.
func breakers(w *world) { w.config.BreakAfter, w.config.BreakWithin = 3, 10*time.Minute }

func ofClass(c job.Class) option {
	return func(w *world) { w.platform.class = c }
}

// breaker returns the breaker of the jobs' destination; nil: it is closed.
func (w *world) breaker() *store.Stop {
	w.t.Helper()
	over, err := w.store.StopsOver(w.t.Context(), []store.StopTarget{{Project: w.conn.Project, Connection: w.conn.ID, HoldKey: "account"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return over[0]
}

// untilBreaker lets time pass until the breaker is open, or closed.
func (w *world) untilBreaker(open bool, limit time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(limit); (w.breaker() != nil) != open; w.pass(time.Second) {
		if time.Now().After(end) {
			w.t.Fatalf("open is not %v after %v", open, limit)
		}
	}
}

func (w *world) submitAll(n int, changes ...change) []job.ID {
	var ids []job.ID
	for i := range n {
		ids = append(ids, w.submit(fmt.Sprint("job ", i), changes...))
	}
	return ids
}

var refusedDial = &connector.Refusal{Kind: job.FailTransient, Msg: "no connection: refused", Down: true}

func unavailable() job.Outcome {
	return job.Outcome{Result: job.ResultUnknown, Kind: job.FailAmbiguous, HTTPStatus: 503, Message: "503", Down: true, PeerEnded: true}
}

// While a destination is ill, its jobs are tried by one probe at a time, ever more rarely. They all
// go on when one succeeds.
func TestABreakerOpensAndCloses(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		var ill atomic.Bool
		ill.Store(true)
		w.platform.open = func(int) error {
			if ill.Load() {
				return refusedDial
			}
			return nil
		}
		w.start()
		w.start()
		ids := w.submitAll(20)
		w.untilBreaker(true, 10*time.Minute)
		opened, begun := w.platform.opened, w.breaker().Begin
		w.pass(time.Hour)
		probes := w.platform.opened - opened
		if b := w.breaker(); b == nil || b.Probes < 50 || b.Probes > 65 || probes < b.Probes || probes > b.Probes+20 || !b.Begin.Equal(begun) {
			t.Fatalf("after an hour: %d connections, %+v", probes, b)
		}
		if w.platform.sent() > 0 {
			t.Errorf("sent %d requests", w.platform.sent())
		}
		ill.Store(false)
		w.untilBreaker(false, 11*time.Minute)
		for _, id := range ids {
			w.until(id, job.Succeeded, 2*time.Hour)
		}
		if w.platform.sent() != len(ids) {
			t.Errorf("sent %d requests for %d jobs", w.platform.sent(), len(ids))
		}
	}, breakers)
}

// What a destination answers about one job, its account or its rate does not open a breaker, and
// neither does one job alone, or a try that succeeds between.
func TestWhatOpensNoBreaker(t *testing.T) {
	for name, c := range map[string]struct {
		jobs int
		out  func(n int) job.Outcome
	}{
		"a refusal":   {10, func(int) job.Outcome { return rejected(job.FailPermanent, 404) }},
		"for now":     {10, func(int) job.Outcome { return rejected(job.FailTransient, 425) }},
		"the account": {10, func(int) job.Outcome { return rejected(job.FailAuth, 401) }},
		"a rate limit": {10, func(int) job.Outcome {
			o := rejected(job.FailRateLimited, 503)
			o.Down = true
			o.RetryAfter = time.Second
			return o
		}},
		"a 404 in doubt": {10, func(int) job.Outcome { o := unknown("404"); o.HTTPStatus = 404; return o }},
		"one job alone":  {1, func(int) job.Outcome { return unavailable() }},
		"a success between": {10, func(n int) job.Outcome {
			if n%2 == 0 {
				return job.Outcome{Result: job.ResultSucceeded, Message: "done"}
			}
			return unavailable()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.config.Senders, w.config.Lookers = 1, 1
				w.platform.publish = func(n int, _ connector.Commit) job.Outcome { return c.out(n) }
				w.start()
				w.submitAll(c.jobs, trying(10*time.Minute))
				for range 60 {
					w.pass(10 * time.Second)
					if b := w.breaker(); b != nil {
						t.Fatalf("opened: %+v", b)
					}
				}
			}, breakers)
		})
	}
}

// No job whose outcome would need a person is a probe: only a connection is opened for it. One that
// cannot be opened costs no attempt that was armed.
func TestAProbeThatIsOpaqueSendsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		var ill atomic.Bool
		var sent atomic.Int64
		w.platform.open = func(int) error {
			if ill.Load() {
				return refusedDial
			}
			return nil
		}
		w.platform.publish = func(int, connector.Commit) job.Outcome {
			if sent.Add(1) <= 3 {
				return unavailable()
			}
			return job.Outcome{Result: job.ResultSucceeded, Message: "done"}
		}
		w.start()
		w.config.Senders = 1
		first := w.submitAll(3)
		w.untilBreaker(true, time.Minute)
		ill.Store(true)
		late := []job.ID{w.submit("late 1"), w.submit("late 2")}
		w.pass(10 * time.Minute)
		if sent.Load() != 3 || w.breaker() == nil || w.breaker().Probes == 0 {
			t.Fatalf("sent %d, breaker %+v", sent.Load(), w.breaker())
		}
		ill.Store(false)
		w.untilBreaker(false, 11*time.Minute)
		for _, id := range late {
			w.until(id, job.Succeeded, 2*time.Hour)
		}
		if sent.Load() != 5 {
			t.Errorf("sent %d", sent.Load())
		}
		for _, id := range first {
			if got := w.job(id).State; got != job.NeedsResolution {
				t.Errorf("a job that was sent is %s", got)
			}
		}
	}, breakers, ofClass(job.Opaque))
}

// After the connection alone was tried, the first try that fails opens the breaker again.
func TestABreakerThatClosedOnTrialOpensAtOnce(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var sent atomic.Int64
		w.platform.publish = func(int, connector.Commit) job.Outcome { sent.Add(1); return unavailable() }
		w.config.Senders = 1
		w.start()
		w.submitAll(20, window(8*time.Hour))
		w.untilBreaker(true, time.Minute)
		w.pass(2 * time.Hour)
		b := w.breaker()
		if b == nil || b.Probes < 4 || sent.Load() > 3+12+4 {
			t.Fatalf("sent %d in two hours, breaker %+v", sent.Load(), b)
		}
	}, breakers, ofClass(job.Opaque))
}

// A repeat under a key is the probe, and goes before first attempts.
func TestARepeatIsTheProbe(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var ill atomic.Bool
		ill.Store(true)
		var keys []string
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			keys = append(keys, c.EffectKey)
			if ill.Load() {
				return unavailable()
			}
			return w.platform.confirm(c)
		}
		w.config.Senders, w.config.Lookers = 1, 1
		w.start()
		ids := w.submitAll(3)
		w.untilBreaker(true, time.Minute)
		w.submit("first 1", at(time.Second))
		w.submit("first 2", at(time.Second))
		w.pass(2 * time.Minute) // until a repeat is due
		sent := len(keys)
		w.pass(20 * time.Minute)
		for n, key := range keys {
			if n >= sent && !slices.Contains(keys[:n], key) {
				t.Error("the probe was a first attempt")
			}
		}
		if len(keys) == sent {
			t.Error("no probe")
		}
		ill.Store(false)
		w.untilBreaker(false, 11*time.Minute)
		for _, id := range ids {
			w.until(id, job.Succeeded, time.Hour)
		}
	}, breakers, punctual)
}

// A server that dies while its job is the probe leaves the breaker to others.
func TestAProbeOfADeadServer(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		var ill, hang atomic.Bool
		ill.Store(true)
		held := make(chan struct{})
		w.platform.open = func(int) error {
			if hang.Load() {
				<-held
				return errors.New("gone")
			}
			if ill.Load() {
				return refusedDial
			}
			return nil
		}
		w.start()
		ids := w.submitAll(6)
		w.untilBreaker(true, 10*time.Minute)
		hang.Store(true)
		for w.breaker().Prober.IsZero() {
			w.pass(time.Second)
		}
		hang.Store(false)
		ill.Store(false)
		w.untilBreaker(false, 5*time.Minute)
		close(held)
		for _, id := range ids {
			w.until(id, job.Succeeded, time.Hour)
		}
	}, breakers)
}
