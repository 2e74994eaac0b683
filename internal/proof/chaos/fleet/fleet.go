package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fireonce/fireonce/internal/proof/proc"
)

// Build makes the server's binary with failpoints, from this module. overlay is as
// for `go build`; empty: none.
func Build(ctx context.Context, binary, overlay string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "failpoints", "-overlay", overlay, "-o", binary, //nolint:gosec // the caller names the files
		"github.com/fireonce/fireonce/cmd/fireonce")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the server: %w\n%s", err, out)
	}
	return nil
}

// Options say what servers run with.
type Options struct {
	// Binary is what Build has made; Dir is where the servers work and log.
	Binary, Dir string
	Servers     int
	// Database is the servers' --database; Args are further arguments of `serve`.
	Database string
	Args     []string
	// Env are variables, NAME=VALUE, beside this process's own.
	Env []string
	// Key is the API key of the calls; empty: they need none.
	Key string
	// AddressSpace limits the virtual memory of each server, in bytes; 0: no limit.
	AddressSpace uint64
	// Died is called for each server that ended by itself: at its failpoint, or for
	// another reason, which is unexpected. May be nil.
	Died func(server int, life Life, unexpected error)
}

// Fleet is servers on one database. A server that ends by itself is started again
// without its failpoint, as by a supervisor. It is safe for concurrent use.
type Fleet struct {
	opts    Options
	ctx     context.Context // ends with the fleet
	end     context.CancelFunc
	watches sync.WaitGroup

	mu      sync.Mutex
	slots   []*slot
	changed chan struct{} // closed and replaced when a server comes or goes
}

// slot is the place of one server.
type slot struct {
	changing sync.Mutex // held while a process is started or ended on purpose

	process *process // nil: none runs
	wanted  bool     // started again when it ends
}

const (
	// restartPause is between two tries to start a server, as when its database is
	// down; clientPause is a client's, before it repeats a call that no server answered.
	restartPause = 100 * time.Millisecond
	clientPause  = 50 * time.Millisecond
	// callTimeout is a client's patience with one server: one that is frozen never
	// answers.
	callTimeout = 3 * time.Second
)

// New makes a fleet in which no server runs yet.
func New(opts Options) *Fleet {
	ctx, end := context.WithCancel(context.Background())
	f := &Fleet{opts: opts, ctx: ctx, end: end, changed: make(chan struct{})}
	for range opts.Servers {
		f.slots = append(f.slots, new(slot))
	}
	return f
}

// Size is how many servers there are, running or not.
func (f *Fleet) Size() int { return len(f.slots) }

// Start runs a server that does not run, and tries until it is ready.
func (f *Fleet) Start(ctx context.Context, server int, life Life) error {
	s := f.slots[server]
	s.changing.Lock()
	defer s.changing.Unlock()
	f.mu.Lock()
	s.wanted = true
	runs := s.process != nil
	f.mu.Unlock()
	if runs {
		return fmt.Errorf("server %d runs already", server)
	}
	return f.live(ctx, server, life)
}

// live starts one life of a server; the caller holds changing.
func (f *Fleet) live(ctx context.Context, server int, life Life) error {
	ctx, cancel := context.WithTimeout(ctx, proc.ReadyBy)
	defer cancel()
	defer context.AfterFunc(f.ctx, cancel)() //nolint:contextcheck // the fleet's end ends a start, too
	for {
		p, err := begin(ctx, f.opts, server, life)
		if err == nil {
			f.mu.Lock()
			f.slots[server].process = p
			f.signal()
			f.mu.Unlock()
			f.watches.Go(func() { f.watch(server, p) })
			return nil
		}
		if ctx.Err() != nil || f.ctx.Err() != nil {
			return fmt.Errorf("start server %d: %w", server, err)
		}
		// A start waits for its database, so its end is unexpected like any other.
		if life.Failpoint == "" && f.opts.Died != nil {
			f.opts.Died(server, life, fmt.Errorf("server %d ended before it was ready: %w", server, err))
		}
		// A failpoint that is met before the server is ready is met all the same.
		life.Failpoint = ""
		Pause(ctx, restartPause)
	}
}

// watch waits for a server's end, and starts it again if that was not wanted.
func (f *Fleet) watch(server int, p *process) {
	<-p.Done()
	f.mu.Lock()
	s := f.slots[server]
	byItself, life := s.wanted, p.life
	s.process = nil
	f.signal()
	f.mu.Unlock()
	if !byItself {
		return
	}
	var unexpected error
	if life.Failpoint == "" || !p.Killed() {
		unexpected = fmt.Errorf("server %d ended by itself: %w", server, p.Err())
	}
	if f.opts.Died != nil {
		f.opts.Died(server, life, unexpected)
	}
	next := life
	next.Failpoint = ""
	for f.restart(server, next) != nil && f.ctx.Err() == nil {
		Pause(f.ctx, restartPause)
	}
}

// restart starts a server that ended by itself, unless another call has
// decided about it meanwhile.
func (f *Fleet) restart(server int, life Life) error {
	s := f.slots[server]
	s.changing.Lock()
	defer s.changing.Unlock()
	f.mu.Lock()
	due := s.wanted && s.process == nil
	f.mu.Unlock()
	if !due || f.ctx.Err() != nil {
		return nil
	}
	return f.live(f.ctx, server, life)
}

// take returns a server's process, if one runs, which its end will not start again;
// the caller holds changing.
func (f *Fleet) take(server int) *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slots[server].wanted = false
	return f.slots[server].process
}

// Kill ends a server with SIGKILL, until Start. False: none ran.
func (f *Fleet) Kill(server int) bool {
	f.slots[server].changing.Lock()
	defer f.slots[server].changing.Unlock()
	p := f.take(server)
	if p != nil {
		p.Kill()
		f.gone(p)
	}
	return p != nil
}

// Stop ends a server in order, until Start. False: none ran.
func (f *Fleet) Stop(server int) (bool, error) {
	f.slots[server].changing.Lock()
	defer f.slots[server].changing.Unlock()
	p := f.take(server)
	if p == nil {
		return false, nil
	}
	err := p.stop()
	f.gone(p)
	if err != nil && p.Killed() && p.life.Failpoint != "" {
		err = nil // on its way it came to the place of its death
	}
	return true, err
}

// gone waits until a process that ended has left its slot.
func (f *Fleet) gone(p *process) {
	for {
		f.mu.Lock()
		left := true
		for _, s := range f.slots {
			left = left && s.process != p
		}
		changed := f.changed
		f.mu.Unlock()
		if left {
			return
		}
		<-changed
	}
}

// Freeze stops a server in the middle of what it does, until Thaw. False: none ran.
func (f *Fleet) Freeze(server int) bool { return f.tell(server, syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (f *Fleet) Thaw(server int) bool { return f.tell(server, syscall.SIGCONT) }

// StepClock sets a server's wall clock to its life's next offset. When it is started
// again by itself, the clock is what it was. False: none ran.
func (f *Fleet) StepClock(server int) bool {
	if !f.tell(server, syscall.SIGUSR1) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.slots[server].process; p != nil {
		_, p.life.Offsets, _ = strings.Cut(p.life.Offsets, ",")
	}
	return true
}

func (f *Fleet) tell(server int, s syscall.Signal) bool {
	p := f.at(server)
	return p != nil && p.Signal(s) == nil
}

// Frozen reports whether a server has frozen.
func (f *Fleet) Frozen(server int) bool {
	p := f.at(server)
	return p != nil && p.Frozen()
}

// Life returns what a server runs with; false: none runs.
func (f *Fleet) Life(server int) (Life, bool) {
	p := f.at(server)
	if p == nil {
		return Life{}, false
	}
	return p.life, true
}

// Listeners returns the servers that run.
func (f *Fleet) Listeners() []Listener {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Listener
	for _, s := range f.slots {
		if s.process != nil {
			all = append(all, s.process.at)
		}
	}
	return all
}

// Ended returns a channel that is closed at the end of the server's present life.
func (f *Fleet) Ended(server int) <-chan struct{} {
	if p := f.at(server); p != nil {
		return p.Done()
	}
	ended := make(chan struct{})
	close(ended)
	return ended
}

func (f *Fleet) at(server int) *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.slots[server].process
}

// signal reports that a server came or went; the caller holds mu.
func (f *Fleet) signal() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// from returns the first server that runs, from one on, and waits for one.
func (f *Fleet) from(ctx context.Context, first int) (*process, error) {
	for {
		f.mu.Lock()
		changed := f.changed
		for i := range f.slots {
			if p := f.slots[(first+i)%len(f.slots)].process; p != nil {
				f.mu.Unlock()
				return p, nil
			}
		}
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// API returns a server's services, the first one's that runs.
func (f *Fleet) API(ctx context.Context) (*API, error) {
	p, err := f.from(ctx, 0)
	if err != nil {
		return nil, err
	}
	return p.api, nil
}

// Call does what a client does: one server first, then the others, again and
// again, until one answers. Each try ends after a few seconds: its answer, and
// whether it did anything, are then unknown.
func (f *Fleet) Call(ctx context.Context, first int, do func(context.Context, *API) error) error {
	var last error
	for i := first; ; i++ {
		p, err := f.from(ctx, i)
		if err != nil {
			return errors.Join(err, last)
		}
		trying, cancel := context.WithTimeout(ctx, callTimeout)
		last = do(trying, p.api)
		cancel()
		if last == nil || Final(last) {
			return last
		}
		if Pause(ctx, clientPause); ctx.Err() != nil {
			return errors.Join(ctx.Err(), last)
		}
	}
}

// Close kills whatever runs, and waits for its end.
func (f *Fleet) Close() {
	f.end()
	for i := range f.slots {
		f.Kill(i)
	}
	f.watches.Wait()
}

// Log returns the end of a server's log.
func (f *Fleet) Log(server, bytes int) string {
	text, err := os.ReadFile(fmt.Sprintf("%s/server-%d.log", f.opts.Dir, server))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-bytes):])
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
