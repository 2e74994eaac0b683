// Command storm measures what a storm of failures costs with a subscription, and proves that it is
// told: the real server with its default settings gets jobs whose receiver refuses each for good, a
// hundred thousand of them. Two servers on databases of their own get the same jobs in turns, a part
// at a time; one has a subscription. It prints how many notices came, how far they were behind, the
// memory of both servers, and how many jobs a second each stored and ended.
//
// It fails if the notices do not have or count each failure once, in the order of the log of events,
// or if one has no outcome.
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
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
)

const (
	defaultJobs = 100_000
	// parts is how many turns each server has.
	parts = 10
)

// The two servers.
const with, without = "with", "without"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "storm:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	set := flag.NewFlagSet("storm", flag.ContinueOnError)
	jobs := set.Int("jobs", defaultJobs, "how many failures, on each engine")
	engine := set.String("engine", "both", "postgres, sqlite or both")
	takes := set.Duration("takes", time.Second, "how long the receiver of notices takes for each")
	binary := set.String("binary", "", "run this `PROGRAM` instead of building one")
	if err := set.Parse(args); err != nil {
		return err
	}
	if *jobs < parts {
		return fmt.Errorf("-jobs must be at least %d", parts)
	}
	dir, err := os.MkdirTemp("", "storm")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if *binary == "" {
		*binary = filepath.Join(dir, "fireonce")
		if err := fleet.Build(ctx, *binary, ""); err != nil {
			return err
		}
	}
	ran := false
	for _, name := range []string{"postgres", "sqlite"} { // one after the other: two would slow each other
		if *engine != "both" && *engine != name {
			continue
		}
		ran = true
		if err := measure(ctx, name, *binary, dir, *jobs, *takes, out); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if !ran {
		return fmt.Errorf("-engine %q: must be postgres, sqlite or both", *engine)
	}
	return nil
}

// databases returns the URLs of two empty databases.
func databases(ctx context.Context, engine, dir string) (urls [2]string, closes func(), err error) {
	if engine == "sqlite" {
		for i := range urls {
			urls[i] = "sqlite:" + filepath.Join(dir, fmt.Sprintf("storm-%d.db", i))
		}
		return urls, func() {}, nil
	}
	cluster, err := pgtest.Open(pgtest.Options{})
	if err != nil {
		return urls, nil, err
	}
	for i := range urls {
		name, err := cluster.CreateDatabase(ctx)
		if err != nil {
			return urls, nil, errors.Join(err, cluster.Close())
		}
		urls[i] = cluster.URL(name)
	}
	return urls, func() { _ = cluster.Close() }, nil
}

// measure runs the storm on one engine.
func measure(ctx context.Context, engine, binary, dir string, jobs int, takes time.Duration, out io.Writer) error {
	urls, closes, err := databases(ctx, engine, dir)
	if err != nil {
		return err
	}
	defer closes()
	to := startReceivers(takes)
	defer to.http.Close()
	var sides [2]*side
	for i, name := range []string{without, with} {
		work := filepath.Join(dir, engine+"-"+name)
		if err := os.Mkdir(work, 0o750); err != nil {
			return err
		}
		sides[i] = newSide(name, to, fleet.Options{
			Binary: binary, Dir: work, Servers: 1, Database: urls[i], Args: []string{"--dev", "--key-file", "storm.key", "--log-level", "error", "--breaker-after", "0"},
		})
		defer sides[i].fleet.Close()
		if err := sides[i].start(ctx, name == with); err != nil {
			return err
		}
	}
	size := jobs / parts
	for part := range parts {
		turn := []*side{sides[part%2], sides[1-part%2]} // each is first in every other part
		for _, s := range turn {
			if err := s.part(ctx, size); err != nil {
				return fmt.Errorf("%s, part %d: %w", s.name, part, err)
			}
		}
	}
	if err := to.wait(ctx, size*parts); err != nil {
		return err
	}
	told, err := to.weigh(size * parts)
	if err != nil {
		return err
	}
	if err := sides[1].quiet(ctx); err != nil {
		return err
	}
	notices := to.all()
	has, err := sides[1].history(ctx, notices)
	if err != nil {
		return err
	}
	if err := has.compare(notices, size*parts); err != nil {
		return err
	}
	report(out, engine, size*parts, sides, told)
	return nil
}
