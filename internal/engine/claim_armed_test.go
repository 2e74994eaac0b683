package engine_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// claims is a store whose claims a test makes; arms counts the intents that were
// not written with a claim.
type claims struct {
	engine.Store
	claim func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error)
	arms  atomic.Int64
}

func (c *claims) Claim(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	if c.claim == nil {
		return c.Store.Claim(ctx, p)
	}
	return c.claim(ctx, p, c.Store)
}

func (c *claims) Arm(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	c.arms.Add(int64(len(items)))
	return c.Store.Arm(ctx, items)
}

// idling runs a test in a world whose platform has idle connections.
func idling(t *testing.T, c *claims, test func(t *testing.T, w *world), opts ...option) {
	t.Helper()
	opts = append([]option{
		through(func(s engine.Store) engine.Store {
			c.Store = s
			return c
		}),
		func(w *world) { w.platform.idle = func() bool { return true } },
		punctual,
	}, opts...)
	in(t, test, opts...)
}

// once changes the first claim that finds something: a job that was stored before the
// engine started.
func once(do func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error)) func(context.Context, store.ClaimParams, engine.Store) ([]store.Leased, error) {
	var done atomic.Bool
	return func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error) {
		due, err := s.NextDue(ctx, time.Hour)
		if err != nil || due > 0 || done.Swap(true) {
			return s.Claim(ctx, p)
		}
		return do(ctx, p, s)
	}
}

// wantOne checks that the job had its effect once, in so many attempts.
func (w *world) wantOne(id job.ID, attempts int) {
	w.t.Helper()
	w.until(id, job.Succeeded, time.Hour)
	if got := len(w.attempts(id)); got != attempts || w.platform.total() != 1 {
		w.t.Errorf("%d attempts, want %d; %d effects\n%s", got, attempts, w.platform.total(), w.story(id))
	}
}

func TestAJobIsArmedByItsClaim(t *testing.T) {
	c := &claims{}
	idling(t, c, func(t *testing.T, w *world) {
		w.start()
		for i := range 3 {
			id := w.submit(fmt.Sprint("job ", i))
			w.until(id, job.Succeeded, time.Minute)
			a := w.attempts(id)
			if e := w.events(id); len(e) != 4 || e[1].Cause != job.CauseClaimed || e[2].Cause != job.CauseArmed || !a[0].ArmedAt.Equal(a[0].ClaimedAt) {
				t.Errorf("claimed at %v, armed at %v\n%s", a[0].ClaimedAt, a[0].ArmedAt, w.story(id))
			}
		}
		w.stop()
		if w.platform.opened > 0 || c.arms.Load() > 0 || w.platform.closed != 3 || w.platform.total() != 3 {
			t.Errorf("opened %d lines, closed %d, %d arms, %d effects", w.platform.opened, w.platform.closed, c.arms.Load(), w.platform.total())
		}
	})
}

// A job without an idle connection, or not of class KEYED, is claimed first and armed then.
func TestOnlyWhatIsAtHandIsArmedByItsClaim(t *testing.T) {
	usual := func(t *testing.T, c *claims, w *world) {
		t.Helper()
		w.start()
		id := w.submit("job")
		w.wantOne(id, 1)
		if c.arms.Load() != 1 || w.platform.opened != 1 {
			t.Errorf("%d arms, %d lines", c.arms.Load(), w.platform.opened)
		}
	}
	for _, other := range []job.Class{job.Opaque, job.Observable} {
		t.Run(other.String(), func(t *testing.T) {
			c := &claims{}
			idling(t, c, func(t *testing.T, w *world) { usual(t, c, w) }, class(other))
		})
	}
	t.Run("no connection", func(t *testing.T) {
		c := &claims{}
		idling(t, c, func(t *testing.T, w *world) {
			w.platform.idle = nil
			var n int
			w.platform.prepare = func() error {
				n++
				return nil
			}
			usual(t, c, w)
			if n != 1 {
				t.Errorf("prepared %d times", n)
			}
		})
	})
	t.Run("a refused request", func(t *testing.T) {
		c := &claims{}
		idling(t, c, func(t *testing.T, w *world) {
			w.platform.prepare = func() error { return &connector.InputError{Msg: "no good"} }
			w.start()
			id := w.submit("job")
			if s := w.until(id, job.Failed, time.Minute); s.Attempt != 0 {
				t.Errorf("armed\n%s", w.story(id))
			}
		})
	})
	t.Run("a panic", func(t *testing.T) {
		c := &claims{}
		idling(t, c, func(t *testing.T, w *world) {
			var n int
			w.platform.prepare = func() error {
				if n++; n == 1 {
					panic("boom")
				}
				return nil
			}
			usual(t, c, w)
		})
	})
}

// A guard of the store refuses the intent: the job is leased, and the connection is put
// back.
func TestARefusedIntentLeavesALease(t *testing.T) {
	c := &claims{}
	c.claim = func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error) {
		intend := p.Intent
		p.Intent = func(l store.Leased) *store.Arm {
			a := intend(l)
			a.Version++
			return a
		}
		return s.Claim(ctx, p)
	}
	idling(t, c, func(t *testing.T, w *world) {
		w.start()
		id := w.submit("job")
		w.wantOne(id, 1)
		w.stop()
		if c.arms.Load() != 1 || w.platform.closed != 2 {
			t.Errorf("%d arms, %d lines closed", c.arms.Load(), w.platform.closed)
		}
	})
}

// A claim whose commit got no answer is read back: what is durable is sent, the rest
// is claimed again.
func TestAnUnconfirmedClaimIsReadBack(t *testing.T) {
	t.Run("durable", func(t *testing.T) {
		c := &claims{claim: once(func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error) {
			_, _ = s.Claim(ctx, p)
			return nil, store.ErrUnconfirmed
		})}
		idling(t, c, func(t *testing.T, w *world) {
			id := w.submit("job")
			w.start()
			w.wantOne(id, 1)
			if c.arms.Load() > 0 {
				t.Errorf("%d more arms", c.arms.Load())
			}
		})
	})
	t.Run("not durable", func(t *testing.T) {
		var w *world
		var id job.ID
		c := &claims{claim: once(func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error) {
			was, err := s.Job(ctx, store.Ref{ID: id})
			was.State, was.Version, was.ClaimToken = job.Claimed, was.Version+1, newID()
			if err != nil || p.Intent(store.Leased{Snapshot: was, Connection: w.conn}) == nil {
				w.t.Error("no intent", err)
			}
			return nil, store.ErrUnconfirmed
		})}
		idling(t, c, func(t *testing.T, made *world) {
			w = made
			id = w.submit("job")
			w.start()
			w.wantOne(id, 1)
			w.stop()
			if w.platform.closed != 2 {
				t.Errorf("%d lines closed", w.platform.closed)
			}
		})
	})
}

// The send window runs from before the claim was asked for.
func TestASlowClaimIsNotSentLate(t *testing.T) {
	t.Run("after its commit", func(t *testing.T) {
		c := &claims{claim: once(func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error) {
			out, err := s.Claim(ctx, p)
			time.Sleep(job.SendTimeout) // the bubble's time
			return out, err
		})}
		idling(t, c, func(t *testing.T, w *world) {
			id := w.submit("job")
			w.start()
			w.wantOne(id, 2)
			if a := w.attempts(id); a[0].Result != job.ResultNotSent || w.platform.sent() != 1 {
				t.Errorf("%d requests\n%s", w.platform.sent(), w.story(id))
			}
		})
	})
	// A claim that leaves little time to send does not arm: that would cost an attempt.
	t.Run("before it", func(t *testing.T) {
		c := &claims{claim: once(func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error) {
			time.Sleep(job.SendTimeout - time.Second)
			return s.Claim(ctx, p)
		})}
		idling(t, c, func(t *testing.T, w *world) {
			id := w.submit("job")
			w.start()
			w.wantOne(id, 1)
			if c.arms.Load() != 1 {
				t.Errorf("%d arms\n%s", c.arms.Load(), w.story(id))
			}
		})
	})
}

// What was armed is sent even when the engine is stopped meanwhile.
func TestAClaimThatEndsInAShutdownIsSent(t *testing.T) {
	c := &claims{claim: once(func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error) {
		out, err := s.Claim(ctx, p)
		<-ctx.Done()
		return out, err
	})}
	idling(t, c, func(t *testing.T, w *world) {
		id := w.submit("job")
		w.start()
		w.until(id, job.Sending, time.Minute)
		for _, err := range w.stop() {
			if err != nil {
				t.Error(err)
			}
		}
		w.wantOne(id, 1)
	})
}

// A claim that was not durable has no right to the job any more: a client moved it
// meanwhile, and its new time counts.
func TestALostClaimLeavesWhatCameMeanwhile(t *testing.T) {
	var w *world
	var id job.ID
	var tomorrow time.Time
	c := &claims{claim: once(func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error) {
		was, err := s.Job(ctx, store.Ref{ID: id})
		leased := was
		leased.State, leased.Version, leased.ClaimToken = job.Claimed, was.Version+1, newID()
		if err != nil || p.Intent(store.Leased{Snapshot: leased, Connection: w.conn}) == nil {
			w.t.Error("no intent", err)
		}
		tomorrow = job.Micros(time.Now().Add(24 * time.Hour))
		d, err := job.Decide(was.View(job.Traits{Class: was.Class}, 0), job.RescheduleAsked{At: tomorrow})
		if err != nil {
			w.t.Error(err)
		}
		w.apply(was, d)
		return nil, store.ErrUnconfirmed
	})}
	idling(t, c, func(t *testing.T, made *world) {
		w = made
		id = w.submit("job")
		w.start()
		w.pass(time.Hour)
		if s := w.job(id); w.platform.sent() != 0 || !s.NextAt.Equal(tomorrow) || s.Version != 2 {
			t.Errorf("%d requests, due at %v\n%s", w.platform.sent(), s.NextAt, w.story(id))
		}
	})
}

// A job that may have killed a worker is leased before it is prepared: the
// next death must count.
func TestWhatMayHaveKilledItsWorkerIsLeasedFirst(t *testing.T) {
	c := &claims{claim: once(func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error) {
		p.Intent = nil
		_, err := s.Claim(ctx, p) // no worker uses it
		return nil, err
	})}
	idling(t, c, func(t *testing.T, w *world) {
		id := w.submit("job")
		w.start()
		w.wantOne(id, 1)
		if c.arms.Load() != 1 || w.count(id, job.CauseLeaseExpired)+w.count(id, job.CauseSenderLost) != 1 {
			t.Errorf("%d arms\n%s", c.arms.Load(), w.story(id))
		}
	})
}
