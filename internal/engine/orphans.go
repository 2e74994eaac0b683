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
	// orphanPages bounds the pages of one search; the next search goes on from there.
	orphanPages = 10
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
	t := takeUp{Engine: e, paces: make(paces)}
	for ctx.Err() == nil {
		for range orphanPages {
			if !t.page(ctx) {
				break
			}
		}
		sleep(ctx, orphanPolls*e.Poll)
	}
}

// takeUp is a walk over the orphans. It goes on where the last one ended, since those that
// may not be taken up yet stay, and must not hide the others.
type takeUp struct {
	*Engine
	paces paces
	after store.Place
}

// page takes up what it may of one page of orphans, and reports whether there may be more.
func (t *takeUp) page(ctx context.Context) bool {
	orphans, err := t.Store.Orphans(ctx, t.after, sweepBatch)
	t.trouble.store(ctx, opOrphans, err)
	if err != nil {
		return false
	}
	more := len(orphans) == sweepBatch
	if t.after = (store.Place{}); more {
		last := orphans[len(orphans)-1]
		t.after = store.Place{At: last.NextAt, ID: last.ID}
	}
	now := t.Clock.Read().Time
	t.paces.forget(now)
	changes, before := make([]store.Change, 0, len(orphans)), make([]store.Leased, 0, len(orphans))
	for _, l := range orphans {
		lost := job.SenderLost{Wait: t.paces.until(l.Connection.ID, now)}
		d, err := job.Decide(l.View(t.traits(&l.Connection, l.Class), t.Jitter()), lost)
		if err != nil {
			t.Log.Error("no decision about a job whose sender is gone", "job", l.ID.String(), "err", err)
			continue
		}
		if d.Action != job.ActWrite {
			continue
		}
		if d.To == job.Ambiguous {
			t.paces.take(l.Connection.ID, now.Add(lost.Wait))
		}
		changes = append(changes, store.Change{Job: l.ID, Version: l.Version, Decision: d, Actor: t.Worker})
		before = append(before, l)
	}
	t.tookUp(ctx, changes, before)
	return more
}

// tookUp writes the decisions about the jobs as they were before.
func (e *Engine) tookUp(ctx context.Context, changes []store.Change, before []store.Leased) {
	if len(changes) == 0 {
		return
	}
	applied, err := e.Store.Apply(ctx, changes)
	e.trouble.store(ctx, opOrphans, err)
	if err != nil {
		return
	}
	n := 0
	for i, a := range applied {
		switch {
		case a.Err == nil:
			n++
			e.wrote(nil, before[i].Connection.Connector, &before[i].Snapshot, &a.Snapshot, &changes[i].Decision)
		case !errors.Is(a.Err, store.ErrStale): // stale: its sender lives, or another server came first
			e.Log.Error("a job whose sender is gone could not be taken up", "job", changes[i].Job.String(), "err", a.Err)
		}
	}
	if n > 0 {
		e.Metrics.TakenUp(n)
		e.Log.Info("jobs of a server that is gone were taken up", "jobs", n)
	}
	failpoint.Hit(failpoint.Swept)
}

// paces has, for each connection, when its next early repeat may go.
type paces map[job.ID]time.Time

// until is how long it is until the connection's next turn.
func (p paces) until(conn job.ID, now time.Time) time.Duration { return max(0, p[conn].Sub(now)) }

// take takes the connection's turn at a time.
func (p paces) take(conn job.ID, at time.Time) { p[conn] = at.Add(repeatPace) }

// forget drops what is over.
func (p paces) forget(now time.Time) {
	for conn, at := range p {
		if at.Before(now) {
			delete(p, conn)
		}
	}
}
