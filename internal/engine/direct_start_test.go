package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// creating is a store whose answers to Create a test makes.
type creating struct {
	store.Store
	answer func(out []store.Created, err error) ([]store.Created, error)
	asked  atomic.Int64 // jobs that were to be started
}

func (c *creating) Create(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	for _, n := range items {
		if n.Start != nil {
			c.asked.Add(1)
		}
	}
	out, err := c.Store.Create(ctx, items)
	if c.answer != nil {
		return c.answer(out, err)
	}
	return out, err
}

// post submits a job that may start directly.
func (w *world) post(s store.Jobs, key string, changes ...change) (job.ID, error) {
	w.t.Helper()
	n := store.NewJob{Class: w.conn.Class, Actor: "test", Spec: job.Spec{
		ID: newID(), Project: "default", Key: key, Connection: w.conn.ID, HoldKey: "account",
		PayloadKind: "scripted", Payload: []byte("hello"), StartWindow: job.DefaultWindow, Delivery: job.OnceOrAsk,
	}}
	for _, c := range changes {
		c(&n)
	}
	created, err := s.Create(w.t.Context(), []store.NewJob{n})
	if err == nil && created[0].Err != nil {
		w.t.Error(created[0].Err)
	}
	return n.Spec.ID, err
}

// startDirect starts an engine with a direct start.
func (w *world) startDirect(c *creating) store.Jobs {
	w.t.Helper()
	e, err := engine.New(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{stop: cancel, done: make(chan error, 1)}
	go func() { r.done <- e.Run(ctx) }()
	w.running = append(w.running, r)
	synctest.Wait()
	c.Store = w.store
	return e.DirectStart(c)
}

// A job that is due now is claimed and armed by the commit that stores it. A job that is
// due later, or is submitted with others, is found by a claim.
func TestADueJobIsStartedAsItIsStored(t *testing.T) {
	for name, warm := range map[string]bool{"an idle connection": true, "none": false} {
		t.Run(name, func(t *testing.T) {
			found := &claims{}
			var claimed atomic.Int64
			found.claim = func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error) {
				out, err := s.Claim(ctx, p)
				claimed.Add(int64(len(out)))
				return out, err
			}
			idling(t, found, func(t *testing.T, w *world) {
				w.platform.idle = func() bool { return warm }
				c := &creating{}
				s := w.startDirect(c)
				id, err := w.post(s, "now")
				if err != nil {
					t.Fatal(err)
				}
				w.wantOne(id, 1)
				a, e := w.attempts(id), w.events(id)
				if claimed.Load() > 0 || c.asked.Load() != 1 || len(e) != 4 || !e[1].At.Equal(e[0].At) {
					t.Errorf("%d claimed, %d asked\n%s", claimed.Load(), c.asked.Load(), w.story(id))
				}
				if want := int64(1); warm && (found.arms.Load() > 0 || !a[0].ArmedAt.Equal(e[0].At)) || !warm && found.arms.Load() != want {
					t.Errorf("%d arms\n%s", found.arms.Load(), w.story(id))
				}
				if again, err := w.post(s, "now"); err != nil || w.platform.sent() != 1 {
					t.Errorf("the same key again: %v, %v, %d requests", again, err, w.platform.sent())
				}
				later, err := w.post(s, "later", at(time.Minute))
				if err != nil {
					t.Fatal(err)
				}
				w.until(later, job.Succeeded, time.Hour)
				if claimed.Load() != 1 || c.asked.Load() != 2 {
					t.Errorf("%d claimed, %d asked", claimed.Load(), c.asked.Load())
				}
			})
		})
	}
}

// The answer of the commit is lost: the client asks again and has the same job, and
// the intent is read back.
func TestAStartWhoseAnswerIsLost(t *testing.T) {
	found := &claims{}
	idling(t, found, func(t *testing.T, w *world) {
		var lost atomic.Bool
		c := &creating{answer: func(out []store.Created, err error) ([]store.Created, error) {
			if !lost.Swap(true) {
				return nil, store.ErrUnconfirmed
			}
			return out, err
		}}
		s := w.startDirect(c)
		id, err := w.post(s, "now")
		if err == nil {
			t.Fatal("no error")
		}
		w.wantOne(id, 1)
		if _, err := w.post(s, "now"); err != nil {
			t.Error(err)
		}
		if w.platform.sent() != 1 || found.arms.Load() > 0 {
			t.Errorf("%d requests, %d more arms", w.platform.sent(), found.arms.Load())
		}
	})
}

// An engine that does not run, or is busy, starts no job as it is stored; its claims
// do.
func TestABusyEngineStartsNothing(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.config.Senders = 4 // two for a connection
		wait := w.platform.hold()
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			<-wait
			return w.platform.confirm(c)
		}
		c := &creating{}
		s := w.startDirect(c)
		for _, key := range []string{"a", "b", "c"} {
			if _, err := w.post(s, key); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if c.asked.Load() != 2 {
			t.Errorf("%d asked, with two senders for a connection", c.asked.Load())
		}
		for _, err := range w.stop() {
			if err != nil {
				t.Error(err)
			}
		}
		if _, err := w.post(s, "d"); err != nil || c.asked.Load() != 2 {
			t.Errorf("%d asked, after the end: %v", c.asked.Load(), err)
		}
	})
}

// A panic in the store costs no permit: with one sender, the next job still starts, and
// the engine still stops.
func TestAStartThatPanics(t *testing.T) {
	found := &claims{}
	idling(t, found, func(t *testing.T, w *world) {
		w.config.Senders = 1
		w.platform.idle = func() bool { return true }
		c := &creating{answer: func([]store.Created, error) ([]store.Created, error) { panic("a bug of the store") }}
		s := w.startDirect(c)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not reach the caller")
				}
			}()
			_, _ = w.post(s, "first")
		}()
		c.answer = nil
		id, err := w.post(s, "second")
		if err != nil {
			t.Fatal(err)
		}
		w.wantOne(id, 1)
		if got := c.asked.Load(); got != 2 {
			t.Errorf("%d jobs were to start directly, want 2: the first kept its permit", got)
		}
	})
}
