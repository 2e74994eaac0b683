//go:build failpoints

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	rpc "connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/follow"
	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// Rules of the tests with several processes: servers are the real binary on a real
// database. The judge is a platform in the test's process, which counts the effects.
// No test sleeps: every wait is for the event log, the end of a process, or a platform.

// Times of the servers of a fleet: as short as a machine under load can keep.
const (
	fleetGrace = 2 * time.Second
	fleetLease = 3 * time.Second
	// clientPause is a client's pause before it repeats a call that no server answered.
	clientPause = 50 * time.Millisecond
)

// longVariable asks for a longer run: more jobs, more hits at which servers die, and
// measurements without a promised bound.
const longVariable = "FIREONCE_TEST_LONG"

var longRun = os.Getenv(longVariable) != ""

// scaled returns a number of jobs, increased in a long run.
func scaled(jobs int) int {
	if longRun {
		return 5 * jobs
	}
	return jobs
}

// crashBinary builds the server with failpoints, once.
var crashBinary = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(suiteDir, "fireonce-crash")
	out, err := exec.Command("go", "build", "-tags", "failpoints", "-o", binary, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
})

// fleet is a set of servers on one database. A server that dies at a failpoint is started
// again only if it has another failpoint to die at, or was the last one.
type fleet struct {
	*testing.T
	dir, binary string
	args        []string

	mu      sync.Mutex
	slots   []*slot
	changed chan struct{} // closed and replaced when a server starts or ends
	resting bool          // no server is started again
	killed  map[string]int
	busy    sync.WaitGroup
}

// slot holds one server of a fleet, through its restarts.
type slot struct {
	deaths  []string // the failpoints of its next lives
	process *process // nil: none runs
	frozen  bool     // it runs, but is stopped by a signal
	api     *client.API
}

// newFleet returns a fleet. If url is empty, it makes a database.
func newFleet(t *testing.T, d deployment, url string, args ...string) *fleet {
	t.Helper()
	binary, err := crashBinary()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{T: t, dir: memdir.New(t), binary: binary, changed: make(chan struct{}), killed: make(map[string]int)}
	if url == "" {
		url = d.database(t)
	}
	f.args = append([]string{
		"--dev", "--listen", "127.0.0.1:0", "--key-file", "fleet.key", "--database", url,
		"--grace", fleetGrace.String(), "--lease", fleetLease.String(),
		"--breaker-after", "0", // answers are lost in a row, and a probe may be 10 min away
	}, args...)
	for range d.servers {
		f.slots = append(f.slots, new(slot))
	}
	t.Cleanup(f.kill)
	return f
}

// start starts every server that does not run. Each has the same deaths: one failpoint
// per life.
func (f *fleet) start(deaths ...string) {
	f.Helper()
	f.startFirst(len(f.slots), deaths...)
}

// startFirst runs the first n servers.
func (f *fleet) startFirst(n int, deaths ...string) {
	f.Helper()
	f.rest(false)
	var starting sync.WaitGroup
	errs := make([]error, n)
	for i, s := range f.slots[:n] {
		f.clear(s)
		if f.at(i) == nil {
			f.mu.Lock()
			s.deaths = deaths
			f.mu.Unlock()
			starting.Go(func() { errs[i] = f.live(s) })
		}
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		f.Fatal(err)
	}
}

// clear waits until a server that has ended is out of its slot: the code that killed it may
// notice its end first.
func (f *fleet) clear(s *slot) {
	for {
		f.mu.Lock()
		p, changed := s.process, f.changed
		f.mu.Unlock()
		if p == nil {
			return
		}
		select {
		case <-p.Done():
			<-changed
		default:
			return
		}
	}
}

// live starts one server's next life.
func (f *fleet) live(s *slot) error {
	f.mu.Lock()
	death := ""
	if len(s.deaths) > 0 {
		death, s.deaths = s.deaths[0], s.deaths[1:]
	}
	f.mu.Unlock()
	p, err := spawn(f.binary, f.dir, append(os.Environ(), "FIREONCE_FAILPOINT="+death), f.args...)
	if err != nil {
		return err
	}
	if err := p.ready(); err != nil {
		if !errors.Is(err, io.EOF) || death == "" || !p.Killed() {
			return err
		}
		// It reached its failpoint, such as a due firing, before it reported that it is ready.
		f.mu.Lock()
		f.killed[death]++
		again := !f.resting && (len(s.deaths) > 0 || f.running() == 0)
		f.mu.Unlock()
		if again {
			return f.live(s)
		}
		return nil
	}
	api, err := client.Dial(p.url, "")
	if err != nil {
		p.Kill()
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.resting {
		p.Kill()
		return nil
	}
	s.process, s.api = p, api
	f.signal()
	f.busy.Go(func() { f.bury(s, p, death) })
	return nil
}

// bury waits for a server's end and starts its next life, if it has one.
func (f *fleet) bury(s *slot, p *process, death string) {
	<-p.Done()
	f.mu.Lock()
	s.process, s.frozen = nil, false
	f.signal()
	again := !f.resting && (len(s.deaths) > 0 || f.running() == 0)
	byItself := death != "" && p.Killed()
	if byItself {
		f.killed[death]++
	}
	f.mu.Unlock()
	if f.Failed() {
		f.Logf("a server (dies at %q: %v) said:\n%s", death, byItself, p.logs())
	}
	if byItself && again {
		if err := f.live(s); err != nil {
			f.Error(err)
		}
	}
}

// signal reports that a server came or went; the caller holds mu.
func (f *fleet) signal() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// running counts the servers that run; the caller holds mu.
func (f *fleet) running() int {
	n := 0
	for _, s := range f.slots {
		if s.process != nil {
			n++
		}
	}
	return n
}

// at returns the server of a slot; nil: none runs.
func (f *fleet) at(i int) *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.slots[i].process
}

// from returns the first running server from slot i on. It waits for one if none runs.
func (f *fleet) from(ctx context.Context, i int) (*process, *client.API, error) {
	for {
		f.mu.Lock()
		changed := f.changed
		for j := range f.slots {
			if s := f.slots[(i+j)%len(f.slots)]; s.process != nil && !s.frozen {
				f.mu.Unlock()
				return s.process, s.api, nil
			}
		}
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// byWorker returns the server that an event's actor or an attempt's worker names.
func (f *fleet) byWorker(worker string) *process {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.slots {
		if s.process != nil && s.process.isWorker(worker) {
			return s.process
		}
	}
	f.Fatalf("no server is %q", worker)
	return nil
}

// freeze stops a server in the middle of its work, or continues it. Clients call only the
// other servers while it is stopped.
func (f *fleet) freeze(p *process, is bool) {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	sig := syscall.SIGCONT
	if is {
		sig = syscall.SIGSTOP
	}
	if err := p.Signal(sig); err != nil {
		f.Fatal(err)
	}
	for _, s := range f.slots {
		if s.process == p {
			s.frozen = is
		}
	}
	f.signal()
}

// final reports whether repeating a call cannot help.
func final(err error) bool {
	switch rpc.CodeOf(err) {
	case rpc.CodeUnavailable, rpc.CodeUnknown, rpc.CodeInternal, rpc.CodeDeadlineExceeded, rpc.CodeAborted,
		rpc.CodeCanceled:
		return false
	default:
		return true
	}
}

// call calls as a client does: the server of slot i first, then the others, until one
// answers.
func (f *fleet) call(ctx context.Context, i int, do func(context.Context, *client.API) error) error {
	for {
		_, api, err := f.from(ctx, i)
		if err != nil {
			return err
		}
		err = do(ctx, api)
		if err == nil || final(err) {
			return err
		}
		i++
		select {
		case <-time.After(clientPause):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// connect makes a connection.
func (f *fleet) connect(c *connectionsv1.Connection) string {
	f.Helper()
	var id string
	if err := f.call(waiting(f), 0, func(ctx context.Context, api *client.API) error {
		resp, err := api.Connections.CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: "test-" + c.GetConnector(), Connection: c,
		})
		id = resp.GetConnection().GetConnectionId()
		return err
	}); err != nil {
		f.Fatal(err)
	}
	return id
}

// schedule submits one job at the server of slot i, or at another one if that fails.
func (f *fleet) schedule(i int, req *fireoncev1.ScheduleJobRequest) (*fireoncev1.ScheduleJobResponse, error) {
	var resp *fireoncev1.ScheduleJobResponse
	err := f.call(waiting(f), i, func(ctx context.Context, api *client.API) (err error) {
		resp, err = api.Jobs.ScheduleJob(ctx, req)
		return err
	})
	return resp, err
}

// read reads the log from its beginning until enough returns true. If the server dies, it
// starts again at another one.
func (f *fleet) read(enough func(*history, *fireoncev1.JobChanged) bool) *history {
	f.Helper()
	whole := waiting(f)
	for {
		p, api, err := f.from(whole, 0)
		if err != nil {
			f.Fatalf("no server runs: %v", err)
		}
		ctx, cancel := context.WithCancel(whole)
		go func() {
			select {
			case <-p.Done():
			case <-ctx.Done():
			}
			cancel()
		}()
		h := &history{tb: f, events: make(map[string][]*fireoncev1.JobChanged)}
		err = follow.Events(ctx, api.Jobs, follow.Options{Beginning: true}, func(e *fireoncev1.JobEvent) error {
			h.note(e.GetJobChanged())
			if enough(h, e.GetJobChanged()) {
				return follow.ErrStop
			}
			return nil
		})
		ended := ctx.Err() != nil // its server died
		cancel()
		switch {
		case err == nil:
			return h
		case whole.Err() != nil:
			f.Fatalf("%d of %d jobs are at rest; follow: %v\n%s", h.resting(), len(h.events), err, h.undone())
		case !ended && final(err):
			f.Fatalf("follow: %v", err)
		}
	}
}

// settle reads the log until n jobs are at rest.
func (f *fleet) settle(n int) *history {
	f.Helper()
	return f.read(func(h *history, _ *fireoncev1.JobChanged) bool { return h.resting() == n })
}

func (f *fleet) rest(is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resting = is
}

// stop shuts down every server. In a fleet whose servers are to die, one may die
// meanwhile.
func (f *fleet) stop() {
	f.Helper()
	f.rest(true)
	var stopping sync.WaitGroup
	for i := range f.slots {
		if p := f.at(i); p != nil {
			stopping.Go(func() {
				if err := p.stop(); err != nil && !p.Killed() {
					f.Errorf("stop: %v\n%s", err, p.logs())
				}
			})
		}
	}
	stopping.Wait()
	f.busy.Wait()
}

// kill kills the servers that still run.
func (f *fleet) kill() {
	f.rest(true)
	for i := range f.slots {
		if p := f.at(i); p != nil {
			p.Kill()
		}
	}
	f.busy.Wait()
}

// kills counts the servers that died at a failpoint.
func (f *fleet) kills(at string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.killed[at]
}
