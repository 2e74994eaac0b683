// Command mutant breaks the rules of the send protocol one by one and prints
// which the simulator notices. A harness that reports zero duplicates is worth
// what it finds when there is something to find.
//
// Each mutant is the real source with some lines replaced by a build overlay;
// there are no hooks for it in the code. One build holds the true code and all
// mutants, and an environment variable chooses one; a mutant that changes more than
// the bodies of functions has a build of its own. Each is run on the same worlds as
// the true code, which must pass them all. A mutant that survives, one that fails by
// anything but a violation, and one whose lines are no longer in the source fail the
// run.
//
//	go run ./internal/proof/mutant                   all of them
//	go run ./internal/proof/mutant -run 'look'       those whose name matches
//	go run ./internal/proof/mutant -list             what they drop
//	go run ./internal/proof/mutant -run NAME -worlds internal/proof/mutant/worlds.txt   for a new one
//	go run ./internal/proof/mutant -overlays DIR     writes DIR/NAME/overlay.json for each, and runs nothing
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	// defaultSeeds are the worlds of each test that the true code must pass, and a mutant must
	// fail.
	defaultSeeds = 1000
	// recurringShare is the part of them that has schedules, and that has breakers: one in so many.
	recurringShare = 3
)

type options struct {
	match         *regexp.Regexp
	first, seeds  uint64
	parallel      int
	list          bool
	keep, simArgs string
	overlays      string
	worlds        string // a file to write
	chunkTime     time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutant:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parseOptions(args)
	if err != nil {
		return err
	}
	all, err := catalogue(mutantFiles, "mutants")
	if err != nil {
		return err
	}
	if o.overlays != "" {
		// The campaigns take those of schedules and notices, too, which the simulator of the engine cannot.
		for folder, files := range map[string]embed.FS{"fired": firedFiles, "tested": testedFiles} {
			more, err := catalogue(files, folder)
			if err != nil {
				return err
			}
			all = append(all, more...)
		}
	}
	chosen := o.choose(all)
	if len(chosen) == 0 {
		return errors.New("no mutant has such a name")
	}
	if o.list {
		list(os.Stdout, chosen)
		return nil
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if o.overlays != "" {
		return writeOverlays(root, o.overlays, chosen)
	}
	dir, clean, err := workDir(o.keep)
	if err != nil {
		return err
	}
	defer clean()
	known, err := knownWorlds(worldsText)
	if err != nil {
		return err
	}
	if o.worlds != "" {
		known = nil
	}
	c := campaign{options: o, root: root, catalogue: all, known: known, out: os.Stdout, harness: harness{
		dir: dir, chunkTime: o.chunkTime, extra: strings.Fields(o.simArgs),
	}}
	return c.run(ctx, chosen)
}

func parseOptions(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("mutant", flag.ContinueOnError)
	pattern := fs.String("run", "", "regular expression: only mutants whose name matches")
	fs.Uint64Var(&o.first, "first", 1, "seed of the first world")
	fs.Uint64Var(&o.seeds, "seeds", defaultSeeds, "worlds of each test")
	fs.IntVar(&o.parallel, "parallel", 2, "mutants at once")
	fs.BoolVar(&o.list, "list", false, "list the mutants and what they drop")
	fs.StringVar(&o.keep, "keep", "", "directory to build in, and to leave as it is")
	fs.StringVar(&o.overlays, "overlays", "", "`directory` for the overlays of the mutants; then nothing is run. They are for go build -overlay")
	fs.StringVar(&o.simArgs, "sim", "", "more flags for the simulator, separated by spaces")
	fs.StringVar(&o.worlds, "worlds", "", "search from the first seed, and write to this `file` which world noticed which mutant")
	fs.DurationVar(&o.chunkTime, "timeout", 10*time.Minute, "for one process of the simulator")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	var err error
	o.match, err = regexp.Compile(*pattern)
	o.parallel = max(1, o.parallel)
	return o, err
}

// choose returns the mutants that the options ask for.
func (o options) choose(all []mutant) []mutant {
	var out []mutant
	for _, m := range all {
		if o.match.MatchString(m.name) {
			out = append(out, m)
		}
	}
	return out
}

// moduleRoot finds the go.mod above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			err = errors.New("no go.mod above the working directory")
		}
		dir = up
	}
	return "", err
}

// workDir returns a directory to build in, and what removes it.
func workDir(keep string) (dir string, clean func(), err error) {
	if keep != "" {
		dir, err = filepath.Abs(keep)
		if err != nil {
			return "", nil, err
		}
		return dir, func() {}, os.MkdirAll(dir, 0o750)
	}
	if dir, err = os.MkdirTemp("", "mutant"); err != nil {
		return "", nil, err
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}
