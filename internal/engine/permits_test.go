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
	sendersHere = 4
	// inFlightHere is how many jobs may be claimed and not settled.
	inFlightHere = 4 * sendersHere
)

// permitWorld is a world with few senders whose target, and whose store of outcomes,
// can be made to wait.
type permitWorld struct {
	*world
	engine.Store
	// way is what happens to jobs; nil: nothing unusual.
	way             atomic.Pointer[way]
	target, outcome waiting
	conns           []store.Connection
}

// way is how jobs end. What is nil is as usual.
type way struct {
	name    string
	idle    bool
	claim   func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error)
	prepare func() error
	open    func() error
	arm     error
	publish func() job.Outcome
}

func (s *permitWorld) present() way {
	if w := s.way.Load(); w != nil {
		return *w
	}
	return way{}
}

// waiting blocks callers while it is closed.
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

func (s *permitWorld) Claim(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	if claim := s.present().claim; claim != nil {
		return claim(ctx, p, s.Store)
	}
	return s.Store.Claim(ctx, p)
}

func (s *permitWorld) Arm(ctx context.Context, items []store.Arm) ([]store.Armed, error) {
	if err := s.present().arm; err != nil {
		return nil, err
	}
	return s.Store.Arm(ctx, items)
}

func (s *permitWorld) Apply(ctx context.Context, items []store.Change) ([]store.Applied, error) {
	if err := s.outcome.pass(ctx); err != nil {
		return nil, err
	}
	return s.Store.Apply(ctx, items)
}

func withFewPermits(t *testing.T, test func(t *testing.T, s *permitWorld), opts ...option) {
	t.Helper()
	s := &permitWorld{}
	in(t, func(t *testing.T, w *world) {
		s.world = w
		w.config.Senders = sendersHere
		w.platform.idle = func() bool { return s.present().idle }
		w.platform.prepare = func() error {
			if prepare := s.present().prepare; prepare != nil {
				return prepare()
			}
			return nil
		}
		w.platform.open = func(int) error {
			if open := s.present().open; open != nil {
				return open()
			}
			return nil
		}
		w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
			if publish := s.present().publish; publish != nil {
				return publish()
			}
			_ = s.target.pass(context.Background())
			return w.platform.confirm(c)
		}
		s.conns = []store.Connection{w.conn}
		for _, project := range []string{"default", "other", "other"} {
			w.connectIn(project, fmt.Sprint("connection ", len(s.conns)))
			s.conns = append(s.conns, w.conn)
		}
		test(t, s)
	}, append(opts, through(func(under engine.Store) engine.Store {
		s.Store = under
		return s
	}))...)
}

// submitMany submits more jobs than may be in flight, with short start windows, of connections
// and projects that may have all permits together.
func (s *permitWorld) submitMany(what string) {
	s.t.Helper()
	for i := range 2 * inFlightHere {
		s.conn = s.conns[i%len(s.conns)]
		s.submit(fmt.Sprint(what, " ", i), window(2*time.Minute))
	}
}

// wantPermits checks that each permit is there, once.
func (s *permitWorld) wantPermits() {
	s.t.Helper()
	s.target.close()
	before := s.platform.sent()
	s.submitMany("all senders")
	s.world.pass(time.Second)
	if n := s.platform.sent() - before; n != sendersHere {
		s.t.Errorf("%d concurrent requests by %d senders", n, sendersHere)
	}
	s.target.open()
	s.world.pass(time.Minute)
	s.outcome.close()
	before = s.platform.sent()
	s.submitMany("all permits")
	s.world.pass(time.Second)
	if n := s.platform.sent() - before; n != inFlightHere {
		s.t.Errorf("%d requests without an outcome that is stored, want %d", n, inFlightHere)
	}
	s.outcome.open()
	s.world.pass(time.Minute)
	for _, err := range s.stop() {
		if err != nil {
			s.t.Error(err)
		}
	}
}

// A KEYED job's sender is free as soon as the target has answered, any other's when
// its outcome is stored; what waits for the store is bounded, and then nothing more
// is claimed.
func TestASenderIsFreeBeforeItsOutcomeIsStored(t *testing.T) {
	for class, most := range map[job.Class]int{job.Keyed: inFlightHere, job.Opaque: sendersHere} {
		t.Run(class.String(), func(t *testing.T) { unstoredOutcomes(t, class, most) })
	}
}

func unstoredOutcomes(t *testing.T, of job.Class, most int) {
	withFewPermits(t, func(t *testing.T, s *permitWorld) {
		s.outcome.close()
		s.start()
		s.submitMany("job")
		s.world.pass(10 * time.Second)
		// A job that waits for the store has put back its connection, and freed its request.
		if n := s.platform.sent(); n != most || s.platform.closed != n {
			t.Errorf("%d requests, want %d; %d connections put back", n, most, s.platform.closed)
		}
		counted := map[job.State]int{}
		for _, project := range []string{"default", "other"} {
			page, err := s.store.List(t.Context(), store.JobQuery{Project: project, Limit: store.MaxBatch})
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range page.Jobs {
				counted[j.State]++
			}
		}
		if counted[job.Sending] != most || counted[job.Scheduled] != 2*inFlightHere-most {
			t.Errorf("states: %v", counted)
		}
		s.outcome.open()
		s.world.pass(time.Minute)
		if n := s.platform.total(); n != 2*inFlightHere || s.platform.sent() != n {
			t.Errorf("%d effects, %d requests", n, s.platform.sent())
		}
	}, class(of))
}

// A shutdown waits for outcomes that are being stored, and for no permit.
func TestAShutdownWithEveryPermitTaken(t *testing.T) {
	withFewPermits(t, func(t *testing.T, s *permitWorld) {
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
		if n := s.platform.total(); n != inFlightHere {
			t.Errorf("%d effects, want %d", n, inFlightHere)
		}
	})
}

// However a job ends, its permits are released once.
func TestEveryPermitIsReleasedOnce(t *testing.T) {
	boom := errors.New("boom")
	breaks := func() error { panic(boom) }
	sending := func() job.Outcome { panic(boom) }
	unconfirmed := func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error) {
		_, _ = s.Claim(ctx, p)
		return nil, store.ErrUnconfirmed
	}
	for _, way := range []way{
		{name: "armed by its claim", idle: true},
		{name: "armed after its claim"},
		{name: "refused", prepare: func() error { return &connector.InputError{Msg: "no good"} }},
		{name: "not reached", open: func() error { return boom }},
		{name: "a panic before the arm", prepare: breaks},
		{name: "a panic in the claim", prepare: breaks, idle: true},
		{name: "a panic while sending", publish: sending},
		{name: "a panic while sending what its claim armed", publish: sending, idle: true},
		{name: "a claim in doubt that is durable", claim: unconfirmed, idle: true},
		{name: "a claim in doubt without an intent", claim: unconfirmed},
		{name: "an arm that is not durable", arm: store.ErrUnconfirmed},
		{
			name: "a claim that failed", idle: true,
			claim: func(context.Context, store.ClaimParams, engine.Store) ([]store.Leased, error) {
				return nil, store.ErrUnavailable
			},
		},
		{
			name: "a claim in doubt whose intents were refused", idle: true,
			claim: func(ctx context.Context, p store.ClaimParams, s engine.Store) ([]store.Leased, error) {
				intend := p.Intent
				p.Intent = func(l store.Leased) *store.Arm {
					a := intend(l)
					if a != nil {
						a.Version++
					}
					return a
				}
				return unconfirmed(ctx, p, s)
			},
		},
	} {
		t.Run(way.name, func(t *testing.T) {
			withFewPermits(t, func(_ *testing.T, s *permitWorld) {
				s.way.Store(&way)
				s.start()
				s.submitMany("job")
				s.world.pass(time.Minute)
				s.way.Store(nil)
				s.world.pass(10 * time.Minute) // everything that follows has happened
				s.wantPermits()
			})
		})
	}
}

// A replay has a looker's permit and none of these.
func TestTheZeroPermitCanBeReleased(*testing.T) { engine.ReleaseZeroPermit() }
