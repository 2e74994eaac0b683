// Package process runs the other processes of a comparison.
package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// readyBy bounds the start of a process, far above what it takes on a busy
// machine.
const readyBy = time.Minute

// Process is one life of a program.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it is gone
	err  error         // how it went, after done
}

// Start runs a command and waits for its first line, which says that it is
// ready. What it logs is appended to a file.
func Start(ctx context.Context, cmd *exec.Cmd, log string) (_ *Process, ready string, err error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, "", err
	}
	defer file.Close() //nolint:errcheck // the process has its own
	read, write, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = write, file, Attributes()
	if err := errors.Join(cmd.Start(), write.Close()); err != nil {
		return nil, "", errors.Join(err, read.Close())
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	_ = read.SetReadDeadline(time.Now().Add(readyBy)) // pipes have deadlines
	stop := context.AfterFunc(ctx, func() { _ = read.SetReadDeadline(time.Now()) })
	line, err := bufio.NewReader(read).ReadString('\n')
	stop()
	if err != nil {
		p.Kill()
		return nil, "", errors.Join(fmt.Errorf("%s did not get ready, see %s: %w", cmd, log, err), read.Close())
	}
	_ = read.SetReadDeadline(time.Time{})
	go func() {
		_, _ = io.Copy(io.Discard, read)
		_ = read.Close()
	}()
	return p, strings.TrimSpace(line), nil
}

// Kill ends it with SIGKILL, and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.done
}

// Alive says what is wrong if it has ended by itself.
func (p *Process) Alive() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended by itself: %w", p.cmd, p.err)
	default:
		return nil
	}
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Self is this program's path.
var Self = func() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}()

// Again prepares this program as another process.
func Again(args ...string) *exec.Cmd {
	return exec.Command(Self, args...) //nolint:noctx,gosec // ended by whoever starts it
}
