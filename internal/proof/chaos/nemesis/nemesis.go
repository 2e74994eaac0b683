package nemesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
)

// Database is what can be done to the servers' database. A nil func: nothing.
type Database struct {
	// Crash stops it immediately; Recover starts it again.
	Crash, Recover func() error
	// Cut ends every connection to it.
	Cut func() int
	// Disturb delays queries and cuts lines at some, or stops that.
	Disturb func(on bool)
	// Lose makes answers to COMMIT be swallowed, or stops that.
	Lose func(on bool)
}

// Options make a Nemesis.
type Options struct {
	Fleet    *fleet.Fleet
	Database Database
	Plan     []Fault
	// World is what the plan is for.
	World World
	// Next is called when so many faults of the plan have begun. May be nil.
	Next func(begun int)
}

// Nemesis carries out a plan: one fault after the other, or beside it where they
// concern different servers.
type Nemesis struct {
	opts Options
	busy []sync.Mutex // by server: one fault at a time
	db   sync.Mutex

	begun int // faults of the plan; only Run uses it

	mu        sync.Mutex
	delivered map[string]int
	offsets   []time.Duration // by server
	errs      []error
}

// New makes a nemesis for a fleet that runs.
func New(opts Options) *Nemesis {
	n := opts.Fleet.Size()
	return &Nemesis{opts: opts, busy: make([]sync.Mutex, n), delivered: make(map[string]int), offsets: make([]time.Duration, n)}
}

// dieBy is how long a server may take to come to the place of its death. It keeps
// its failpoint after that; nothing waits for it any more.
const dieBy = 8 * time.Second

// Run carries out the plan. It returns when the last fault is over, or ctx is. The next
// Run goes on with the faults that have not begun.
func (n *Nemesis) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for n.begun < len(n.opts.Plan) && ctx.Err() == nil {
		f := n.opts.Plan[n.begun]
		n.begun++
		if n.opts.Next != nil {
			n.opts.Next(n.begun)
		}
		unlock := n.reserve(f)
		if ctx.Err() != nil {
			unlock()
			break
		}
		running.Go(func() {
			defer unlock()
			if err := n.deliver(ctx, f); err != nil && ctx.Err() == nil {
				n.failed(fmt.Errorf("%s: %w", f.Name(), err))
			}
		})
		fleet.Pause(ctx, f.Then)
	}
	running.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	return errors.Join(n.errs...)
}

// reserve waits until whatever a fault concerns is free.
func (n *Nemesis) reserve(f Fault) (unlock func()) {
	switch {
	case f.Kind == CrashDB, f.Kind == Cut, f.Kind == LoseCommits:
		n.db.Lock()
		return n.db.Unlock
	case f.Kind == KillAll, f.alone():
		for i := range n.busy {
			n.busy[i].Lock()
		}
		return func() {
			for i := range n.busy {
				n.busy[i].Unlock()
			}
		}
	default:
		n.busy[f.Server].Lock()
		return n.busy[f.Server].Unlock
	}
}

// Died counts the death of a server at its failpoint; a fleet calls it.
func (n *Nemesis) Died(life fleet.Life) {
	place := Fault{Kind: Die, Place: placeOf(life.Failpoint)}
	n.count(place.Name())
}

// Delivered counts the faults that took place, by name.
func (n *Nemesis) Delivered() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.delivered)
}

func (n *Nemesis) count(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delivered[name]++
}

func (n *Nemesis) failed(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.errs = append(n.errs, err)
}

// deliver does one fault from its beginning to its end.
func (n *Nemesis) deliver(ctx context.Context, f Fault) error {
	fl := n.opts.Fleet
	switch f.Kind {
	case Kill:
		if fl.Kill(f.Server) {
			n.count(f.Name())
		}
		fleet.Pause(ctx, f.For)
		return n.start(ctx, f.Server, "")
	case KillAll:
		return n.killAll(ctx, f)
	case Die:
		return n.die(ctx, f)
	case Freeze:
		n.freeze(ctx, f)
		return nil
	case Stop:
		ran, err := fl.Stop(f.Server)
		if ran {
			n.count(f.Name())
		}
		fleet.Pause(ctx, f.For)
		return errors.Join(err, n.start(ctx, f.Server, ""))
	case BadStart:
		return n.startBadly(ctx, f)
	case Clock:
		return n.setClock(ctx, f)
	default:
		return n.database(ctx, f)
	}
}

// start runs a server again, on the clock that it had, also when the plan has come
// to its end meanwhile: clients may be waiting for an answer.
func (n *Nemesis) start(ctx context.Context, server int, failpoint string) error {
	n.mu.Lock()
	life := fleet.Life{Failpoint: failpoint, Offsets: n.offsets[server].String()}
	n.mu.Unlock()
	return n.opts.Fleet.Start(context.WithoutCancel(ctx), server, life)
}

// startBadly kills a server, and starts it while the database is disturbed. The fleet reports a
// start that does not wait that out.
func (n *Nemesis) startBadly(ctx context.Context, f Fault) error {
	ran := n.opts.Fleet.Kill(f.Server)
	fleet.Pause(ctx, f.For)
	n.db.Lock()
	defer n.db.Unlock()
	n.opts.Database.Disturb(true)
	defer n.opts.Database.Disturb(false)
	err := n.start(ctx, f.Server, "")
	if ran {
		n.count(f.Name())
	}
	return err
}

// freeze lets a server stand still. It counts by how long it really stood.
func (n *Nemesis) freeze(ctx context.Context, f Fault) {
	fl := n.opts.Fleet
	if !fl.Freeze(f.Server) {
		return
	}
	begun := time.Now()
	fleet.Pause(ctx, f.For)
	stood := fl.Frozen(f.Server)
	lasted := time.Since(begun)
	if fl.Thaw(f.Server) && stood {
		n.count(n.opts.World.frozenFor(lasted))
	}
}

// countKills counts what became of servers that were all to be killed: if some did
// not run, single ones were.
func (n *Nemesis) countKills(f Fault, ran []bool) {
	if !slices.Contains(ran, false) {
		n.count(f.Name())
		return
	}
	for _, it := range ran {
		if it {
			n.count(string(Kill))
		}
	}
}

func (n *Nemesis) killAll(ctx context.Context, f Fault) error {
	fl := n.opts.Fleet
	var all sync.WaitGroup
	ran := make([]bool, fl.Size())
	for i := range ran {
		all.Go(func() { ran[i] = fl.Kill(i) })
	}
	all.Wait()
	n.countKills(f, ran)
	fleet.Pause(ctx, f.For)
	errs := make([]error, fl.Size())
	for i := range fl.Size() {
		all.Go(func() { errs[i] = n.start(ctx, i, "") })
	}
	all.Wait()
	return errors.Join(errs...)
}

// die replaces a server by one that will kill itself, and waits for that a while.
// The fleet starts it again. The replacing is not counted as a fault.
func (n *Nemesis) die(ctx context.Context, f Fault) (err error) {
	fl := n.opts.Fleet
	fl.Kill(f.Server)
	if f.alone() {
		for i := range fl.Size() {
			if i != f.Server && fl.Kill(i) {
				defer func() { err = errors.Join(err, n.start(ctx, i, "")) }()
			}
		}
	}
	if err := n.start(ctx, f.Server, fmt.Sprintf("%s:%d", f.Place, f.Nth)); err != nil {
		return err
	}
	timer := time.NewTimer(dieBy)
	defer timer.Stop()
	select {
	case <-fl.Ended(f.Server):
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// setClock sets a server's wall clock while it runs. The next life, whenever it
// begins, has the clock as it was left. The restart is not counted as a fault.
func (n *Nemesis) setClock(ctx context.Context, f Fault) error {
	fl := n.opts.Fleet
	if _, err := fl.Stop(f.Server); err != nil {
		return err
	}
	n.mu.Lock()
	was := n.offsets[f.Server]
	n.offsets[f.Server] = f.Offset
	n.mu.Unlock()
	if err := fl.Start(context.WithoutCancel(ctx), f.Server, fleet.Life{Offsets: was.String() + "," + f.Offset.String()}); err != nil {
		return err
	}
	fleet.Pause(ctx, f.Then) // some sends are under way
	if fl.StepClock(f.Server) {
		n.count(stepBy(f.Offset - was))
	}
	return nil
}

func (n *Nemesis) database(ctx context.Context, f Fault) error {
	db := n.opts.Database
	switch f.Kind {
	case CrashDB:
		if err := db.Crash(); err != nil {
			return err
		}
		n.count(f.Name())
		fleet.Pause(ctx, f.For)
		return db.Recover()
	case Cut:
		if db.Cut() > 0 {
			n.count(f.Name())
		}
	case LoseCommits:
		db.Lose(true)
		n.count(LossWindows)
		fleet.Pause(ctx, f.For)
		db.Lose(false)
	default:
		return fmt.Errorf("nothing is known of %s", f.Kind)
	}
	return nil
}

func placeOf(failpoint string) string {
	for i := range failpoint {
		if failpoint[i] == ':' {
			return failpoint[:i]
		}
	}
	return failpoint
}
