package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

const (
	seatSenders = 2
	// seatPlaces are the jobs at once that may be claimed and not settled.
	seatPlaces = 4 * seatSenders
)

// seating is a world with few senders whose target, and whose store of outcomes,
// can be made to wait.
type seating struct {
	*world
	claims
	arm             func() error // nil: as ever
	target, outcome waiting
}

// waiting keeps callers while it is closed.
type waiting struct{ on atomic.Pointer[chan struct{}] }

func (g *waiting) close() {
	c := make(chan struct{})
	g.on.Store(&c)
}

func (g *waiting) open() { close(*g.on.Swap(nil)) }

func (g *waiting) pass(ctx context.Context) error {
	c := g.on.Load()
	if c == nil {
		return nil
	}
	select {
	case <-*c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *seating) Arm(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	if s.arm != nil {
		if err := s.arm(); err != nil {
			return nil, err
		}
	}
	return s.claims.Arm(ctx, items)
}

func (s *seating) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	if err := s.outcome.pass(ctx); err != nil {
		return nil, err
	}
	return s.Store.Apply(ctx, items)
}

func seated(t *testing.T, test func(t *testing.T, s *seating)) {
	t.Helper()
	s := &seating{}
	in(t, func(t *testing.T, w *world) {
		s.world = w
		w.config.Senders = seatSenders
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			_ = s.target.pass(context.Background())
			return w.platform.confirm(c)
		}
		test(t, s)
	}, through(func(under engine.Store) engine.Store {
		s.Store = under
		return s
	}))
}

func (s *seating) submitMany(what string) {
	s.t.Helper()
	for i := range 3 * seatPlaces {
		s.submit(fmt.Sprint(what, " ", i))
	}
}

// wantSeats makes sure that each sender and each place is there, once.
func (s *seating) wantSeats() {
	s.t.Helper()
	s.target.close()
	before := s.platform.sent()
	s.submitMany("all senders")
	s.world.pass(time.Second)
	if n := s.platform.sent() - before; n != seatSenders {
		s.t.Errorf("%d requests at once by %d senders", n, seatSenders)
	}
	s.target.open()
	s.world.pass(time.Minute)
	s.outcome.close()
	before = s.platform.sent()
	s.submitMany("all places")
	s.world.pass(time.Second)
	if n := s.platform.sent() - before; n != seatPlaces {
		s.t.Errorf("%d requests without an outcome that is stored, want %d", n, seatPlaces)
	}
	s.outcome.open()
	s.world.pass(time.Minute)
	for _, err := range s.stop() {
		if err != nil {
			s.t.Error(err)
		}
	}
}

// A sender is free as soon as its target has answered; what waits for the store is
// bounded, and then nothing more is claimed.
func TestASenderIsFreeBeforeItsOutcomeIsStored(t *testing.T) {
	seated(t, func(t *testing.T, s *seating) {
		s.outcome.close()
		s.start()
		s.submitMany("job")
		s.world.pass(10 * time.Second)
		// What waits for the store has let its line go, and the request with it.
		if n := s.platform.sent(); n != seatPlaces || s.platform.closed != n {
			t.Errorf("%d requests, want %d; %d lines let go", n, seatPlaces, s.platform.closed)
		}
		counted := map[job.State]int{}
		page, err := s.store.List(t.Context(), store.JobQuery{Project: "default", Limit: store.MaxBatch})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			counted[j.State]++
		}
		if counted[job.Sending] != seatPlaces || counted[job.Scheduled] != 2*seatPlaces {
			t.Errorf("states: %v", counted)
		}
		s.outcome.open()
		s.world.pass(time.Minute)
		if n := s.platform.total(); n != 3*seatPlaces || s.platform.sent() != n {
			t.Errorf("%d effects, %d requests", n, s.platform.sent())
		}
	})
}

// A shutdown waits for outcomes that are being stored, and for no place.
func TestAShutdownWithEveryPlaceTaken(t *testing.T) {
	seated(t, func(t *testing.T, s *seating) {
		s.outcome.close()
		s.start()
		s.submitMany("job")
		s.world.pass(time.Second)
		go func() {
			time.Sleep(5 * time.Second) // the bubble's time
			s.outcome.open()
		}()
		for _, err := range s.stop() {
			if err != nil {
				t.Error(err)
			}
		}
		if n := s.platform.total(); n != seatPlaces {
			t.Errorf("%d effects, want %d", n, seatPlaces)
		}
	})
}

// However a job's way ends, its sender and its place are free once.
func TestEverySeatIsLeftOnce(t *testing.T) {
	boom := errors.New("boom")
	idle := func() bool { return true }
	unconfirmed := func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error) {
		_, _ = s.Claim(ctx, p)
		return nil, store.ErrUnconfirmed
	}
	for _, way := range []struct {
		name string
		take func(s *seating)
	}{
		{"armed by its claim", func(s *seating) { s.platform.idle = idle }},
		{"armed after its claim", func(*seating) {}},
		{"refused", func(s *seating) { s.platform.prepare = func() error { return &connector.InputError{Msg: "no good"} } }},
		{"not reached", func(s *seating) { s.platform.open = func(int) error { return boom } }},
		{"a panic before the arm", func(s *seating) { s.platform.prepare = func() error { panic(boom) } }},
		{"a panic while sending", func(s *seating) {
			s.platform.publish = func(int, connector.Commit) job.Outcome { panic(boom) }
		}},
		{"a panic while sending what its claim armed", func(s *seating) {
			s.platform.idle = idle
			s.platform.publish = func(int, connector.Commit) job.Outcome { panic(boom) }
		}},
		{"a claim that failed", func(s *seating) {
			s.platform.idle = idle
			s.claim = func(context.Context, store.ClaimParams, engine.Store) ([]store.Leased, error) {
				return nil, store.ErrUnavailable
			}
		}},
		{"a claim in doubt that is durable", func(s *seating) {
			s.platform.idle = idle
			s.claim = unconfirmed
		}},
		{"a claim in doubt without an intent", func(s *seating) { s.claim = unconfirmed }},
		{"a claim in doubt whose intent was refused", func(s *seating) {
			s.platform.idle = idle
			s.claim = func(ctx context.Context, p store.ClaimParams, under engine.Store) ([]store.Leased, error) {
				intend := p.Intend
				p.Intend = func(l store.Leased) *store.Arm {
					if a := intend(l); a != nil {
						a.Version++
						return a
					}
					return nil
				}
				return unconfirmed(ctx, p, under)
			}
		}},
		{"an arm that is not durable", func(s *seating) { s.arm = func() error { return store.ErrUnconfirmed } }},
	} {
		t.Run(way.name, func(t *testing.T) {
			seated(t, func(_ *testing.T, s *seating) {
				prepare, open, publish := s.platform.prepare, s.platform.open, s.platform.publish
				way.take(s)
				s.start()
				s.submitMany("job")
				s.world.pass(time.Minute)
				s.platform.idle, s.platform.prepare, s.platform.open, s.platform.publish = nil, prepare, open, publish
				s.claim, s.arm = nil, nil
				s.world.pass(4 * time.Hour) // whatever is still to come of it has come
				s.wantSeats()
			})
		})
	}
}
