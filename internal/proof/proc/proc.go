// Package proc runs the other programs of a test, a campaign or a benchmark as processes that
// can be signaled, killed and awaited, and that do not outlive the program that started them.
package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// ReadyBy bounds the start of a server, far above what it takes on a busy machine.
const ReadyBy = time.Minute

// thawEach is how often Stop looks for a process that has frozen.
const thawEach = 100 * time.Millisecond

// Process is one life of a program. It is safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	out  *os.File      // its standard output, for Ready; nil: the caller has it
	done chan struct{} // closed when it has ended
	err  error         // how it ended, after done
}

// Start runs a command, which must not be bound to a context, for Kill and Stop end it. Its
// standard output is for Ready unless the caller has set it. The caller decides about its
// standard error.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	var write *os.File
	if cmd.Stdout == nil {
		var err error
		if p.out, write, err = os.Pipe(); err != nil {
			return nil, err
		}
		cmd.Stdout = write
	}
	cmd.SysProcAttr = Attributes()
	err := cmd.Start()
	if write != nil {
		err = errors.Join(err, write.Close())
	}
	if err != nil {
		if p.out != nil {
			err = errors.Join(err, p.out.Close())
		}
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// StartLogged is Start for a program whose standard error is appended to a file.
func StartLogged(cmd *exec.Cmd, log string) (*Process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // the process has its own
	cmd.Stderr = file
	return Start(cmd)
}

// Serve is StartLogged and Ready for a program that serves, within ReadyBy.
func Serve(ctx context.Context, cmd *exec.Cmd, log string) (_ *Process, ready string, err error) {
	p, err := StartLogged(cmd, log)
	if err != nil {
		return nil, "", err
	}
	if ready, err = p.Ready(ctx, ReadyBy); err != nil {
		return nil, "", fmt.Errorf("%w; see %s", err, log)
	}
	return p, ready, nil
}

// Ready waits for the first line of standard output, by which a program says that it serves,
// and returns it without its end. What follows on standard output is discarded. Ready is called
// once; it kills the process when there is no line in time.
func (p *Process) Ready(ctx context.Context, within time.Duration) (line string, err error) {
	_ = p.out.SetReadDeadline(time.Now().Add(within)) // pipes have deadlines
	stop := context.AfterFunc(ctx, func() { _ = p.out.SetReadDeadline(time.Now()) })
	line, err = bufio.NewReader(p.out).ReadString('\n')
	stop()
	line = strings.TrimSpace(line)
	if err != nil {
		p.Kill()
		return line, errors.Join(fmt.Errorf("%s was not ready: %q: %w", p.cmd, line, err), p.out.Close())
	}
	_ = p.out.SetReadDeadline(time.Time{})
	go func() {
		_, _ = io.Copy(io.Discard, p.out)
		_ = p.out.Close()
	}()
	return line, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Program is the path of the program.
func (p *Process) Program() string { return p.cmd.Path }

// Done is closed when the process has ended, and all that it wrote is there.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err waits until the process has ended, and returns how: nil for exit code 0.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// ExitCode waits until the process has ended, and returns its exit code; -1: a signal ended it.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Alive returns an error if the process has ended.
func (p *Process) Alive() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended by itself: %w", p.cmd, p.err)
	default:
		return nil
	}
}

// Signal sends a signal. It fails with os.ErrProcessDone if the process has ended.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the process with SIGKILL, frozen or not, and waits until it has ended.
func (p *Process) Kill() {
	_ = p.Signal(syscall.SIGKILL) // it may have ended already
	<-p.done
}

// Stop ends the process with SIGTERM and returns how it ended. It fails with
// os.ErrProcessDone if the process had ended before. A process that freezes on its way to the
// end is thawed; one that does not end in time is killed.
func (p *Process) Stop(within time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		<-p.done // it has ended; how, is known a moment later
		return err
	}
	limit := time.NewTimer(within)
	defer limit.Stop()
	look := time.NewTicker(thawEach)
	defer look.Stop()
	for {
		select {
		case <-p.done:
			return p.err
		case <-look.C:
			if p.Frozen() {
				_ = p.Signal(syscall.SIGCONT) // it may have ended already
			}
		case <-limit.C:
			p.Kill()
			return fmt.Errorf("%s did not stop in %v", p.cmd, within)
		}
	}
}

// Killed waits until the process has ended, and reports whether SIGKILL ended it.
func (p *Process) Killed() bool {
	var exit *exec.ExitError
	if !errors.As(p.Err(), &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Frozen reports whether SIGSTOP has stopped the process, as Linux shows it.
func (p *Process) Frozen() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(stat), ") ") // after the name, which may be anything
	return ok && strings.HasPrefix(rest, "T")
}

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
	return exec.Command(Self, args...) //nolint:noctx,gosec // ended by its caller
}
