package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/nemesis"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

const (
	// restBy bounds the time until all jobs are at rest once all faults are over: a
	// post's window, and the 5 min that looks which could not be completed are apart at
	// most, and some more for the work. A job that is not at rest by then is stuck.
	restBy = postWindow + 5*time.Minute + 2*time.Minute
	// asked is how often the servers are asked how far they are; told is how often
	// progress is printed.
	asked, told = 2 * time.Second, 10 * time.Second
	// lostAfter is how long jobs may be missing when no job is under way any more; those
	// that are missing then are lost.
	lostAfter = time.Minute
	// aheadShare is which part of the jobs, as one in so many, clients may submit ahead of
	// the faults: those that are scheduled for later come to rest late.
	aheadShare = 4
)

// eventsFile is where the event log is written that the judge reads.
const eventsFile = "events.jsonl"

// settled is how many of some jobs are at rest when a fault waits for them, or the
// healing: the last ones may be waiting for a person's time.
func settled(jobs int) int { return jobs * 9 / 10 }

// campaign is one engine's run: load under faults, healing, rest, judgement.
type campaign struct {
	options
	*stage
	engine string
	say    func(format string, args ...any)
	load   *load
	begun  time.Time
	phase  atomic.Value // a string

	owner     *owner     // of the accounts; nil: there are none
	recurring *recurring // nil: no schedule fires
	telling   *telling   // nil: there are no subscriptions
	planned   int        // faults of the plan
	stuck     string     // why the campaign was given up; empty: it was not
}

// outcome is what a campaign found.
type outcome struct {
	engine  string
	report  *judge.Report
	faults  map[string]int // of processes and database, by name
	planned int
	lost    map[string]int // swallowed answers to COMMIT, by the kind of transaction
	stuck   string         // why the campaign was given up; empty: it was not
	totals  platform.Totals
	edge    platform.EdgeCounts
	edged   bool // jobs went through the proxy
	control judge.Tally
	fell    []error
	calls   int // of clients
	repeats int // those of them that repeated one without an answer
	took    time.Duration
	asked   int // jobs that were to be submitted
	owner   *owner
	soak    *soak // nil: no client was hostile
	// Of schedules; nil: none fired.
	recurring *recurringOutcome
	// Of subscriptions; nil: there were none.
	told *judge.ToldReport
}

// run carries out the campaign of one engine in a folder.
func run(ctx context.Context, o options, engine, dir, binary string, say func(string, ...any)) (_ *outcome, err error) {
	s, err := setUp(ctx, o, engine, dir, binary)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	c := &campaign{options: o, stage: s, engine: engine, begun: time.Now()}
	c.phase.Store("load")
	c.say = func(format string, args ...any) {
		say("%s %4.0fs: "+format, append([]any{engine, time.Since(c.begun).Seconds()}, args...)...)
	}
	c.load = newLoad(o.seed, o.share(o.jobs, engine), o.specs(), s.fleet, s.to)
	if err := s.platform.SetFaults(ctx, o.goesWrong()); err != nil {
		return nil, err
	}
	out := &outcome{engine: engine, asked: c.load.jobs}
	if o.subscribes() {
		if c.telling, err = newTelling(ctx, c); err != nil {
			return nil, err
		}
	}
	if o.recurs() {
		if c.recurring, err = newRecurring(ctx, c); err != nil {
			return nil, err
		}
	}
	if o.platforms {
		out.owner = newOwner(c, s.to.places)
		c.owner = out.owner
		mending, enough := context.WithCancel(ctx)
		var all sync.WaitGroup
		all.Go(func() { out.owner.mends(mending) })
		defer func() {
			enough()
			all.Wait()
		}()
	}
	under := c.underFaults
	if o.soak {
		if out.soak, err = newSoak(c); err != nil {
			return nil, err
		}
		under = out.soak.run
	}
	if out.faults, err = under(ctx); err != nil {
		return nil, err
	}
	out.lost, out.planned, out.stuck = s.db.lost(), c.planned, c.stuck
	if err := c.heal(ctx); err != nil {
		return nil, fmt.Errorf("heal: %w", err)
	}
	if c.recurring != nil {
		if err := c.recurring.finish(ctx); err != nil {
			return nil, fmt.Errorf("end the schedules: %w", err)
		}
	}
	if err := c.untilAtRest(ctx); err != nil {
		return nil, fmt.Errorf("wait for rest: %w", err)
	}
	if c.telling != nil {
		if err := c.telling.finish(ctx); err != nil {
			return nil, fmt.Errorf("wait for the last notices: %w", err)
		}
	}
	if err := c.judge(ctx, out); err != nil {
		return nil, err
	}
	out.calls, out.repeats = c.load.called()
	out.edge, out.edged = s.edge.Counts(), !o.platforms
	out.fell, out.took = s.fell(), time.Since(c.begun)
	return out, nil
}

// underFaults has clients submit all jobs while the nemesis carries out its plan.
// Each waits for the other, so that the faults are spread over the jobs. It ends when
// most jobs are at rest, and returns the faults that were delivered.
func (c *campaign) underFaults(ctx context.Context) (map[string]int, error) {
	loading, end := context.WithTimeout(ctx, c.limit)
	defer end()
	n := c.nemesis()
	c.watchedBy(n)
	defer context.AfterFunc(loading, c.load.stop)()

	calling, giveUp := context.WithCancel(ctx)
	defer giveUp()
	watching, seen := context.WithCancel(ctx)
	var watch, work sync.WaitGroup
	watch.Go(func() {
		c.watch(watching, n, func() {
			end()
			giveUp()
		})
	})
	var loadErr, nemesisErr, revokeErr, recurErr, tellErr error
	revoking, enough := context.WithCancel(loading)
	defer enough()
	if c.owner != nil {
		work.Go(func() { revokeErr = c.owner.revokes(revoking) })
	}
	if c.recurring != nil {
		work.Go(func() { recurErr = c.recurring.run(revoking) })
	}
	if c.telling != nil {
		work.Go(func() { tellErr = c.telling.run(revoking) })
	}
	work.Go(func() {
		defer enough()
		nemesisErr = n.Run(loading)
		c.load.allow(c.load.jobs)
		c.load.reaches(settled(c.load.jobs))
		if c.recurring != nil {
			c.recurring.lasts(loading)
		}
	})
	work.Go(func() { beside(loading, c.platform.URL, c.load) })
	work.Go(func() { loadErr = c.load.run(calling) })
	work.Wait()
	seen()
	watch.Wait()
	if c.stuck != "" {
		loadErr = nil // the clients gave up on request
	}
	if err := errors.Join(ctx.Err(), nemesisErr, loadErr, revokeErr, recurErr, tellErr); err != nil {
		return nil, err
	}
	return n.Delivered(), nil
}

// nemesis makes what carries out the plan. A fault begins when so many jobs are at
// rest as are its turn, not when they are submitted: sends that are repeated, looks and
// settlements are to meet faults, too.
func (c *campaign) nemesis() *nemesis.Nemesis {
	world := c.world()
	plan := nemesis.Plan(c.seed, c.share(c.faults, c.engine), world)
	c.planned = len(plan)
	ahead := max(1, len(plan)/aheadShare)
	return nemesis.New(nemesis.Options{
		Fleet: c.fleet, Database: c.db.faults, Plan: plan, World: world, Next: func(begun int) {
			c.load.allow(c.load.jobs * (begun + ahead) / len(plan))
			c.load.reaches(settled(c.load.jobs * (begun - 1) / len(plan)))
		},
	})
}

// world is what faults are planned for.
func (c *campaign) world() nemesis.World {
	return nemesis.World{
		Servers: c.fleet.Size(), Postgres: c.engine == enginePostgres, Lease: lease, Fence: attemptTimeout + grace,
		Recurring: c.recurring != nil, Told: c.telling != nil,
	}
}

// watch passes the progress to the clients and prints it, until ctx ends.
// It ends the campaign when there was no progress for too long.
func (c *campaign) watch(ctx context.Context, n *nemesis.Nemesis, giveUp func()) {
	ask, tell := time.NewTicker(asked), time.NewTicker(told)
	defer ask.Stop()
	defer tell.Stop()
	dog := &watchdog{since: time.Now()}
	for {
		select {
		case <-ask.C:
			asking, cancel := context.WithTimeout(ctx, askBy)
			if _, atRest, err := c.alive(asking); err == nil {
				c.load.rests(atRest)
			}
			cancel()
			taken, open, resting := c.load.progress()
			idle := dog.idle(time.Now(), taken-open, resting)
			c.load.stall(idle > stalledAfter)
			if idle > stuckAfter && c.stuck == "" {
				c.stuck = fmt.Sprintf("nothing came forward for %v: %d jobs taken, %d of them without an answer, %d at rest", stuckAfter, taken, open, resting)
				c.say("%s", c.stuck)
				giveUp()
			}
		case <-tell.C:
			c.tell(ctx, n)
		case <-ctx.Done():
			return
		}
	}
}

// tell returns how far everything is.
func (c *campaign) tell(ctx context.Context, n *nemesis.Nemesis) {
	taken, open, resting := c.load.progress()
	t, err := c.platform.Totals(ctx)
	if err != nil {
		return
	}
	c.say("%s: %d of %d jobs submitted (%d without an answer), %d at rest; platform: %d requests, %d effects; %d process faults",
		c.phase.Load(), taken, c.load.jobs, open, resting, sum(t.Requests), sum(t.Effects), sum(n.Delivered()))
}

// heal ends all faults: the platform answers as it should, and every server is
// replaced by one without a failpoint, on the right clock.
func (c *campaign) heal(ctx context.Context) error {
	c.phase.Store("healed")
	if err := c.platform.SetFaults(ctx, platform.Faults{}); err != nil {
		return err
	}
	c.edge.Heal()
	return c.each(func(i int) error {
		c.stop(i)
		return c.fleet.Start(ctx, i, fleet.Life{})
	})
}

// untilAtRest waits until every job is at rest, for a bounded time: what is not by then, or
// is not there, is the judge's.
func (c *campaign) untilAtRest(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, restBy)
	defer cancel()
	tick := time.NewTicker(asked)
	defer tick.Stop()
	taken, _, _ := c.load.progress()
	var quiet time.Time // since when no known job is under way; zero: one is
	for n := 0; ; n++ {
		living, atRest, err := c.alive(limit)
		if err == nil && living == 0 && atRest >= taken {
			return nil
		}
		switch {
		case err != nil, living > 0:
			quiet = time.Time{}
		case quiet.IsZero():
			quiet = time.Now()
		case time.Since(quiet) > lostAfter:
			c.say("%s: of %d jobs only %d are there", c.phase.Load(), taken, atRest)
			return nil
		}
		if n%5 == 4 {
			c.say("%s: %d jobs are not at rest yet; %s", c.phase.Load(), living, oneAlive(limit, c.fleet))
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
	if err := c.platform.Sweep(ctx); err != nil {
		return err
	}
	reading, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	all, err := finals(reading, c.fleet)
	if err != nil {
		return err
	}
	var events int64
	for _, f := range all {
		events += f.Sequence
	}
	path := filepath.Join(c.dir, eventsFile)
	c.say("%s: judging %d jobs with %d events", c.phase.Load(), len(all), events)
	if out.soak != nil {
		err = out.soak.follower.finish(ctx, events)
	} else {
		err = saveEvents(ctx, c.fleet, path, events)
	}
	if err != nil {
		return err
	}
	var scheduled []judge.Recurring
	if c.recurring != nil {
		if scheduled, err = c.recurring.accounts(reading); err != nil {
			return err
		}
	}
	var told *judge.ToldInput
	if c.telling != nil {
		if told, err = c.telling.accounts(reading, all, path); err != nil {
			return err
		}
	}
	c.stopAll()
	log := c.platform.Log
	if err := c.platform.Stop(); err != nil {
		return fmt.Errorf("the platform's log is no verdict: %w", err)
	}
	if out.control, err = judge.Count(platform.ReadLog(log), isControl); err != nil {
		return err
	}
	submits := c.load.submitsOf()
	for i := range scheduled {
		submits = append(submits, scheduled[i].Submits()...)
	}
	if told != nil {
		submits = append(submits, c.telling.last)
	}
	if out.report, err = judge.Judge(judge.Input{
		Name: c.engine, Submits: submits, Finals: all, Log: platform.ReadLog(log), Events: readEvents(path),
		Ignore: func(subject string) bool { return isControls(subject) || isTold(subject) },
	}); err != nil {
		return err
	}
	return c.judgeOthers(out, scheduled, told)
}

// judgeOthers has the schedules and the subscriptions judged.
func (c *campaign) judgeOthers(out *outcome, scheduled []judge.Recurring, told *judge.ToldInput) (err error) {
	log := c.platform.Log
	if c.recurring != nil {
		if out.recurring, err = c.recurring.judge(scheduled, log); err != nil {
			return err
		}
	}
	if told != nil {
		told.Log, told.Events = platform.ReadLog(log), readEvents(filepath.Join(c.dir, eventsFile))
		if out.told, err = judge.JudgeTold(*told); err != nil {
			return err
		}
		out.told.Again, out.told.Pauses = c.telling.again, c.telling.paused
	}
	return nil
}

func sum[K comparable](m map[K]int) int {
	n := 0
	for _, v := range m {
		n += v
	}
	return n
}
