package platform

import (
	"bufio"
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

// Process is a platform in a process of its own. It ends with whoever started
// it, whatever way that ends.
type Process struct {
	Control
	// Log is the path of the log.
	Log string

	cmd   *exec.Cmd
	input io.Closer
	ended chan struct{} // closed when the process has ended, as err says
	err   error
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
	p := &Process{Log: opts.Log, cmd: exec.CommandContext(context.WithoutCancel(ctx), command[0], args...), ended: make(chan struct{})} //nolint:gosec // the caller's own program
	var said strings.Builder
	p.cmd.Stderr = &said
	input, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.input = input
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n') // without a line there is no URL
		ready <- strings.TrimSuffix(strings.TrimPrefix(line, readyPrefix), "\n")
		_, _ = io.Copy(io.Discard, out)
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case p.URL = <-ready:
	case <-ctx.Done():
	}
	if p.URL == "" {
		err := p.Stop()
		return nil, fmt.Errorf("the platform did not start: %w\n%s", errors.Join(err, ctx.Err()), said.String())
	}
	return p, nil
}

// Done is closed when the process has ended, which nobody but Stop should cause.
func (p *Process) Done() <-chan struct{} { return p.ended }

// Stop ends the process, and says whether its log is whole. Safe to call twice.
func (p *Process) Stop() error {
	_ = p.input.Close() // twice, the second time
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	return p.err
}
