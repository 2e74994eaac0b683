package engine_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/litetest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlite"
)

// byWatermark is a platform whose account only a watermark names.
type byWatermark struct{ *platform }

func (p byWatermark) Check([]byte, connector.Credential) (connector.Capability, error) {
	return connector.Capability{Traits: p.traits()}, nil
}

func (byWatermark) AccountOf(string) string { return "me" }

// oneAccount makes the platform name its account with each watermark, and answer looks for
// content with what is there, late. Its answers to requests are late too.
func oneAccount(w *world) {
	registry, err := connector.NewRegistry(byWatermark{w.platform})
	if err != nil {
		w.t.Fatal(err)
	}
	w.config.Connectors = registry
	var looks atomic.Int32
	w.platform.observe = func(l connector.Look) job.Observation {
		if !l.Any {
			return w.platform.look(w.t.Context(), l)
		}
		out := job.Observation{Verdict: job.SawAbsent}
		if n := w.platform.total(); n > 0 {
			out = job.Observation{Verdict: job.SawPresent, ExternalID: w.platform.line.newest()}
		}
		// The bubble's time: the second look ends when what the first one allowed has ended.
		time.Sleep(time.Duration(looks.Add(1)) * 300 * time.Millisecond)
		return out
	}
	w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
		time.Sleep(100 * time.Millisecond) // of the bubble's time
		return w.platform.confirm(c)
	}
}

// again makes one more connection to the account.
func (w *world) again() {
	w.t.Helper()
	c := w.conn
	c.ID = newID()
	var err error
	if w.conn, _, err = w.store.CreateConnection(w.t.Context(), store.NewConnection{Key: c.ID.String(), Connection: c}); err != nil {
		w.t.Fatal(err)
	}
}

// Two identical jobs of one account make one object, whether they are of one connection or of
// two, and of one server or of two.
func TestContentOfOneAccountIsMadeOnce(t *testing.T) {
	for _, engines := range []int{1, 2} {
		for _, connections := range []int{1, 2} {
			t.Run(fmt.Sprintf("%d engines, %d connections", engines, connections), func(t *testing.T) {
				onBoth(t, func(t *testing.T, w *world) {
					oneAccount(w)
					if engines > 1 {
						w.config.Senders = 1 // so that neither takes both jobs
					}
					for range engines {
						w.start()
					}
					ids := []job.ID{w.submit("one", skips(time.Hour))}
					if connections > 1 {
						w.again()
					}
					ids = append(ids, w.submit("two", skips(time.Hour)))
					w.pass(5 * time.Minute)
					ends := map[job.State]int{}
					for _, id := range ids {
						ends[w.job(id).State]++
					}
					if w.platform.total() != 1 || ends[job.Succeeded] != 1 || ends[job.Canceled] != 1 {
						t.Errorf("%d objects, ended %v\n%s\n%s", w.platform.total(), ends, w.story(ids[0]), w.story(ids[1]))
					}
				}, class(job.Observable))
			})
		}
	}
}

// In one process identical jobs of one account look one after the other, also through two
// connections.
func TestContentIsReservedByAccount(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		oneAccount(w)
		var looking, most atomic.Int32
		observe := w.platform.observe
		w.platform.observe = func(l connector.Look) job.Observation {
			most.Store(max(most.Load(), looking.Add(1)))
			defer looking.Add(-1)
			return observe(l)
		}
		w.start()
		w.submit("one", skips(time.Hour))
		w.again()
		w.submit("two", skips(time.Hour))
		w.pass(5 * time.Minute)
		if n := most.Load(); n != 1 || w.platform.total() != 1 {
			t.Errorf("%d concurrent looks, %d objects", n, w.platform.total())
		}
	})
}

// While a job waits for its next attempt, another one makes the content. Then the first one is
// not sent again.
func TestALaterAttemptLooksForTheContent(t *testing.T) {
	for name, first := range map[string]job.Outcome{
		"refused": {Result: job.ResultRejected, Kind: job.FailTransient}, "lost": unknown("connection reset"),
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *world) {
				oneAccount(w)
				w.platform.publish = func(n int, c connector.Commit) job.Outcome {
					if n == 1 {
						return first
					}
					return w.platform.confirm(c)
				}
				w.start()
				a := w.submit("one", skips(time.Hour))
				w.until(a, job.Retrying, 10*time.Minute)
				w.again()
				b := w.submit("two", skips(time.Hour))
				w.until(b, job.Succeeded, time.Minute)
				s := w.until(a, job.Canceled, 10*time.Minute)
				if w.platform.total() != 1 || s.LastError.Kind != job.FailAlreadyPresent || s.Effect != nil || s.Attempt != 1 {
					t.Errorf("%d objects, %+v, effect %+v\n%s", w.platform.total(), s.LastError, s.Effect, w.story(a))
				}
			}, class(job.Observable))
		})
	}
}

// An object that may be the effect of an earlier attempt is never called another's. A look
// before the arm sees it as what it is.
func TestAnOwnEffectIsNotAlreadyPresent(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		oneAccount(w)
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			w.platform.commit(c.EffectKey)
			return unknown("connection reset")
		}
		observe, behind := w.platform.observe, true
		w.platform.observe = func(l connector.Look) job.Observation {
			switch {
			case l.Any && l.Now.IsZero():
				return job.Observation{Verdict: job.SawAbsent} // none is so old
			case l.Any && w.platform.sent() > 0:
				behind = false // between the two looks before the second arm
			case !l.Any && behind:
				return job.Observation{Verdict: job.SawAbsent}
			}
			return observe(l)
		}
		w.start()
		id := w.submit("one", skips(time.Hour))
		s := w.until(id, job.Succeeded, time.Hour)
		if w.platform.total() != 1 || w.platform.sent() != 1 || s.Effect.Proof != job.ProofObserved || s.Attempt != 1 {
			t.Errorf("%d objects, %d requests, effect %+v\n%s", w.platform.total(), w.platform.sent(), s.Effect, w.story(id))
		}
	})
}

// What was there long before the first arm, and is seen only now, is no effect of the job.
func TestOlderContentEndsALaterAttempt(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		oneAccount(w)
		w.platform.publish = func(int, connector.Commit) job.Outcome { return rejected(job.FailTransient, 503) }
		w.platform.observe = func(l connector.Look) job.Observation {
			if !l.Any || w.platform.sent() == 0 {
				return job.Observation{Verdict: job.SawAbsent}
			}
			return job.Observation{Verdict: job.SawPresent, ExternalID: "old"}
		}
		w.start()
		id := w.submit("one", skips(time.Hour))
		s := w.until(id, job.Canceled, 10*time.Minute)
		if s.LastError.Kind != job.FailAlreadyPresent || w.platform.sent() != 1 {
			t.Errorf("%+v, %d requests\n%s", s.LastError, w.platform.sent(), w.story(id))
		}
	})
}

// An object that a person has ruled on does not stop the attempt that they want.
func TestCandidatesOfAPersonsResendDoNotStopIt(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		oneAccount(w)
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n == 1 {
				return unknown("connection reset")
			}
			return w.platform.confirm(c)
		}
		w.platform.observe = func(l connector.Look) job.Observation {
			switch {
			case w.platform.sent() == 0, l.Any && l.Now.IsZero():
				return job.Observation{Verdict: job.SawAbsent}
			case l.Any:
				return job.Observation{Verdict: job.SawPresent, ExternalID: "one of several"}
			default:
				return job.Observation{Verdict: job.SawCandidates}
			}
		}
		w.start()
		id := w.submit("one", skips(time.Hour))
		s := w.until(id, job.NeedsResolution, time.Hour)
		d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), job.Resolved{Ruling: job.RuleResend, Actor: "me"})
		if err != nil {
			t.Fatal(err)
		}
		w.apply(s, d)
		w.until(id, job.Succeeded, time.Hour)
	})
}

// reset is a clock that an outage leaves behind. It is not known how long that lasted, so the time
// of an arm before it is not known well either.
type reset struct {
	ahead  time.Duration
	booted time.Time
}

func (r *reset) read() store.ClockReading {
	now := time.Now()
	return store.ClockReading{Wall: now.Add(r.ahead).UnixMicro(), Boot: now.Sub(r.booted), Proof: "it is synchronized"}
}

func (r *reset) open(t *testing.T, path string) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{
		Path: path, WatchEvery: time.Hour, Readers: 2, Clock: store.ClockOptions{Read: r.read},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// within reports whether a look is about what was made at a time, by the platform's clock.
func within(t *testing.T, l connector.Look, made time.Time) bool {
	t.Helper()
	mark, err := time.Parse(time.RFC3339Nano, l.First.Watermark)
	if err != nil {
		t.Error(err)
	}
	return !made.IsZero() && !made.Before(mark) && !made.After(l.Until(mark, time.Now()))
}

// An own effect does not become older than its arm by what a clock shows after an outage: the
// platform's clock decides.
func TestAnOwnEffectIsNotAlreadyPresentAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &reset{ahead: time.Hour, booted: time.Now().Add(-24 * time.Hour)}
		path := litetest.New(t)
		w := worldOver(t, clock.open(t, path), class(job.Observable))
		defer func() {
			w.stop()
			_ = w.store.Close()
		}()
		oneAccount(w)
		w.platform.mark = func() (string, error) { return time.Now().Format(time.RFC3339Nano), nil }
		w.platform.backdate = func(mark string, by time.Duration) (string, error) {
			at, err := time.Parse(time.RFC3339Nano, mark)
			return at.Add(-by).Format(time.RFC3339Nano), err
		}
		var made time.Time
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			made = time.Now()
			w.platform.commit(c.EffectKey)
			return unknown("connection reset")
		}
		shown := false
		w.platform.observe = func(l connector.Look) job.Observation {
			if !within(t, l, made) || !l.Any && !shown {
				return job.Observation{Verdict: job.SawAbsent}
			}
			shown = true // late, to a look before the second arm
			return job.Observation{Verdict: job.SawPresent, ExternalID: w.platform.line.newest()}
		}
		w.start()
		id := w.submit("one", skips(2*time.Hour))
		w.until(id, job.Retrying, time.Hour)
		w.stop()
		if err := w.store.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Minute) // of the bubble's time
		clock.ahead, clock.booted = 0, time.Now()
		w.store = clock.open(t, path)
		w.config.Store = newPatient(w.store)
		w.start()
		w.until(id, job.Succeeded, 3*time.Hour)
		if w.platform.total() != 1 || w.platform.sent() != 1 || !shown {
			t.Errorf("%d objects, %d requests\n%s", w.platform.total(), w.platform.sent(), w.story(id))
		}
	})
}
