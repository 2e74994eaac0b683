package platform

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/proof/proc"
)

// Bounds on a platform's process.
const (
	startTimeout = 3 * time.Minute // with sites, of which one is another program
	stopTimeout  = 30 * time.Second
)

// Command runs a platform as the process that Spawn starts: a program's
// subcommand hands over its arguments, and the sites. It ends with ctx or with its
// input.
func Command(ctx context.Context, args []string, in io.Reader, out io.Writer, sites ...Site) error {
	opts := Options{Out: out, Sites: sites}
	flags := flag.NewFlagSet("platform", flag.ContinueOnError)
	flags.StringVar(&opts.Log, "log", "", "the `file` to make for the log")
	flags.Uint64Var(&opts.Seed, "seed", 1, "decides, with the faults, what becomes of each request")
	flags.IntVar(&opts.Keys, "keys", DefaultKeys, "how many keys the keyed receiver remembers")
	faults := flags.String("faults", "", "what goes wrong, as `JSON`; empty: nothing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if opts.Faults, err = parseFaults([]byte(*faults)); err != nil {
		return fmt.Errorf("faults: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in) // whatever ends it: who wrote is gone
		cancel()
	}()
	return Run(ctx, opts)
}

// Process is a platform in a process of its own. It ends with the program that started
// it, however that ends.
type Process struct {
	*proc.Process
	Control
	// Log is the path of the log.
	Log string

	input io.Closer
}

// Spawn starts command, whose arguments it adds to and which leads to Command,
// and waits until the platform serves. Options.Out is not used.
func Spawn(ctx context.Context, command []string, opts Options) (*Process, error) {
	faults, err := json.Marshal(opts.Faults)
	if err != nil {
		return nil, err
	}
	args := append(command[1:len(command):len(command)],
		"-log", opts.Log, "-seed", strconv.FormatUint(opts.Seed, 10), "-keys", strconv.Itoa(opts.Keys), "-faults", string(faults))
	cmd := exec.Command(command[0], args...) //nolint:noctx,gosec // the caller's own program, which ends with its input
	var said strings.Builder
	cmd.Stderr = &said
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	started, err := proc.Start(cmd)
	if err != nil {
		return nil, err
	}
	p := &Process{Process: started, Log: opts.Log, input: input}
	line, err := p.Ready(ctx, startTimeout)
	if err != nil {
		return nil, fmt.Errorf("the platform did not start: %w\n%s", errors.Join(err, p.Err()), said.String())
	}
	p.URL = strings.TrimPrefix(line, readyPrefix)
	return p, nil
}

// Stop ends the process, and returns an error if its log is not whole. It may be called twice.
func (p *Process) Stop() error {
	_ = p.input.Close() // twice, the second time
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.Done():
	case <-timer.C:
		p.Kill()
	}
	return p.Err()
}
