package engine

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - a job whose server seems to be gone is taken over as if that server were still at
//     work: a claim ends, and a late arm is refused; an attempt is unknown, and its fence
//     stays;
//   - the replays that follow are paced for each connection: a server that died left many
//     jobs, and their target may be what it died of.

const (
	// enlistTimeout is how long a start waits until the other servers can know of it. If
	// they cannot, they may take over its claims, and repeat early what it sends, which is
	// safe and a waste.
	enlistTimeout = 5 * time.Second
	// replayPace is the time between the early replays of two jobs of one connection.
	replayPace = 20 * time.Millisecond
	// orphanPolls is how many polls there are between two searches for orphans.
	orphanPolls = 2
	// orphanPages bounds the pages of one search; the next search goes on from there.
	orphanPages = 10
)

// enlist makes this server known before it arms anything.
func (e *Engine) enlist(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, enlistTimeout)
	defer cancel()
	if err := e.Store.Enlist(ctx, e.Process); err != nil {
		e.Log.Warn("the other servers cannot see that this one is alive, and may take up its jobs early", "err", err)
	}
}

// takeOverLoop takes over what servers that are gone had claimed or were sending, until ctx
// ends.
func (e *Engine) takeOverLoop(ctx context.Context) {
	t := takeover{e: e, paces: make(paces)}
	for ctx.Err() == nil {
		for range orphanPages {
			if !t.page(ctx) {
				break
			}
		}
		sleep.For(ctx, orphanPolls*e.Poll)
	}
}

// takeover is a walk over the orphans. It goes on where the last one ended, since those that
// may not be taken over yet stay, and must not hide the others.
type takeover struct {
	e     *Engine
	paces paces
	after store.Place
}

// page takes over what it may of one page of orphans, and reports whether there may be more.
func (o *takeover) page(ctx context.Context) bool {
	e := o.e
	orphans, err := e.Store.Orphans(ctx, o.after, sweepBatch)
	e.storeLog.note(ctx, opOrphans, err)
	if err != nil {
		return false
	}
	more := len(orphans) == sweepBatch
	if o.after = (store.Place{}); more {
		last := &orphans[len(orphans)-1]
		o.after = store.Place{At: last.NextAt, ID: last.ID}
	}
	now := e.Clock.Read().Time
	o.paces.forget(now)
	tasks := make([]*task, len(orphans))
	for i := range orphans {
		tasks[i] = &task{e: e, leased: &orphans[i]}
	}
	asked, taken := 0, 0
	_, err = store.Decide(ctx, e.Store, tasks, func(t *task, c *store.Change) (bool, error) {
		write := o.decide(t.leased, c, now)
		if write {
			asked++
		}
		return write, nil
	}, func(t *task, c *store.Change, a *store.Applied) error { // a job that moved has a live sender, or was another server's
		switch a.Err {
		case nil:
			taken++
			t.followUp(&t.leased.Snapshot, &a.Snapshot, &c.Decision)
		default:
			e.Log.Error("a job whose sender is gone could not be taken up", logged(&t.leased.Snapshot, &t.leased.Connection), "err", a.Err)
		}
		return nil
	})
	if asked == 0 {
		return more
	}
	e.storeLog.note(ctx, opOrphans, err)
	if err != nil {
		return more
	}
	if taken > 0 {
		e.Metrics.TakenUp(taken)
		e.Log.Info("jobs of a server that is gone were taken up", "jobs", taken)
	}
	failpoint.Hit(failpoint.Swept)
	return more
}

// decide decides about one orphan. Where a replay follows, it takes the connection's next
// time for one.
func (o *takeover) decide(l *store.Leased, c *store.Change, now time.Time) (write bool) {
	lost := job.SenderLost{Wait: o.paces.until(l.Connection.ID, now)}
	c.Actor = o.e.Worker
	write, err := c.Decide(&l.Snapshot, o.e.traits(&l.Connection, l.Class), o.e.Jitter(), lost)
	if err != nil {
		o.e.Log.Error("no decision about a job whose sender is gone", logged(&l.Snapshot, &l.Connection), "err", err)
		return false
	}
	if write && c.Decision.To == job.Ambiguous {
		o.paces.take(l.Connection.ID, now.Add(lost.Wait))
	}
	return write
}

// paces has, for each connection, when its next early replay may go.
type paces map[job.ID]time.Time

// until returns how long it is until the connection's next replay may go.
func (p paces) until(conn job.ID, now time.Time) time.Duration { return max(0, p[conn].Sub(now)) }

// take notes a replay of the connection at a time.
func (p paces) take(conn job.ID, at time.Time) { p[conn] = at.Add(replayPace) }

// forget drops what is over.
func (p paces) forget(now time.Time) {
	for conn, at := range p {
		if at.Before(now) {
			delete(p, conn)
		}
	}
}
