package engine_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

func digest(b []byte) []byte { d := sha256.Sum256(b); return d[:] }

// A proven failure before the arm is retried by the table and costs nothing else.
func TestAnUnreachableTargetIsRetriedByTheTable(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.platform.open = func(int) error {
			return &connector.Refusal{Kind: job.FailTransient, Msg: "connection refused"}
		}
		w.start()
		id := w.submit("down", window(24*time.Hour))
		s := w.until(id, job.Failed, 3*time.Hour)
		if s.Attempt != 0 || s.Failures != 5 || s.LastError.Kind != job.FailExhausted {
			t.Errorf("attempt %d, failures %d, %+v", s.Attempt, s.Failures, s.LastError)
		}
		if w.platform.opened != 5 {
			t.Errorf("opened %d times", w.platform.opened)
		}
	})
}

func TestPanicsAreContained(t *testing.T) {
	t.Run("before the arm", func(t *testing.T) {
		in(t, func(t *testing.T, w *world) {
			w.platform.open = func(n int) error {
				if n == 1 {
					panic("boom")
				}
				return nil
			}
			w.start()
			id := w.submit("panic")
			s := w.until(id, job.Succeeded, time.Hour)
			if s.Failures != 1 || w.platform.total() != 1 {
				t.Errorf("failures %d, effects %d", s.Failures, w.platform.total())
			}
		})
	})
	t.Run("after the arm", func(t *testing.T) {
		in(t, func(t *testing.T, w *world) {
			w.platform.publish = func(n int, c connector.Commit) job.Outcome {
				w.platform.commit(c.EffectKey)
				panic("boom")
			}
			w.start()
			id := w.submit("panic")
			w.until(id, job.NeedsResolution, time.Hour)
			if w.platform.sent() != 1 {
				t.Errorf("%d requests", w.platform.sent())
			}
		}, class(job.Opaque))
	})
	t.Run("while looking", func(t *testing.T) {
		in(t, func(t *testing.T, w *world) {
			w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
				w.platform.commit(c.EffectKey)
				return unknown("lost")
			}
			first := true
			w.platform.observe = func(connector.Look) job.Observation {
				if first {
					first = false
					panic("boom")
				}
				return job.Observation{Verdict: job.SawPresent, ExternalID: "x"}
			}
			w.start()
			w.until(w.submit("panic"), job.Succeeded, time.Hour)
		}, class(job.Observable))
	})
}

// broken is a store that panics as it writes.
type broken struct {
	engine.Store
	why error
}

func (b broken) Apply(context.Context, []store.Change) ([]store.Applied, error) { panic(b.why) }

func TestAPanicWhileSettlingIsNotHidden(t *testing.T) {
	boom := errors.New("boom")
	in(t, func(t *testing.T, w *world) {
		w.submit("panic")
		leased, err := w.store.Claim(t.Context(), store.ClaimParams{Worker: "test", Lease: time.Minute, Limit: 1})
		if err != nil || len(leased) != 1 {
			t.Fatal(len(leased), err)
		}
		e, err := engine.New(w.config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if p, _ := recover().(error); !errors.Is(p, boom) {
				t.Errorf("panic %v, want %v", p, boom)
			}
		}()
		e.Settle(&leased[0], job.Deferred{Kind: job.FailHeld, RetryAfter: time.Second})
	}, through(func(s engine.Store) engine.Store { return broken{s, boom} }))
}

// lossy is a store that loses answers.
type lossy struct {
	engine.Store
	armErr, applyErr atomic.Int32 // how many further calls are written and then answered ErrUnconfirmed
	refuseArm        atomic.Int32 // how many further arms fail without being written
	blindReads       atomic.Int32 // how many further read-backs fail
	armTakes         time.Duration
}

func (l *lossy) Arm(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	if l.refuseArm.Add(-1) >= 0 {
		return nil, store.ErrUnconfirmed
	}
	time.Sleep(l.armTakes)
	out, err := l.Store.Arm(ctx, items)
	if l.armErr.Add(-1) >= 0 {
		return nil, store.ErrUnconfirmed
	}
	return out, err
}

func (l *lossy) ArmedBy(ctx context.Context, id, token job.ID) (store.Armed, error) {
	if l.blindReads.Add(-1) >= 0 {
		return store.Armed{}, store.ErrUnavailable
	}
	return l.Store.ArmedBy(ctx, id, token)
}

func (l *lossy) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	out, err := l.Store.Apply(ctx, items)
	if l.applyErr.Add(-1) >= 0 {
		return nil, store.ErrUnconfirmed
	}
	return out, err
}

func losing(l *lossy) option {
	return through(func(s engine.Store) engine.Store { l.Store = s; return l })
}

func TestAnUnconfirmedArmIsReadBack(t *testing.T) {
	t.Run("it was durable", func(t *testing.T) {
		l := &lossy{}
		l.armErr.Store(1)
		in(t, func(t *testing.T, w *world) {
			w.start()
			id := w.submit("read-back")
			s := w.until(id, job.Succeeded, time.Minute)
			if s.Attempt != 1 || w.platform.sent() != 1 {
				t.Errorf("attempt %d, %d requests", s.Attempt, w.platform.sent())
			}
		}, losing(l))
	})
	t.Run("it was not", func(t *testing.T) {
		l := &lossy{}
		l.refuseArm.Store(1)
		in(t, func(t *testing.T, w *world) {
			w.start()
			id := w.submit("read-back")
			s := w.until(id, job.Succeeded, 5*time.Minute)
			if s.Attempt != 1 || w.platform.sent() != 1 {
				t.Errorf("attempt %d, %d requests\n%s", s.Attempt, w.platform.sent(), w.story(id))
			}
		}, losing(l))
	})
	t.Run("unknown until the window is over: nothing is sent", func(t *testing.T) {
		l := &lossy{}
		l.armErr.Store(1)
		l.blindReads.Store(105) // past the send window
		in(t, func(t *testing.T, w *world) {
			w.start()
			id := w.submit("read-back")
			w.until(id, job.Succeeded, 10*time.Minute)
			a := w.attempts(id)
			if len(a) != 2 || a[0].Result != job.ResultNotSent || w.platform.sent() != 1 {
				t.Errorf("%d attempts, first %s, %d requests\n%s", len(a), a[0].Result, w.platform.sent(), w.story(id))
			}
		}, losing(l), class(job.Opaque))
	})
}

func TestAnUnconfirmedOutcomeIsSettledOnce(t *testing.T) {
	l := &lossy{}
	in(t, func(t *testing.T, w *world) {
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			l.applyErr.Store(1)
			w.platform.commit(c.EffectKey)
			return job.Outcome{Result: job.ResultSucceeded}
		}
		w.start()
		id := w.submit("settle")
		w.until(id, job.Succeeded, time.Minute)
		w.pass(time.Hour)
		if ev := w.events(id); len(ev) != 4 || w.platform.total() != 1 {
			t.Errorf("%d events, %d effects\n%s", len(ev), w.platform.total(), w.story(id))
		}
	}, losing(l))
}

// skewed is a clock whose boot time jumps: the machine slept after the arm.
type skewed struct{ jump atomic.Int64 }

func (s *skewed) Read() engine.Reading {
	r := wallClock{}.Read()
	r.Boot += time.Duration(s.jump.Load())
	return r
}

func TestAMachineThatSleptBetweenArmAndSendSendsNothing(t *testing.T) {
	clock := &skewed{}
	l := &lossy{}
	in(t, func(t *testing.T, w *world) {
		slept := false
		w.config.Store = sleepy{w.config.Store, func() {
			if !slept {
				slept = true
				clock.jump.Store(int64(time.Hour))
			}
		}}
		w.start()
		id := w.submit("slept")
		w.until(id, job.Succeeded, time.Hour)
		a := w.attempts(id)
		if len(a) != 2 || a[0].Result != job.ResultNotSent || w.platform.sent() != 1 {
			t.Errorf("%d attempts, first %s, %d requests", len(a), a[0].Result, w.platform.sent())
		}
	}, losing(l), func(w *world) { w.config.Clock = clock }, class(job.Opaque))
}

type sleepy struct {
	engine.Store
	afterArm func()
}

func (s sleepy) Arm(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	out, err := s.Store.Arm(ctx, items)
	s.afterArm()
	return out, err
}

func TestARejectedReplayLeavesTheOutcomeOpen(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			switch n {
			case 1:
				w.platform.commit(c.EffectKey)
				return unknown("reset")
			case 2:
				return rejected(job.FailPermanent, 400)
			default:
				return job.Outcome{Result: job.ResultSucceeded}
			}
		}
		w.start()
		id := w.submit("replay")
		s := w.until(id, job.Succeeded, time.Hour)
		if s.Effect.Proof != job.ProofKeyReplay || w.platform.sent() != 3 {
			t.Errorf("proof %s, %d requests\n%s", s.Effect.Proof, w.platform.sent(), w.story(id))
		}
	})
}

func TestARateLimitHoldsTheTargetAndCostsNoFailure(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.platform.publish = func(n int, c connector.Commit) job.Outcome {
			if n == 1 {
				return job.Outcome{Result: job.ResultRejected, Kind: job.FailRateLimited, RetryAfter: 10 * time.Minute, Message: "slow down"}
			}
			w.platform.commit(c.EffectKey)
			return job.Outcome{Result: job.ResultSucceeded}
		}
		w.start()
		first := w.submit("first")
		w.until(first, job.Retrying, time.Minute)
		second := w.submit("second")
		w.pass(9 * time.Minute)
		if w.platform.sent() != 1 {
			t.Errorf("%d requests while the target is held", w.platform.sent())
		}
		s := w.until(first, job.Succeeded, 5*time.Minute)
		w.until(second, job.Succeeded, 5*time.Minute)
		if s.Failures != 0 {
			t.Errorf("failures %d", s.Failures)
		}
	})
}

func TestAShutdownGivesClaimsBackAndFinishesSends(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		started := make(chan struct{})
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			close(started)
			time.Sleep(20 * time.Second)
			w.platform.commit(c.EffectKey)
			return job.Outcome{Result: job.ResultSucceeded}
		}
		w.start()
		id := w.submit("draining")
		<-started
		for _, err := range w.stop() {
			if err != nil {
				t.Error(err)
			}
		}
		if s := w.job(id); s.State != job.Succeeded {
			t.Errorf("%s after a graceful stop", s.State)
		}
	})
	in(t, func(t *testing.T, w *world) {
		inOpen := make(chan struct{})
		held := w.platform.hold()
		w.platform.open = func(int) error { close(inOpen); <-held; return nil }
		w.start()
		id := w.submit("unarmed")
		<-inOpen
		w.stop()
		if s := w.job(id); s.State != job.Scheduled || s.Failures != 0 || s.Claims != 0 {
			t.Errorf("%s, %d failures, %d claims", s.State, s.Failures, s.Claims)
		}
		if w.platform.sent() != 0 {
			t.Error("sent after the stop")
		}
	})
}

func TestTwoEnginesOnOneStoreSendOnce(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.start()
		w.start()
		var ids []job.ID
		for i := range 200 {
			ids = append(ids, w.submit("job-"+string(rune('a'+i%26))+time.Duration(i).String(), at(time.Second)))
		}
		for _, id := range ids {
			w.until(id, job.Succeeded, time.Minute)
		}
		if w.platform.sent() != 200 || w.platform.total() != 200 {
			t.Errorf("%d requests, %d effects", w.platform.sent(), w.platform.total())
		}
	})
}

func TestNoEngineWithoutItsParts(t *testing.T) {
	if _, err := engine.New(engine.Config{}); err == nil {
		t.Error("made of nothing")
	}
}

// forgetful is a store whose leases cannot be renewed.
type forgetful struct{ engine.Store }

func (forgetful) Renew(context.Context, time.Duration, []store.LeaseRef) ([]bool, error) {
	return nil, store.ErrUnavailable
}
