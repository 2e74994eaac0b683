// Package demo shows on one screen what Fireonce does: a receiver loses a third of
// its answers after it has acted, the server is killed in mid-send, and still every
// job takes effect once. For comparison, it also runs a client that simply retries.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// Options configure a demo.
type Options struct {
	// Jobs is the number of jobs of each of the three trials.
	Jobs int
	// Loss is the share of answers that are lost.
	Loss float64
	// Seed determines which answers are lost.
	Seed uint64
	// Out gets the output; Terminal draws progress in place.
	Out      io.Writer
	Terminal bool
	// Binary is the program whose `serve` is run and killed.
	Binary string
}

const (
	maxJobs = 2000
	// limit bounds the whole demo.
	limit = 3 * time.Minute
	// spread is how long it takes to schedule all jobs.
	spread = 8 * time.Second
	// lead is how far ahead each job is scheduled.
	lead = 500 * time.Millisecond
	// attemptTimeout is how long every client waits for an answer.
	attemptTimeout = 2 * time.Second
	// grace is how much longer the server waits before an outcome counts as unknown.
	grace = 3 * time.Second
)

// Run runs the demo. It fails if Fireonce made a duplicate or lost a job.
func Run(ctx context.Context, o Options) (err error) {
	if o.Jobs < 1 || o.Jobs > maxJobs {
		return exit.Usagef("--jobs must be 1 to %d", maxJobs)
	}
	if o.Loss < 0 || o.Loss > 1 {
		return exit.Usagef("--loss must be 0 to 1")
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	dir, err := os.MkdirTemp("", "fireonce-demo-")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(dir)
		} else {
			fmt.Fprintf(o.Out, "\nThe database and the server's log are in %s\n", dir)
		}
	}()
	s, err := newShow(ctx, o, dir)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.play(ctx); err != nil {
		return err
	}
	return s.table()
}

// show is one run of the demo.
type show struct {
	Options
	server *process
	faults faults
	keyed  *trial
	blind  *trial
	naive  *naive
	screen *screen
	// midSend is closed when the receiver has a request that it does not answer. That is
	// the moment to kill the server.
	midSend chan struct{}
}

// newShow starts the receivers and the server.
func newShow(ctx context.Context, o Options, dir string) (_ *show, err error) {
	s := &show{
		Options: o, faults: faults{loss: o.Loss, seed: o.Seed},
		midSend: make(chan struct{}, 1),
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.screen = newScreen(s)
	s.server = &process{binary: o.Binary, dir: dir, log: filepath.Join(dir, "server.log")}
	trap := &trap{after: o.Jobs / 2, sprung: s.midSend}
	if s.keyed, err = newTrial("keyed", receiver.Options{Dedupes: true, Plan: trap.plan(s.faults.plan)}); err != nil {
		return nil, err
	}
	if s.blind, err = newTrial("blind", receiver.Options{Plan: s.faults.plan}); err != nil {
		return nil, err
	}
	if s.naive, err = newNaive(receiver.Options{Dedupes: true, Plan: s.faults.plan}); err != nil {
		return nil, err
	}
	if err := s.server.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *show) close() {
	s.screen.stop()
	if s.server != nil {
		s.server.kill()
	}
	for _, l := range []*trial{s.keyed, s.blind} {
		if l != nil {
			_ = l.receiver.Close()
		}
	}
	if s.naive != nil {
		_ = s.naive.receiver.Close()
	}
}

// play schedules jobs, kills and restarts the server, and waits until all jobs are at rest.
func (s *show) play(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.screen.intro()
	api, err := s.server.dial()
	if err != nil {
		return err
	}
	for _, l := range []*trial{s.keyed, s.blind} {
		if err := l.connect(ctx, api); err != nil {
			return fmt.Errorf("create a connection: %w", err)
		}
	}
	s.screen.start()
	done := make(chan error, 4)
	go func() { done <- s.keyed.run(ctx, api, s.Jobs) }()
	go func() { done <- s.blind.run(ctx, api, s.Jobs) }()
	go func() { done <- s.naive.run(ctx, s.Jobs) }()
	go func() { done <- s.crash(ctx) }()
	var first error
	for range cap(done) {
		if err := <-done; err != nil && first == nil {
			first = err
			cancel(err)
		}
	}
	s.screen.stop()
	return first
}

// crash kills the server while a request is under way, and starts it again.
func (s *show) crash(ctx context.Context) error {
	select {
	case <-s.midSend:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.server.kill()
	s.screen.say("The server got SIGKILL while a request was under way. Starting it again on the same database.")
	if err := s.server.start(ctx); err != nil {
		return fmt.Errorf("start again: %w", err)
	}
	return nil
}

// errBroken is returned if Fireonce has not kept its promise.
var errBroken = errors.New("FIREONCE HAS NOT KEPT ITS PROMISE")
