//go:build unix

// Command speed runs Fireonce and its peers on the same PostgreSQL, the same
// machine and the same receiver, one after the other within each repetition, and
// prints what each did, in proportion to River in the same repetition.
//
// Each measurement is a process of its own, on a database of its own. The
// receiver is another process. It counts how often each job's request arrives,
// and a run in which a job's effect is missing or there twice fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := dispatch(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1) //nolint:gocritic // stop only frees what ends with the process
	}
}

// dispatch runs the process as the role that its arguments name.
func dispatch(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "measure":
			return runMeasure(ctx, args[1:], os.Stdout)
		case "receive":
			return receiver.Serve(ctx, func(url string) { fmt.Println(url) })
		}
	}
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	return compare(ctx, o)
}

// options are the flags.
type options struct {
	quick, bars       bool
	repetitions       int
	only, dir, binary string
	profiles, systems string
	limit             time.Duration
	plan              plan
}

// plan is how much each benchmark measures.
type plan struct {
	size
	submit, batch, work, now, herd, burst, ended, load int
}

func fullPlan() plan {
	return plan{
		size: size{
			Callers: 64, Loaders: 4, Batch: 500, Senders: 128, RiverWorkers: 128, Gap: 50 * time.Millisecond, Ahead: 10 * time.Second,
			Few: 10_000, Many: 1_000_000, Most: 5_000_000, Held: 100_000, Ended: 10_000_000, Pending: 1_000_000,
			Streams: 1000, Events: 200, PerSecond: 10, Slow: 10, Burst: 5000, Soak: 30 * time.Minute, Pace: 1000,
		},
		submit: 10_000, batch: 50_000, work: 50_000, now: 100, herd: 10_000, burst: 1_000_000, ended: 5000, load: 20_000,
	}
}

// quickPlan takes about two minutes.
func quickPlan() plan {
	p := fullPlan()
	p.Many, p.Most, p.Held, p.Ended, p.Pending = 100_000, 200_000, 20_000, 100_000, 100_000
	p.Streams, p.Events, p.Burst = 200, 50, 0
	p.Gap, p.Ahead = 20*time.Millisecond, 6*time.Second
	p.submit, p.batch, p.work, p.now, p.herd, p.ended, p.load = 3000, 15_000, 5000, 40, 2000, 1000, 2000
	return p
}

func parse(args []string) (options, error) {
	o := options{plan: fullPlan()}
	for _, a := range args { // it decides what the other flags' defaults are
		if name := strings.TrimLeft(a, "-"); name != a && (name == "quick" || name == "quick=true") {
			o.quick, o.plan = true, quickPlan()
		}
	}
	repetitions := 5
	if o.quick {
		repetitions = 3
	}
	f := flag.NewFlagSet("speed", flag.ContinueOnError)
	f.BoolVar(&o.quick, "quick", o.quick, "the main ratios only, with few jobs: about two minutes")
	f.BoolVar(&o.bars, "bars", false, "fail also when a bar is missed")
	f.IntVar(&o.repetitions, "reps", repetitions, "repetitions; medians are taken over them")
	f.StringVar(&o.only, "only", "", "comma-separated names of benchmarks; empty: all, with -quick the short ones")
	f.StringVar(&o.systems, "systems", "", "comma-separated systems, such as river,network; empty: all")
	f.StringVar(&o.dir, "dir", "", "a folder on the disk to measure; empty: the system's for temporary files, if it is on a disk")
	f.StringVar(&o.binary, "fireonce", "", "the program to run; empty: built from source")
	f.StringVar(&o.profiles, "profiles", "", "a folder for processor profiles of the measuring processes and, if built from source, of the servers")
	f.DurationVar(&o.limit, "limit", 2*time.Hour, "the longest time for one measurement")
	f.DurationVar(&o.plan.Soak, "soak", o.plan.Soak, "how long the benchmark soak lasts, which runs only when it is named")
	o.plan.flags(f)
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	return o, o.check()
}

func (p *plan) flags(f *flag.FlagSet) {
	for _, n := range []struct {
		name, what string
		value      *int
	}{
		{"callers", "who submit one job at a time", &p.Callers},
		{"loaders", "who submit batches", &p.Loaders},
		{"batch", "jobs in a batch", &p.Batch},
		{"senders", "requests under way at once", &p.Senders},
		{"river-workers", "jobs that River takes at once; requests under way are bounded for it, too", &p.RiverWorkers},
		{"submit", "jobs that are submitted one by one", &p.submit},
		{"bulk", "jobs that are submitted in batches", &p.batch},
		{"backlog", "jobs that are worked off", &p.work},
		{"now", "jobs that are submitted to an idle system", &p.now},
		{"herd", "jobs that are due at once", &p.herd},
		{"burst-jobs", "jobs of a burst, which are due at once", &p.burst},
		{"few", "future jobs, the fewest", &p.Few},
		{"many", "future jobs, more", &p.Many},
		{"most", "future jobs, the most", &p.Most},
		{"held", "due jobs of a held connection", &p.Held},
		{"terminal", "jobs that have ended", &p.Ended},
		{"pending", "jobs in the server whose memory is measured", &p.Pending},
		{"load", "jobs that this server then gets and works", &p.load},
		{"streams", "subscribers", &p.Streams},
		{"events", "events for each of them", &p.Events},
		{"slow", "subscribers that stop reading for a while", &p.Slow},
		{"pace", "jobs a second of a soak", &p.Pace},
		{"burst", "events that come meanwhile; 0: nobody stops reading", &p.Burst},
	} {
		f.IntVar(n.value, n.name, *n.value, n.what)
	}
}

func (o options) check() error {
	p := o.plan
	for _, n := range []int{
		o.repetitions, p.Callers, p.Loaders, p.Batch, p.Senders, p.RiverWorkers, p.submit, p.batch, p.work, p.now, p.herd, p.burst,
		p.Few, p.Many, p.Most, p.Held, p.Ended, p.Pending, p.load, p.Streams, p.Events, p.Pace,
	} {
		if n < 1 {
			return errors.New("a number is out of range")
		}
	}
	if p.Batch > 500 || p.Slow < 1 || p.Burst < 0 || o.limit <= 0 || p.Soak < time.Second {
		return errors.New("a number is out of range")
	}
	_, err := o.chosen()
	return err
}

// chosen are the benchmarks to run.
func (o options) chosen() ([]benchmark, error) {
	var out []benchmark
	all := o.plan.benchmarks()
	for _, h := range all {
		if o.only == "" && (!o.quick || h.quick) && !h.named {
			out = append(out, h)
		}
	}
	if o.only == "" {
		return o.among(out)
	}
	for name := range strings.SplitSeq(o.only, ",") {
		n := len(out)
		for _, h := range all {
			if h.name == name {
				out = append(out, h)
			}
		}
		if len(out) == n {
			return nil, fmt.Errorf("no benchmark is named %q", name)
		}
	}
	return o.among(out)
}

// among keeps the chosen systems of each benchmark; a benchmark without any is left out.
func (o options) among(benchmarks []benchmark) ([]benchmark, error) {
	if o.systems == "" {
		return benchmarks, nil
	}
	known, out := make(map[string]bool), []benchmark(nil)
	for _, h := range benchmarks {
		var kept []system
		for _, c := range h.systems {
			system, _, _ := strings.Cut(c.measure, "/")
			if slices.Contains(strings.Split(o.systems, ","), system) {
				kept, known[system] = append(kept, c), true
			}
		}
		if h.systems = kept; len(kept) > 0 {
			out = append(out, h)
		}
	}
	for name := range strings.SplitSeq(o.systems, ",") {
		if !known[name] {
			return nil, fmt.Errorf("no system in these benchmarks is named %q", name)
		}
	}
	return out, nil
}
