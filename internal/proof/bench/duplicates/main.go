//go:build unix

// Command duplicates runs the same jobs through several ways of getting them
// done, over the same unreliable network and the same crashes, and counts at the
// receiver how often each job took effect.
//
// Each system's worker is a process that is killed with SIGKILL again and again.
// The receiver is a process of its own; what it has written to its log is the
// only judge. Answers are lost as a function of the seed, the job and the number
// of its request, so that all systems meet the same faults.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
	"github.com/fireonce/fireonce/internal/proof/pgtest"

	"github.com/fireonce/fireonce/internal/proof/bench/internal/program"
	"github.com/fireonce/fireonce/internal/proof/bench/internal/redis"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := dispatch(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "duplicates:", err)
		os.Exit(1) //nolint:gocritic // stop only frees what ends with the process
	}
}

// dispatch runs the process as the role that its arguments name.
func dispatch(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "worker":
			return runWorker(ctx, args[1:])
		case "platform":
			return platform.Command(ctx, args[1:], os.Stdin, os.Stdout)
		}
	}
	return compare(ctx, args)
}

// options are the flags.
type options struct {
	settings
	parallel     int
	only, binary string
}

func parse(args []string) (options, error) {
	o := options{settings: settings{faults: faults()}}
	f := flag.NewFlagSet("duplicates", flag.ContinueOnError)
	f.IntVar(&o.jobs, "jobs", 1000, "jobs for each system")
	f.IntVar(&o.kills, "kills", 10, "how often each system's worker is killed")
	f.IntVar(&o.senders, "concurrency", 16, "requests under way at once, in each system")
	f.DurationVar(&o.timeout, "timeout", 2*time.Second, "of a request")
	f.DurationVar(&o.limit, "limit", 6*time.Minute, "the longest time for one system; what waits longer is unfinished")
	f.Uint64Var(&o.seed, "seed", 1, "decides which requests go wrong")
	f.IntVar(&o.parallel, "parallel", 4, "systems that run at once")
	f.StringVar(&o.only, "only", "", "comma-separated beginnings of names: run these systems only")
	f.StringVar(&o.binary, "fireonce", "", "the program to run; empty: built from source")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.jobs < 1 || o.kills < 0 || o.kills >= o.jobs || o.senders < 1 || o.parallel < 1 || o.timeout <= 0 || o.limit <= 0 {
		return o, errors.New("a number is out of range")
	}
	if len(o.chosen()) == 0 {
		return o, fmt.Errorf("no system's name begins with %q", o.only)
	}
	return o, nil
}

// faults are those of the crash campaign, without refusals: these are answers,
// and whether to try again after one is a matter of taste.
func faults() platform.Faults {
	f := platform.DefaultFaults()
	delete(f.Rates, platform.Refuse)
	return f
}

// chosen are the systems to run.
func (o options) chosen() []entry {
	var out []entry
	for _, e := range entries() {
		for name := range strings.SplitSeq(o.only, ",") {
			if strings.HasPrefix(strings.ToLower(e.name), strings.ToLower(name)) {
				out = append(out, e)
				break
			}
		}
	}
	return out
}

func compare(ctx context.Context, args []string) (err error) {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fireonce-duplicates-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w\nlogs are kept in %s", err, dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if o.binary == "" {
		o.binary = filepath.Join(dir, "fireonce")
		if err := program.Build(ctx, o.binary); err != nil {
			return err
		}
	}
	cluster, err := pgtest.Open(pgtest.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	results, err := o.run(ctx, environment{
		settings: o.settings, dir: dir, binary: o.binary, cluster: cluster, redis: redis.Program(), subjects: subjects(o.jobs),
	})
	if err != nil {
		return err
	}
	if err := report(os.Stdout, o.settings, results); err != nil {
		return err
	}
	return verdict(results)
}

// run runs all systems, some concurrently, and returns their results in their order.
func (o options) run(ctx context.Context, h environment) ([]result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	chosen := o.chosen()
	results := make([]result, len(chosen))
	slots := make(chan struct{}, o.parallel)
	var all sync.WaitGroup
	for i, e := range chosen {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if ctx.Err() != nil {
				return
			}
			r, err := e.run(ctx, h)
			switch {
			case errors.Is(err, redis.ErrNone):
				r.Skipped = err.Error()
			case err != nil:
				cancel(err)
			}
			results[i] = r
			fmt.Fprintf(os.Stderr, "%-22s %s\n", e.name, brief(r, err))
		})
	}
	all.Wait()
	return results, context.Cause(ctx)
}

func brief(r result, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d effects of %d jobs in %.0f s", r.Effects, r.Jobs, r.Seconds)
}
