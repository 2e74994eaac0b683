package attack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// lastWords bounds the end of the attackers' process, which waits for nothing.
const lastWords = 2 * time.Minute

// Command runs the attackers as the process that Spawn starts: a program's subcommand
// hands over its arguments. The first line of in is the keys, each further one the
// listeners to attack from then on; the end of in ends the attack, and the tally goes to
// out. Keys are no arguments: every user of the machine can read those.
func Command(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("attack", flag.ContinueOnError)
	if err := flags.Parse(args); err != nil {
		return err
	}
	orders := json.NewDecoder(in)
	var keys Keys
	if err := orders.Decode(&keys); err != nil {
		return fmt.Errorf("read the keys: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tarpit, err := loopback.Listen() //nolint:contextcheck // it lives until it is closed
	if err != nil {
		return err
	}
	tarpit.Serve(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ctx.Done():
		}
	}))
	c := newCampaign(keys, tarpit.URL())
	go c.run(ctx, kinds())
	for {
		var at []Listener
		if err := orders.Decode(&at); err != nil {
			break // the end, whatever it is called
		}
		c.aim(at)
	}
	cancel()
	// Workers may be in the middle of making a large request. They end with the process.
	return errors.Join(tarpit.Close(), c.tell(out))
}

// Process is the attackers in a process of their own. It ends with this one.
type Process struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
	said   strings.Builder // on standard error
}

// Spawn starts command, which leads to Command. Nothing is attacked yet.
func Spawn(ctx context.Context, command []string, keys Keys) (*Process, error) {
	p := &Process{cmd: exec.CommandContext(context.WithoutCancel(ctx), command[0], command[1:]...)} //nolint:gosec // the caller's own program
	p.cmd.Stderr = &p.said
	var err error
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.output = bufio.NewReader(output)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, json.NewEncoder(p.input).Encode(keys)
}

// Aim sets which listeners to attack from now on; none: the attack pauses.
func (p *Process) Aim(at []Listener) error { return json.NewEncoder(p.input).Encode(at) }

// Stop ends the attack and returns what was done.
func (p *Process) Stop() (Tally, error) {
	if err := p.input.Close(); err != nil {
		return nil, err
	}
	late := time.AfterFunc(lastWords, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	var tally Tally
	decodeErr := json.NewDecoder(p.output).Decode(&tally)
	if err := errors.Join(p.cmd.Wait(), decodeErr); err != nil {
		return nil, fmt.Errorf("the attackers did not end well: %w\n%s", err, p.said.String())
	}
	return tally, nil
}
