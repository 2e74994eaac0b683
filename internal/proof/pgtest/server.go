//go:build unix

package pgtest

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds the start and the stop of a server: far more than they need.
const patience = time.Minute

// How is how a server is stopped.
type How int

const (
	// Fast ends open transactions and writes a checkpoint.
	Fast How = iota
	// Immediate is a crash of PostgreSQL: nothing is written any more; the next
	// start recovers from the log.
	Immediate
)

// server is one life of the postmaster.
type server struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it is gone
	err  error         // how it went, after done
}

// Stop ends the server and waits for its end.
func (c *Cluster) Stop(tb testing.TB, how How) {
	tb.Helper()
	if err := c.down(how); err != nil {
		tb.Fatal(err)
	}
}

// Start starts a stopped server again, under the same address.
func (c *Cluster) Start(tb testing.TB) {
	tb.Helper()
	if err := c.up(); err != nil {
		tb.Fatal(err)
	}
}

// Restart stops the server and starts it again.
func (c *Cluster) Restart(tb testing.TB, how How) {
	tb.Helper()
	c.Stop(tb, how)
	c.Start(tb)
}

func (c *Cluster) running() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server != nil
}

func (c *Cluster) up() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		return errors.New("pgtest: the server runs already")
	}
	ready := c.log.expect("database system is ready to accept")
	s := &server{cmd: c.owner.command(c.dir, filepath.Join(c.bin, "postgres"), "-D", c.data()), done: make(chan struct{})}
	s.cmd.Env = append(s.cmd.Env, c.env...)
	s.cmd.Stdout, s.cmd.Stderr = c.log, c.log
	s.cmd.WaitDelay = patience
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	select {
	case <-ready:
		c.server = s
		return nil
	case <-s.done:
		return fmt.Errorf("pgtest: PostgreSQL did not start: %w\n%s", s.err, c.log)
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("pgtest: PostgreSQL did not start in %v\n%s", patience, c.log), s.stop(syscall.SIGQUIT))
	}
}

func (c *Cluster) down(how How) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		return errors.New("pgtest: the server does not run")
	}
	sig := syscall.SIGINT
	if how == Immediate {
		sig = syscall.SIGQUIT
	}
	s := c.server
	c.server = nil
	return s.stop(sig)
}

func (s *server) stop(sig syscall.Signal) error {
	if err := s.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("pgtest: stop: %w", err)
	}
	select {
	case <-s.done:
		return nil // an immediate stop is no success to its parent
	case <-time.After(patience):
		return fmt.Errorf("pgtest: PostgreSQL did not stop in %v", patience)
	}
}

// tail keeps the last part of a log.
type tail struct {
	mu    sync.Mutex
	text  []byte
	line  []byte // the last one, while it is incomplete
	words []byte // waited for
	found chan struct{}
}

// tailBytes bounds a log; lineBytes bounds what is searched of one line.
const (
	tailBytes = 64 << 10
	lineBytes = 4 << 10
)

// expect returns a channel that is closed when a line with these words comes.
func (t *tail) expect(words string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.words, t.found = []byte(words), make(chan struct{})
	return t.found
}

// Write takes what the server logs.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - tailBytes; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	t.line = append(t.line, b...)
	for {
		end := bytes.IndexByte(t.line, '\n')
		if end < 0 {
			break
		}
		if t.found != nil && bytes.Contains(t.line[:end], t.words) {
			close(t.found)
			t.found = nil
		}
		t.line = t.line[end+1:]
	}
	if len(t.line) > lineBytes {
		t.line = t.line[len(t.line)-lineBytes:]
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
