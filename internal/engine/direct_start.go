package engine

import (
	"context"
	"sync"

	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a job that is due when it is submitted, to an engine with little to
// do, is claimed by the transaction that stores it and started immediately: no search
// for due work comes between. Every other job waits to be claimed, and so does what the
// store does not start. The caller's answer waits for the commit and for nothing more.

// DirectStart returns jobs whose Create starts what is due in this engine.
func (e *Engine) DirectStart(s store.Jobs) store.Jobs { return startingJobs{Jobs: s, e: e} }

type startingJobs struct {
	store.Jobs
	e *Engine
}

// Create implements store.Jobs.
func (s startingJobs) Create(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	if len(items) != 1 || !items[0].ScheduleTime.IsZero() || items[0].Start != nil {
		return s.Jobs.Create(ctx, items)
	}
	e := s.e
	run, permit := e.direct.enter(owner{items[0].Spec.Owner(), items[0].Spec.Connection})
	if run == nil {
		return s.Jobs.Create(ctx, items)
	}
	c := e.newClaimAndArm(1)
	created := false
	defer func() {
		if !created { // Create panicked
			c.end(nil, nil)
			e.direct.leave(&permit)
		}
	}()
	item := items[0]
	item.Start = &store.ClaimParams{Worker: e.Worker, Lease: e.Lease, Limit: 1, Intent: c.intend}
	out, err := s.Jobs.Create(ctx, []store.NewJob{item})
	created = true
	var started []store.Leased
	if err == nil && out[0].Started != nil {
		started = append(started, *out[0].Started)
	}
	unconfirmed := c.end(started, err)
	if len(started)+len(unconfirmed) == 0 {
		e.direct.leave(&permit)
		return out, err
	}
	go func() {
		if len(started) == 0 {
			a := unconfirmed[0]
			a.permit = permit
			defer e.direct.leave(&a.permit)
			a.runUnconfirmed(err)
			return
		}
		a := c.attempt(&started[0])
		a.permit = permit
		defer e.direct.leave(&a.permit)
		c.run(run, a)
	}()
	return out, err
}

// directStart admits jobs while the engine runs.
type directStart struct {
	permits *sendPermits
	busy    *sync.WaitGroup

	mu sync.Mutex
	// running is the context of Run; nil: no job may start.
	running context.Context
}

// enter takes a permit for a job that is not stored yet, if the engine runs and has
// little to do; otherwise run is nil. After it comes leave.
func (d *directStart) enter(of owner) (run context.Context, p sendPermit) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil || d.running.Err() != nil {
		return nil, sendPermit{}
	}
	p, ok := d.permits.tryAcquire(of)
	if !ok {
		return nil, sendPermit{}
	}
	d.busy.Add(1)
	return d.running, p
}

func (d *directStart) leave(p *sendPermit) {
	p.release()
	d.busy.Done()
}

// open admits jobs as long as run lasts.
func (d *directStart) open(run context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = run
}

// close ends that: after it no job is admitted.
func (d *directStart) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running = nil
}
