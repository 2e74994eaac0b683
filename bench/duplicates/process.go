package main

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

// process is one life of a worker.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it is gone
	err  error         // how it went, after done
}

// start runs a command and waits for its first line, which says that it is
// ready. What it logs is appended to a file.
func start(ctx context.Context, cmd *exec.Cmd, log string) (_ *process, ready string, err error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, "", err
	}
	defer file.Close() //nolint:errcheck // the process has its own
	read, write, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = write, file, attributes()
	if err := errors.Join(cmd.Start(), write.Close()); err != nil {
		return nil, "", errors.Join(err, read.Close())
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	_ = read.SetReadDeadline(time.Now().Add(readyBy)) // pipes have deadlines
	stop := context.AfterFunc(ctx, func() { _ = read.SetReadDeadline(time.Now()) })
	line, err := bufio.NewReader(read).ReadString('\n')
	stop()
	if err != nil {
		p.kill()
		return nil, "", errors.Join(fmt.Errorf("%s did not get ready, see %s: %w", cmd, log, err), read.Close())
	}
	_ = read.SetReadDeadline(time.Time{})
	go func() {
		_, _ = io.Copy(io.Discard, read)
		_ = read.Close()
	}()
	return p, strings.TrimSpace(line), nil
}

// kill ends it with SIGKILL, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.done
}

// alive says what is wrong if it has ended by itself.
func (p *process) alive() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended by itself: %w", p.cmd, p.err)
	default:
		return nil
	}
}
