package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/chaos/fleet"
	"github.com/fireonce/fireonce/internal/chaos/judge"
	"github.com/fireonce/fireonce/internal/chaos/nemesis"
	"github.com/fireonce/fireonce/internal/chaos/platform"
)

const (
	// restBy bounds the time until all jobs are at rest once all faults are over: a
	// post's window, and the 5 min that looks which could not be completed are apart at
	// most, and some more for the work. A job that is not at rest by then is stuck.
	restBy = postWindow + 5*time.Minute + 2*time.Minute
	// asked is how often the servers are asked how far they are; told is how often
	// whoever looks on is.
	asked, told = 2 * time.Second, 10 * time.Second
)

// campaign is one engine's run: load under faults, healing, rest, judgement.
type campaign struct {
	options
	*stage
	engine string
	say    func(format string, args ...any)
	load   *load
	begun  time.Time
	phase  string
}

// outcome is what a campaign found.
type outcome struct {
	engine  string
	report  *judge.Report
	faults  map[string]int // of processes and database, by name
	lost    int            // swallowed answers to COMMIT
	totals  platform.Totals
	control judge.Tally
	fell    []error
	calls   int // of clients
	repeats int // those of them that repeated one without an answer
	took    time.Duration
	asked   int // jobs that were to be submitted
}

// run carries out the campaign of one engine in a folder.
func run(ctx context.Context, o options, engine, dir, binary string, say func(string, ...any)) (_ *outcome, err error) {
	s, err := setUp(ctx, o, engine, dir, binary)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	c := &campaign{options: o, stage: s, engine: engine, begun: time.Now(), phase: "load"}
	c.say = func(format string, args ...any) {
		say("%s %4.0fs: "+format, append([]any{engine, time.Since(c.begun).Seconds()}, args...)...)
	}
	c.load = newLoad(o.seed, o.share(o.jobs), func(i int) spec { return specOf(o.seed, i) }, s.fleet, s.to)
	if err := s.platform.SetFaults(ctx, platform.DefaultFaults()); err != nil {
		return nil, err
	}
	out := &outcome{engine: engine, asked: c.load.jobs}
	if out.faults, err = c.underFaults(ctx); err != nil {
		return nil, err
	}
	out.lost = s.db.lost()
	if err := c.heal(ctx); err != nil {
		return nil, fmt.Errorf("heal: %w", err)
	}
	if err := c.rest(ctx); err != nil {
		return nil, fmt.Errorf("wait for rest: %w", err)
	}
	if err := c.judge(ctx, out); err != nil {
		return nil, err
	}
	out.calls, out.repeats = c.load.called()
	out.fell, out.took = s.fell(), time.Since(c.begun)
	return out, nil
}

// underFaults has clients submit all jobs while the nemesis carries out its plan.
// Each waits for the other, so that the faults are spread over the jobs. It gives
// the faults that were delivered.
func (c *campaign) underFaults(ctx context.Context) (map[string]int, error) {
	loading, end := context.WithTimeout(ctx, c.limit)
	defer end()
	plan := nemesis.Plan(c.seed, c.share(c.faults), nemesis.World{
		Servers: c.fleet.Size(), Postgres: c.engine == enginePostgres, Lease: lease, Fence: attemptTimeout + grace,
	})
	n := nemesis.New(nemesis.Options{Fleet: c.fleet, Database: c.db.faults, Plan: plan, Next: func(begun int) {
		c.load.reaches(c.load.jobs * (begun - 1) / len(plan))
		c.load.allow(c.load.jobs * begun / len(plan))
	}})
	c.watchedBy(n)
	defer context.AfterFunc(loading, c.load.stop)()

	watching, seen := context.WithCancel(ctx)
	var watch, work sync.WaitGroup
	watch.Go(func() { c.watch(watching, n) })
	var loadErr, nemesisErr error
	work.Go(func() {
		nemesisErr = n.Run(loading)
		c.load.allow(c.load.jobs)
	})
	work.Go(func() { beside(loading, c.platform.URL, c.load) })
	work.Go(func() { loadErr = c.load.run(ctx) })
	work.Wait()
	seen()
	watch.Wait()
	if err := errors.Join(ctx.Err(), nemesisErr, loadErr); err != nil {
		return nil, err
	}
	return n.Delivered(), nil
}

// watch tells the clients and whoever looks on how far everything is, until ctx ends.
func (c *campaign) watch(ctx context.Context, n *nemesis.Nemesis) {
	ask, tell := time.NewTicker(asked), time.NewTicker(told)
	defer ask.Stop()
	defer tell.Stop()
	for {
		select {
		case <-ask.C:
			if _, atRest, err := alive(ctx, c.fleet); err == nil {
				c.load.rests(atRest)
			}
		case <-tell.C:
			c.tell(ctx, n)
		case <-ctx.Done():
			return
		}
	}
}

// tell says how far everything is.
func (c *campaign) tell(ctx context.Context, n *nemesis.Nemesis) {
	taken, open, resting := c.load.progress()
	t, err := c.platform.Totals(ctx)
	if err != nil {
		return
	}
	c.say("%s: %d of %d jobs submitted (%d without an answer), %d at rest; platform: %d requests, %d effects; %d process faults",
		c.phase, taken, c.load.jobs, open, resting, sum(t.Requests), sum(t.Effects), sum(n.Delivered()))
}

// heal ends all faults: the platform answers as it should, and every server is
// replaced by one without a failpoint, on the right clock.
func (c *campaign) heal(ctx context.Context) error {
	c.phase = "healed"
	if err := c.platform.SetFaults(ctx, platform.Faults{}); err != nil {
		return err
	}
	return c.each(func(i int) error {
		_, err := c.fleet.Stop(i)
		return errors.Join(err, c.fleet.Start(ctx, i, fleet.Life{}))
	})
}

// rest waits until every job is at rest, for a bounded time: what is not by then
// is the judge's.
func (c *campaign) rest(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, restBy)
	defer cancel()
	tick := time.NewTicker(asked)
	defer tick.Stop()
	taken, _, _ := c.load.progress()
	for n := 0; ; n++ {
		living, atRest, err := alive(limit, c.fleet)
		if err == nil && living == 0 && atRest >= taken {
			return nil
		}
		if n%5 == 4 {
			c.say("%s: %d jobs are not at rest yet; %s", c.phase, living, oneAlive(limit, c.fleet))
		}
		select {
		case <-tick.C:
		case <-limit.Done():
			return ctx.Err()
		}
	}
}

// judge reads what the service says, ends it, and has both compared with what
// happened at the platform.
func (c *campaign) judge(ctx context.Context, out *outcome) (err error) {
	if out.totals, err = c.platform.Settled(ctx); err != nil {
		return err
	}
	all, err := finals(ctx, c.fleet)
	if err != nil {
		return err
	}
	var events int64
	for _, f := range all {
		events += f.Sequence
	}
	path := filepath.Join(c.dir, "events.jsonl")
	c.say("%s: judging %d jobs with %d events", c.phase, len(all), events)
	if err := saveEvents(ctx, c.fleet, path, events); err != nil {
		return err
	}
	if err := c.stopAll(); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	log := c.platform.Log
	if err := c.platform.Stop(); err != nil {
		return fmt.Errorf("the platform's log is no verdict: %w", err)
	}
	if out.control, err = judge.Count(platform.ReadLog(log), isControl); err != nil {
		return err
	}
	out.report, err = judge.Judge(judge.Input{
		Name: c.engine, Submits: c.load.submitsOf(), Finals: all, Log: platform.ReadLog(log), Events: readEvents(path),
		Ignore: isControl,
	})
	return err
}

func sum[K comparable](m map[K]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}
