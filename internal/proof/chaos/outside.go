package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// What is measured here cannot be prevented, and the README says so: a platform that
// acts later than fence and read lag, and a process that is frozen between its last
// look at the clocks and the write; and a receiver that has keys and no lock, and that
// works on a request beyond the fence. How often each makes a duplicate is printed, not
// judged. In the first two, jobs are OBSERVABLE ones, and KEYED ones beside them, whose
// receivers act immediately.

// settleTime is from the arm of a feed's job to the beginning of the last look that
// proves an absence: answer deadline, grace, read lag, and the five read lags between
// two looks.
const settleTime = attemptTimeout + grace + readLag + 5*readLag

const (
	// lateShare is which share of the requests acts late.
	lateShare = 0.25
	// freezeEach is which send of a server freezes it; one freeze is made for so many
	// jobs of a late platform, at the pace of one job in freezePace.
	freezeEach     = 3
	jobsAFreeze    = 10
	freezePace     = 100 * time.Millisecond
	mostFrozenJobs = 20_000
	// outsideWindow bounds how late a job may start: one whose effect is seen after all
	// is not sent again, and waits until its window ends.
	outsideWindow = time.Minute
	// frozenFor is long enough for the others to sweep the job, prove its absence and
	// send it again.
	frozenFor = settleTime + 4*time.Second
)

// slowParts are how long a receiver without a lock works, in percent of the time from the
// arm to the fence.
var slowParts = []int{70, 110, 150, 250}

const (
	fence = attemptTimeout + grace
	// statedWork is what a connection states of its receiver, for slowParts of at most 150.
	statedWork = 2 * fence
)

// lateParts are how late the platform acts, in percent of the settle time.
var lateParts = []int{50, 80, 110, 150, 250}

// rate is one measurement.
type rate struct {
	What string `json:"what"`
	// Trials are the requests that acted late, or the freezes.
	Trials int         `json:"trials"`
	Rows   []judge.Row `json:"rows"`
}

func (r rate) String() string {
	out := fmt.Sprintf("MEASURED %s: %d trials", r.What, r.Trials)
	twice := 0
	for _, row := range r.Rows {
		twice += row.Duplicates
		out += fmt.Sprintf("; %s: of %d jobs %d twice, %d false FAILED or EXPIRED, %d left to a person",
			row.Class, row.Jobs, row.Duplicates, row.FalseFailed, row.Unknown)
	}
	if r.Trials > 0 {
		out += fmt.Sprintf("; %.0f duplicates in 1,000 trials", 1000*float64(twice)/float64(r.Trials))
	}
	return out
}

// measure measures what is outside the assumptions, on PostgreSQL.
func measure(ctx context.Context, o options, dir, binary string, w io.Writer, say func(string, ...any)) error {
	var rates []rate
	each := max(1, o.jobs/(len(lateParts)+2+len(slowParts)+1))
	for _, percent := range lateParts {
		late := settleTime * time.Duration(percent) / 100
		r, err := inTrial(ctx, o, dir, binary, trial{
			name: fmt.Sprintf("late-%d", percent), jobs: each, say: say,
			what:   fmt.Sprintf("the platform acts %v after the request, %d %% of the settle time", late, percent),
			faults: platform.Faults{Rates: platform.Rates{platform.Late: lateShare}, LateBy: platform.Duration(late)},
		})
		if err != nil {
			return err
		}
		say("%s", r)
		rates = append(rates, r)
	}
	slow, err := measureSlow(ctx, o, dir, binary, each, say)
	if err != nil {
		return err
	}
	rates = append(rates, slow...)
	for _, class := range []job.Class{job.Observable, job.Keyed} {
		r, err := inTrial(ctx, o, dir, binary, trial{
			name: "frozen-" + class.String(), jobs: mostFrozenJobs, only: class, freezes: max(3, each/jobsAFreeze), say: say,
			what: fmt.Sprintf("a process is frozen for %v between its last check and the write", frozenFor),
		})
		if err != nil {
			return err
		}
		say("%s", r)
		rates = append(rates, r)
	}
	fmt.Fprintln(w)
	for _, r := range rates {
		fmt.Fprintln(w, r)
	}
	text, err := json.Marshal(rates)
	fmt.Fprintf(w, "CHAOS OUTSIDE %s\n", text)
	return err
}

// measureSlow measures receivers without a lock that work on requests: with each part of the
// fence, and then beyond it at a connection that states so.
func measureSlow(ctx context.Context, o options, dir, binary string, each int, say func(string, ...any)) (rates []rate, err error) {
	trials := make([]trial, 0, len(slowParts)+1)
	for _, percent := range slowParts {
		trials = append(trials, slowTrial(percent, each, say))
	}
	stated := slowTrial(150, each, say)
	stated.name, stated.face = "slow-stated", statedHook
	stated.what += fmt.Sprintf(", and the connection states %v", statedWork)
	for _, t := range append(trials, stated) {
		r, err := inTrial(ctx, o, dir, binary, t)
		if err != nil {
			return nil, err
		}
		say("%s", r)
		rates = append(rates, r)
	}
	return rates, nil
}

func slowTrial(percent, jobs int, say func(string, ...any)) trial {
	work := fence * time.Duration(percent) / 100
	return trial{
		name: fmt.Sprintf("slow-%d", percent), jobs: jobs, only: job.Keyed, say: say,
		what: fmt.Sprintf("a receiver without a lock works for %v on a request, %d %% of the time to the fence", work, percent),
		faults: platform.Faults{
			Faces: map[string]platform.Rates{platform.FaceUnlocked: {platform.Slow: lateShare}}, Work: platform.Duration(work),
		},
	}
}

// trial is one measurement to be made.
type trial struct {
	name, what string
	jobs       int
	only       job.Class // zero: both in turn
	face       face      // of KEYED jobs; zero: keyedHook
	faults     platform.Faults
	freezes    int // so many are made, however many jobs that takes
	say        func(string, ...any)
}

// specs are a trial's jobs.
func (t trial) specs(i int) spec {
	s := spec{key: fmt.Sprintf("%s-%d", t.name, i), subject: fmt.Sprintf("%s-subject-%d", t.name, i), policy: job.OnceOrAsk, window: outsideWindow}
	if t.only == job.Observable || t.only == 0 && i%2 == 0 {
		s.face, s.class, s.account = feedPosts, job.Observable, i/2%accounts
		return s
	}
	s.face, s.class = t.face, job.Keyed
	return s
}

// inTrial makes one measurement on a stage of its own.
func inTrial(ctx context.Context, o options, dir, binary string, t trial) (r rate, err error) {
	own := filepath.Join(dir, t.name)
	if err := os.Mkdir(own, 0o700); err != nil {
		return r, err
	}
	o.servers = max(o.servers, 2) // one that is frozen, one that goes on
	s, err := setUp(ctx, o, enginePostgres, own, binary)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	c := &campaign{options: o, stage: s, engine: t.name, begun: time.Now()}
	c.phase.Store("outside")
	c.say = func(format string, args ...any) { t.say(t.name+" "+format, args...) }
	c.load = newLoad(o.seed, t.jobs, t.specs, s.fleet, s.to)
	if err := s.platform.SetFaults(ctx, t.faults); err != nil {
		return r, err
	}
	r = rate{What: t.what}
	if t.freezes > 0 {
		r.Trials, err = c.underFreezes(ctx, t.freezes)
	} else {
		c.load.allow(t.jobs)
		err = errors.Join(c.load.run(ctx), c.untilAtRest(ctx))
	}
	if err != nil {
		return r, err
	}
	if _, err := s.platform.Settled(ctx); err != nil {
		return r, err
	}
	in := judge.Input{Name: t.name, Submits: c.load.submitsOf(), Log: platform.ReadLog(s.platform.Log)}
	if in.Finals, err = finals(ctx, s.fleet); err != nil {
		return r, err
	}
	s.stopAll()
	if err := errors.Join(errors.Join(s.fell()...), s.platform.Stop()); err != nil {
		return r, err
	}
	return r, r.weigh(in)
}

// weigh has the judge say what became of the jobs, and counts the requests that are trials.
func (r *rate) weigh(in judge.Input) error {
	for rec, err := range in.Log {
		if err != nil {
			return err
		}
		late := rec.Fault == platform.Late && platform.KindOf(rec.Face) == platform.FaceFeed
		if rec.Type == platform.TypeRequest && (late || rec.Fault == platform.Slow) {
			r.Trials++
		}
	}
	report, err := judge.Judge(in)
	if err == nil {
		r.Rows = report.Rows
	}
	return err
}

// underFreezes runs the load on servers that freeze, but for the first, which deals
// with what they leave, and thaws them again, until there were as many freezes as
// wanted. It counts them.
func (c *campaign) underFreezes(ctx context.Context, wanted int) (freezes int, err error) {
	life := fleet.Life{Freeze: fmt.Sprintf("%s:%d", failpoint.Checked, freezeEach)}
	if err := c.each(func(i int) error {
		if i == 0 {
			return nil
		}
		_, err := c.fleet.Stop(i)
		return errors.Join(err, c.fleet.Start(ctx, i, life))
	}); err != nil {
		return 0, err
	}
	freezing, enough := context.WithCancel(ctx)
	defer enough()
	var count atomic.Int64
	var thaw sync.WaitGroup
	for i := 1; i < c.fleet.Size(); i++ {
		thaw.Go(func() { c.thaws(freezing, i, &count) })
	}
	thaw.Go(func() {
		c.pace(freezing, func() bool { return int(count.Load()) < wanted })
		c.load.stop()
	})
	err = c.load.run(ctx)
	enough()
	thaw.Wait()
	// Those that freeze now would freeze at the end, too.
	err = errors.Join(err, c.heal(ctx), c.untilAtRest(ctx))
	return int(count.Load()), err
}

// pace lets clients submit one job after the other as long as that is wanted.
func (c *campaign) pace(ctx context.Context, wanted func() bool) {
	tick := time.NewTicker(freezePace)
	defer tick.Stop()
	for n := 1; wanted(); n++ {
		c.load.allow(n)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// thaws lets a server go on each time that it has been frozen for a while, until ctx
// ends. It counts the freezes.
func (c *campaign) thaws(ctx context.Context, server int, freezes *atomic.Int64) {
	tick := time.NewTicker(freezePace / 2)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		if c.fleet.Frozen(server) {
			// Also the last one is frozen for as long as the others.
			time.Sleep(frozenFor)
			freezes.Add(1)
			c.fleet.Thaw(server)
		}
	}
}
