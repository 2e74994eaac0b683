// Command chaos is the crash campaign: real servers on a real database send real
// requests, while processes are killed and frozen, clocks are set, PostgreSQL
// crashes, and a platform loses its answers. In the end every job must be at rest,
// and what the service says must be what happened. The judge is the platform's log.
//
// A campaign's order, for each engine, all at the same time:
//
//  1. Load under faults. Clients submit jobs of all classes and policies, and repeat
//     what was not answered; the nemesis carries out its plan; the platform's answers
//     go wrong by the seed; a naive client that retries does the same beside them.
//     Schedules fire all the while; hands trigger, pause and resume them and fill their
//     queues; a naive scheduler fires beside them, and dies when servers die.
//     Subscriptions tell receivers of the jobs' ends, through the same faults.
//     A fault waits until so many jobs are at rest as are its turn.
//  2. Nine of ten jobs are at rest: all faults are over. Every time of a schedule must be
//     decided, every job come to rest, and the last notice be delivered in bounded time.
//  3. Every job, firing and event is read over the API, and weighed against what the
//     clients were answered, when schedules should have fired, and what the platform logged,
//     its receivers of notices included.
//
// It fails if there is a duplicate, a lost job, a false verdict or a gap in the events; if a notice
// is lost, has no event, or is out of order; if too much was left undone, or nothing came forward
// for long; and if faults did not arrive or the naive client or scheduler made no duplicates, for
// then a zero would prove nothing.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/attack"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
	"github.com/fireonce/fireonce/internal/proof/chaos/sites"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == "platform":
		// It ends with its standard input: a Ctrl-C is for the campaign.
		err = platform.Command(context.WithoutCancel(ctx), os.Args[2:], os.Stdin, os.Stdout)
	case len(os.Args) > 1 && os.Args[1] == "attack":
		err = attack.Command(context.WithoutCancel(ctx), os.Args[2:], os.Stdin, os.Stdout)
	case len(os.Args) > 2 && os.Args[1] == "platforms":
		err = hostSites(context.WithoutCancel(ctx), os.Args[2], os.Args[3:])
	default:
		err = command(ctx, os.Args[1:], os.Stdout)
	}
	stop()
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// hostSites is the platform's process with the sites in it, which keep files in dir.
func hostSites(ctx context.Context, dir string, args []string) error {
	all, err := sites.Start(ctx, dir)
	if err != nil {
		return err
	}
	return platform.Command(ctx, args, os.Stdin, os.Stdout, all...)
}

// errViolated means that the campaign found something, which is printed already.
var errViolated = errors.New("the campaign has failed; see above")

// command runs one command line.
func command(ctx context.Context, args []string, w io.Writer) (err error) {
	o, err := parse(args, w)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fireonce-chaos-")
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		} else if o.keep || err != nil {
			fmt.Fprintf(os.Stderr, "chaos: logs and databases are kept in %s\n", dir) // not the last line of w
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	binary := o.binary
	if binary == "" {
		binary = filepath.Join(dir, "fireonce")
		if err := fleet.Build(ctx, binary, o.overlay); err != nil {
			return err
		}
	}
	say := sayer(w)
	if o.outside {
		return measure(ctx, o, dir, binary, w, say)
	}
	if o.neighbors {
		return besideNeighbors(ctx, o, dir, binary, w)
	}
	return campaigns(ctx, o, dir, binary, w, say)
}

// campaigns runs the engines beside each other, of a soak one after the other, and says
// what all of them showed.
func campaigns(ctx context.Context, o options, dir, binary string, w io.Writer, say func(string, ...any)) error {
	begun := time.Now()
	ctx, cancel := context.WithCancel(ctx) // one that cannot go on ends the others
	defer cancel()
	all, errs := make([]*outcome, len(o.engines)), make([]error, len(o.engines))
	var running sync.WaitGroup
	for i, engine := range o.engines {
		own := filepath.Join(dir, engine)
		if err := os.Mkdir(own, 0o700); err != nil {
			return err
		}
		running.Go(func() {
			if all[i], errs[i] = run(ctx, o, engine, own, binary, say); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", engine, errs[i])
				cancel()
			}
		})
		if o.soak {
			running.Wait() // two would slow each other
		}
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	ok, err := tell(w, o, time.Since(begun), all)
	if err == nil && !ok {
		err = errViolated
	}
	return err
}

// sayer prints lines, each whole.
func sayer(w io.Writer) func(string, ...any) {
	var mu sync.Mutex
	return func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(w, format+"\n", args...)
	}
}
