package engine

import (
	"context"

	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a job that is due when it is submitted, to an engine with
// little to do, is claimed by the transaction that stores it and worked at once:
// nothing has to be looked for. Everything else goes the usual way, and so does what
// the store leaves. The caller's answer waits for the commit and for nothing more.

// Entrance returns jobs whose Create submits to this engine.
func (e *Engine) Entrance(s store.Jobs) store.Jobs { return entrance{Jobs: s, e: e} }

type entrance struct {
	store.Jobs
	e *Engine
}

// Create implements store.Jobs.
func (d entrance) Create(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	if len(items) != 1 || !items[0].ScheduleTime.IsZero() || items[0].Start != nil {
		return d.Jobs.Create(ctx, items)
	}
	run, s := d.e.enter()
	if s == nil {
		return d.Jobs.Create(ctx, items)
	}
	f := d.e.fuse(1)
	item := items[0]
	item.Start = &store.ClaimParams{Worker: d.e.Worker, Lease: d.e.Lease, Limit: 1, Intent: f.intend}
	out, err := d.Jobs.Create(ctx, []store.NewJob{item})
	var started []store.Leased
	if err == nil && out[0].Started != nil {
		started = append(started, *out[0].Started)
	}
	inDoubt := f.end(started, err)
	if len(started)+len(inDoubt) == 0 {
		d.e.leave(s)
		return out, err
	}
	go func() {
		defer d.e.leave(s)
		for i := range started {
			d.e.workClaimed(run, &started[i], f, s)
		}
		for _, in := range inDoubt {
			d.e.workInDoubt(in, err, s)
		}
	}()
	return out, err
}

// enter takes a seat for a job that is not stored yet, if the engine runs and at
// least half of the senders are free; nil: there is none. Its leave follows.
func (e *Engine) enter() (run context.Context, s *seat) {
	e.entry.Lock()
	defer e.entry.Unlock()
	if e.running == nil || e.running.Err() != nil || len(e.senders) > cap(e.senders)/2 || !e.senders.one() {
		return nil, nil
	}
	if !e.places.one() {
		e.senders.release(1)
		return nil, nil
	}
	e.busy.Add(1)
	return e.running, e.sit()
}

func (e *Engine) leave(s *seat) {
	s.leave()
	e.busy.Done()
}

// open lets jobs in as long as run lasts.
func (e *Engine) open(run context.Context) {
	e.entry.Lock()
	defer e.entry.Unlock()
	e.running = run
}

// shut ends that: nobody enters after.
func (e *Engine) shut() {
	e.entry.Lock()
	defer e.entry.Unlock()
	e.running = nil
}
