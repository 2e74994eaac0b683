package engine

import (
	"context"

	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// sweepBatch bounds one sweep; the next one follows immediately while it is full.
const sweepBatch = 100

// sweepLoop moves jobs whose time is over to where they belong, until ctx ends. It is
// apart from lookLoop, which waits for free lookers: the end of a lease, a fence or a
// window must not wait for a slow target.
func (e *Engine) sweepLoop(ctx context.Context) {
	e.newPacer().repeat(ctx, func() (int, bool) {
		n := e.sweep(ctx)
		return n, n == sweepBatch
	})
}

// sweep moves overdue jobs to where they belong, and returns how many it tried. It moves
// nothing by time alone that was armed: SENDING becomes AMBIGUOUS, never SCHEDULED.
func (e *Engine) sweep(ctx context.Context) int {
	asked := 0
	overdue, err := e.Store.Overdue(ctx, sweepBatch)
	if err == nil {
		tasks := make([]*task, len(overdue))
		for i := range overdue {
			tasks[i] = &task{e: e, leased: &store.Leased{Snapshot: overdue[i]}}
		}
		_, err = store.Decide(ctx, e.Store, tasks, func(t *task, c *store.Change) (bool, error) {
			s := &t.leased.Snapshot
			c.Actor = e.Worker
			// Nothing here depends on the target but the wait before a first repeat, which the
			// fence has made long enough.
			write, err := c.Decide(s, job.Traits{Class: s.Class}, e.Jitter(), overdueEvidence(s))
			if err != nil {
				e.Log.Error("no decision about an overdue job", logged(s, &store.Connection{}), "err", err)
			}
			if write {
				asked++
			}
			return write, nil
		}, func(t *task, c *store.Change, a *store.Applied) error { // a job that moved was its worker's
			switch a.Err {
			case nil:
				t.followUp(&t.leased.Snapshot, &a.Snapshot, &c.Decision)
			default:
				e.Log.Error("an overdue job could not be swept", logged(&t.leased.Snapshot, &t.leased.Connection), "err", a.Err)
			}
			return nil
		})
	}
	e.storeLog.note(ctx, opSweep, err)
	if err != nil || asked == 0 {
		return 0
	}
	failpoint.Hit(failpoint.Swept)
	return asked
}

// overdueEvidence returns what has ended for an overdue job, by its state.
func overdueEvidence(s *job.Snapshot) job.Evidence {
	switch {
	case s.State == job.Sending:
		return job.FenceOver{}
	case s.State.Runnable() && s.PredecessorEnd != 0:
		return job.PredecessorEnded{}
	case s.State == job.Claimed && s.StartDeadline.After(s.Now):
		return job.LeaseOver{}
	default:
		return job.WindowOver{}
	}
}
