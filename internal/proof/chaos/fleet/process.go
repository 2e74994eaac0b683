// Package fleet runs servers as they are run in earnest: real processes on one
// database, each started again when it ends. It starts, kills, freezes and thaws
// them, and calls them as clients do.
package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	// readyBy bounds a start; far more than it takes.
	readyBy = time.Minute
	// stopBy bounds the end in order that SIGTERM asks for.
	stopBy = 75 * time.Second
	// thawEach is how often a server that is to end is looked at.
	thawEach = 100 * time.Millisecond
)

// Life is what a server is started with.
type Life struct {
	// Failpoint is where it kills itself, Freeze where it freezes, Offsets how far
	// its wall clock is off; see internal/failpoint. Empty: nothing of the kind.
	Failpoint, Freeze, Offsets string
}

func (l Life) env() []string {
	return append(os.Environ(), "FIREONCE_FAILPOINT="+l.Failpoint, "FIREONCE_FREEZE="+l.Freeze,
		"FIREONCE_CLOCK_OFFSET="+l.Offsets)
}

// process is one life of a server.
type process struct {
	life Life
	at   Listener
	api  *API
	cmd  *exec.Cmd
	done chan struct{} // closed when it is gone
	err  error         // how it went, after done
}

// Listener is a running server: its process, and the addresses that it serves.
type Listener struct {
	Server, PID int
	// URL is the API's. GRPC is the host and port of the listener for gRPC alone; empty:
	// the server has none.
	URL, GRPC string
}

var readyURL = regexp.MustCompile(` ready: (http://[^,]+),(?: gRPC ([^,]+),)?`)

// begin starts a process and waits until it is ready. Its log goes to a file that
// all lives of a server share.
func begin(ctx context.Context, o Options, number int, life Life) (*process, error) {
	log, err := os.OpenFile(filepath.Join(o.Dir, fmt.Sprintf("server-%d.log", number)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process has its own
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--database", o.Database}, o.Args...)
	// It ends by its fleet, not with the context that bounds its start.
	p := &process{life: life, cmd: exec.Command(o.Binary, args...), done: make(chan struct{})} //nolint:noctx,gosec // the binary that was built for this
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = o.Dir, append(life.env(), o.Env...), write, log
	// Ctrl-C is for the campaign, which then ends its servers.
	p.cmd.SysProcAttr = attributes()
	err = p.cmd.Start()
	err = errors.Join(err, write.Close())
	if err != nil {
		return nil, errors.Join(err, read.Close())
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if o.AddressSpace > 0 {
		err = limitAddressSpace(p.cmd.Process.Pid, o.AddressSpace)
	}
	p.at = Listener{Server: number, PID: p.cmd.Process.Pid}
	if err == nil {
		p.at.URL, p.at.GRPC, err = p.ready(ctx, read)
	}
	if err == nil {
		p.api, err = Dial(p.at.URL, o.Key)
	}
	if err != nil {
		_ = read.Close() // ready may have closed it
		p.kill()
		return nil, err
	}
	return p, nil
}

// ready waits for the line that says where it is served. What else comes on the
// pipe is nobody's business.
func (p *process) ready(ctx context.Context, out *os.File) (url, grpc string, err error) {
	_ = out.SetReadDeadline(time.Now().Add(readyBy)) // pipes have deadlines
	stop := context.AfterFunc(ctx, func() { _ = out.SetReadDeadline(time.Now()) })
	line, err := bufio.NewReader(out).ReadString('\n')
	stop()
	found := readyURL.FindStringSubmatch(line)
	if found == nil {
		return "", "", errors.Join(fmt.Errorf("the server was not ready: %q: %w", strings.TrimSpace(line), err), out.Close())
	}
	_ = out.SetReadDeadline(time.Time{})
	go func() {
		_, _ = io.Copy(io.Discard, out)
		_ = out.Close()
	}()
	return found[1], found[2], nil
}

func (p *process) signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// kill ends it with SIGKILL, frozen or not.
func (p *process) kill() {
	_ = p.signal(syscall.SIGKILL) // it may be gone already
	<-p.done
}

// stop ends it in order. What freezes on its way to the end is thawed at once, for a
// frozen process ends nothing.
func (p *process) stop() error {
	if err := p.signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	limit := time.NewTimer(stopBy)
	defer limit.Stop()
	look := time.NewTicker(thawEach)
	defer look.Stop()
	for {
		select {
		case <-p.done:
			return p.err
		case <-look.C:
			if p.frozen() {
				_ = p.signal(syscall.SIGCONT) // it may be gone already
			}
		case <-limit.C:
			p.kill()
			return fmt.Errorf("the server did not stop in %v", stopBy)
		}
	}
}

// killed tells whether it ended by SIGKILL.
func (p *process) killed() bool {
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// frozen tells whether it is stopped by SIGSTOP, as Linux shows it.
func (p *process) frozen() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(stat), ") ") // after the name, which may be anything
	return ok && strings.HasPrefix(rest, "T")
}
