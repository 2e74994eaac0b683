package engine

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - a job whose server seems to be gone is taken up as if that were still at work: a
//     claim ends, and a late arm is refused; an attempt is unknown, and its fence stays;
//   - the repeats that follow are paced for each connection: a server that died left many
//     jobs, and their target may be what it died of.

const (
	// enlistTimeout is how long a start waits until the other servers can know of it. If
	// they cannot, they may take up its claims, and repeat early what it sends, which is safe and a waste.
	enlistTimeout = 5 * time.Second
	// repeatPace is the time between the early repeats of two jobs of one connection.
	repeatPace = 20 * time.Millisecond
	// orphanPolls is how many polls there are between two searches for orphans.
	orphanPolls = 2
)

// enlist makes this server known before it arms anything.
func (e *Engine) enlist(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, enlistTimeout)
	defer cancel()
	if err := e.Store.Enlist(ctx, e.Worker); err != nil {
		e.Log.Warn("the other servers cannot see that this one is alive, and may take up its jobs early", "err", err)
	}
}

// takeUps takes up what servers that are gone had claimed or were sending, until ctx ends.
func (e *Engine) takeUps(ctx context.Context) {
	paces := make(paces)
	for ctx.Err() == nil {
		if e.takeUp(ctx, paces) < sweepBatch {
			sleep(ctx, orphanPolls*e.Poll)
		}
	}
}

// takeUp takes up one batch of orphans, and tells how many were.
func (e *Engine) takeUp(ctx context.Context, paces paces) int {
	orphans, err := e.Store.Orphans(ctx, sweepBatch)
	e.trouble.store(ctx, opOrphans, err)
	if err != nil {
		return 0
	}
	now := e.Clock.Read().Time
	paces.forget(now)
	changes := make([]store.Change, 0, len(orphans))
	for _, l := range orphans {
		lost := job.SenderLost{}
		if l.State == job.Sending && l.Class == job.Keyed {
			lost.Wait = paces.turn(l.Connection.ID, now)
		}
		d, err := job.Decide(l.View(e.traits(l.Connection, l.Class), e.Jitter()), lost)
		if err != nil {
			e.Log.Error("no decision about a job whose sender is gone", "job", l.ID.String(), "err", err)
			continue
		}
		if d.Action == job.ActWrite {
			changes = append(changes, store.Change{Job: l.ID, Version: l.Version, Decision: d, Actor: e.Worker})
		}
	}
	return e.tookUp(ctx, changes)
}

// tookUp writes the decisions, and tells how many were taken.
func (e *Engine) tookUp(ctx context.Context, changes []store.Change) (n int) {
	if len(changes) == 0 {
		return 0
	}
	applied, err := e.Store.Apply(ctx, changes)
	e.trouble.store(ctx, opOrphans, err)
	if err != nil {
		return 0
	}
	for i, a := range applied {
		switch {
		case a.Err == nil:
			n++
			e.wrote(a.Snapshot, changes[i].Decision)
		case !errors.Is(a.Err, store.ErrStale): // stale: its sender lives, or another server came first
			e.Log.Error("a job whose sender is gone could not be taken up", "job", changes[i].Job.String(), "err", a.Err)
		}
	}
	if n > 0 {
		e.Log.Info("jobs of a server that is gone were taken up", "jobs", n)
	}
	failpoint.Hit(failpoint.Swept)
	return n
}

// paces has, for each connection, when its next early repeat may go.
type paces map[job.ID]time.Time

// turn takes the connection's next turn, and tells how long it is until then.
func (p paces) turn(conn job.ID, now time.Time) time.Duration {
	at := p[conn]
	if at.Before(now) {
		at = now
	}
	p[conn] = at.Add(repeatPace)
	return at.Sub(now)
}

// forget drops what is over.
func (p paces) forget(now time.Time) {
	for conn, at := range p {
		if at.Before(now) {
			delete(p, conn)
		}
	}
}
