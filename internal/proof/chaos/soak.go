package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/attack"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/meter"
	"github.com/fireonce/fireonce/internal/proof/chaos/nemesis"
)

// sampleEach is how often memory is read, and the attackers hear of new listeners.
const sampleEach = time.Second

// soak is a campaign with hostile clients beside the honest ones, in cycles of a calm and a
// storm of faults. Within a calm they are at work in turns, to compare with the quiet times
// between.
type soak struct {
	*campaign
	times      times
	calls      *meter.Calls
	deliveries *deliveries
	follower   *follower
	attackers  *attack.Process

	mu      sync.Mutex
	hostile bool          // hostile clients are at work
	memory  *meter.Memory // since they began
	quiet   *meter.Memory // of the start
	acts    attack.Tally
	errs    map[string]error // by the part of the soak that could not go on
}

func newSoak(c *campaign) (*soak, error) {
	s := &soak{campaign: c, times: soakTimes(c.minutes), calls: meter.NewCalls(time.Now), memory: meter.NewMemory(), errs: make(map[string]error)}
	s.deliveries = newDeliveries(s.calls)
	c.load.meter, c.load.answered, c.load.repeatShare = s.calls, s.deliveries.answered, soakRepeats
	var err error
	s.follower, err = newFollower(c.fleet, filepath.Join(c.dir, eventsFile), s.deliveries.delivered)
	return s, err
}

// ours reports whether an idempotency key is an honest client's.
func ours(key string) bool { return strings.HasPrefix(key, keyPrefix) }

// run carries out all phases, and returns the faults that were delivered.
func (s *soak) run(ctx context.Context) (map[string]int, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// The attackers would have machines of their own: what they do themselves is not to
	// slow what is measured. A higher nice value still makes servers wait for the end of a
	// time slice; the idle class does not.
	if s.attackers, err = attack.Spawn(ctx, []string{"chrt", "--idle", "0", self, "attack"}, s.keys.hostile); err != nil {
		return nil, err
	}
	n := s.stormNemesis()
	s.watchedBy(n)
	running, end := context.WithCancel(ctx)
	defer end()
	calling, giveUp := context.WithCancel(ctx)
	defer giveUp()
	var all sync.WaitGroup
	s.honest(running, calling, &all)
	all.Go(func() { s.watches(running) })
	all.Go(func() {
		s.watch(running, n, func() { end(); giveUp() })
	})
	phasesErr := s.phases(running, n)
	s.load.stop()
	end()
	all.Wait()
	acts, err := s.attackers.Stop()
	s.acts = acts
	s.found("attackers", err)
	if err := errors.Join(ctx.Err(), phasesErr); err != nil {
		return nil, err
	}
	return n.Delivered(), nil
}

// honest starts the honest clients. What ends one of them early is a finding.
func (s *soak) honest(running, calling context.Context, all *sync.WaitGroup) {
	for name, client := range map[string]func(context.Context) error{
		"reader of jobs": s.gets, "reader of pages": s.lists, "follower of events": s.follower.follow,
		"submitters": func(context.Context) error { return s.load.run(calling) },
	} {
		all.Go(func() { s.found(name, client(running)) })
	}
	all.Go(func() { s.paces(running) })
	all.Go(func() { beside(running, s.platform.URL, s.load) })
}

// found notes why a part of the soak could not go on; nil: it could.
func (s *soak) found(part string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.errs[part] = err
	}
}

// phases goes through the phases.
func (s *soak) phases(ctx context.Context, n *nemesis.Nemesis) error {
	s.begins(meter.Warming)
	fleet.Pause(ctx, warmUp+quietStart)
	s.mu.Lock()
	s.quiet, s.memory = s.memory, meter.NewMemory()
	s.mu.Unlock()
	for range s.times.cycles {
		for range s.times.turns {
			s.turn(ctx)
		}
		s.begins(meter.Storm)
		if err := s.storm(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// turn measures honest calls without hostile clients, and then beside them.
func (s *soak) turn(ctx context.Context) {
	s.attacks(false)
	s.begins(meter.Warming)
	fleet.Pause(ctx, lull)
	s.begins(meter.Quiet)
	fleet.Pause(ctx, s.times.quiet)
	s.attacks(true)
	s.begins(meter.Calm)
	fleet.Pause(ctx, s.times.calm)
}

// attacks sets whether hostile clients are at work from the next sample on.
func (s *soak) attacks(hostile bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hostile = hostile
}

func (s *soak) begins(p meter.Phase) {
	s.calls.Enter(p)
	s.phase.Store(p.String())
}

// stormNemesis makes what carries out a part of its plan in each storm.
func (s *soak) stormNemesis() *nemesis.Nemesis {
	world := s.world()
	return nemesis.New(nemesis.Options{
		Fleet: s.fleet, Database: s.db.faults, Plan: nemesis.Plan(s.seed, s.share(s.faults, s.engine), world), World: world,
	})
}

// storm delivers faults for a while, and leaves servers behind that will live.
func (s *soak) storm(ctx context.Context, n *nemesis.Nemesis) error {
	raging, end := context.WithTimeout(ctx, s.times.storm-settling)
	defer end()
	if err := n.Run(raging); err != nil {
		s.found("faults", err)
	}
	if err := s.each(func(i int) error { return s.disarm(ctx, i) }); err != nil {
		return err
	}
	fleet.Pause(ctx, settling)
	return nil
}

// disarm replaces a server that would kill itself later.
func (s *soak) disarm(ctx context.Context, server int) error {
	life, runs := s.fleet.Life(server)
	if !runs || life.Failpoint == "" {
		return nil
	}
	s.stop(server)
	life.Failpoint = ""
	return s.fleet.Start(context.WithoutCancel(ctx), server, life)
}

// watches reads the servers' memory and aims the attackers, at nothing while it is quiet.
func (s *soak) watches(ctx context.Context) {
	s.found("watch over the servers", every(ctx, sampleEach, func() error {
		s.mu.Lock()
		memory, hostile := s.memory, s.hostile
		s.mu.Unlock()
		var at []attack.Listener
		for _, l := range s.fleet.Listeners() {
			if err := memory.Sample(l.Server, l.PID); err != nil {
				return err
			}
			if hostile {
				at = append(at, attack.Listener{URL: l.URL, GRPC: l.GRPC})
			}
		}
		return s.attackers.Aim(at)
	}))
}
