package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/rules"
)

// lockedJob is a job whose row this transaction has locked. Of the request it has only what
// the log and the start window need.
type lockedJob struct {
	job.Job
	position   int64 // of its newest event
	claimedAt  time.Time
	resolution int64 // the row of the newest ruling; 0: none
	// effect is the effect in the row itself.
	effect *job.Effect
	// newest is the attempt in the row itself; nil: there was none.
	newest *rules.AttemptView
	// attempts are the job's attempts, oldest first.
	attempts rules.AttemptViews
}

// snapshot returns the job as it is, without its effect and its ruling.
func (j *lockedJob) snapshot(now time.Time) job.Snapshot {
	s := job.Snapshot{Job: j.Job, Now: now}
	j.attempts.Complete(&s)
	return s
}

// changed returns the job as a change leaves it, without its effect and its ruling.
func (j *lockedJob) changed(p *plannedChange, now time.Time) job.Snapshot {
	s := job.Snapshot{Job: p.job, Now: now}
	attempts := slices.Clone(j.attempts)
	for _, a := range p.Settle {
		attempts.Settle(a)
	}
	for _, n := range p.Close {
		attempts[n-1].Result = p.Decision.CloseOpen
	}
	attempts.Complete(&s)
	return s
}

// lockedRows is what a transaction reads of jobs that it is about to change.
type lockedRows struct {
	rows     []pgdb.JobHead
	attempts []pgdb.AttemptViewsRow
	holds    []pgdb.HoldsRow
}

// queueLocks queues locks of jobs by id, with the jobs that wait for those in notified, and
// the read of their attempts.
func (t *tx) queueLocks(ctx context.Context, l *lockedRows, ids, notified []job.ID) {
	p := pgdb.LockJobsParams{Ids: ids, Notified: notified}
	t.queue(ctx, query("jobs", (*pgdb.Queries).LockJobs, p, &l.rows))
	t.queue(ctx, query("attempts", (*pgdb.Queries).AttemptViews, p.Ids, &l.attempts))
}

// queueFree is queueLocks without waiting: jobs that others have locked are missing.
func (t *tx) queueFree(ctx context.Context, l *lockedRows, ids []job.ID) {
	of := ids
	t.queue(ctx, query("jobs", (*pgdb.Queries).LockFree, of, &l.rows))
	t.queue(ctx, query("attempts", (*pgdb.Queries).AttemptViews, of, &l.attempts))
}

// queueHolds queues the read of the jobs' hold keys, once they are locked.
func (t *tx) queueHolds(ctx context.Context, l *lockedRows, ids []job.ID) {
	t.queue(ctx, query("holds", (*pgdb.Queries).Holds, ids, &l.holds))
}

// locked returns the locked jobs. A job to be changed must be before this transaction in the
// log.
func (t *tx) locked(l *lockedRows, ids []job.ID) (map[job.ID]*lockedJob, error) {
	jobs := l.jobs()
	for _, id := range ids {
		if j, ok := jobs[id]; ok {
			if err := t.inOrder(j.position); err != nil {
				return nil, err
			}
		}
	}
	return jobs, nil
}

func (l *lockedRows) jobs() map[job.ID]*lockedJob {
	out := make(map[job.ID]*lockedJob, len(l.rows))
	for _, r := range l.rows {
		j := toLockedJob(shareddb.JobHead(r))
		out[j.ID] = j
	}
	for _, m := range l.attempts {
		if j, ok := out[m.JobID]; ok {
			j.attempts = append(j.attempts, toView(m))
		}
	}
	for _, j := range out {
		if j.newest != nil {
			j.attempts = append(j.attempts, *j.newest)
		}
	}
	return out
}

// reread locks jobs that this transaction may have changed already.
func (t *tx) reread(ctx context.Context, ids []job.ID) (map[job.ID]*lockedJob, error) {
	var l lockedRows
	t.queueLocks(ctx, &l, ids, nil)
	if err := t.flush(ctx); err != nil {
		return nil, err
	}
	return l.jobs(), nil
}

// independentBatches splits the items of a batch so that the items of one part share nothing,
// and items that share something keep the order of the batch. touches returns, as comparable
// values, what an item reads or writes.
func independentBatches(n int, touches func(i int) []any) [][]int {
	var out [][]int
	last := make(map[any]int) // one more than the part that touched it last
	for i := range n {
		part, things := 0, touches(i)
		for _, thing := range things {
			part = max(part, last[thing])
		}
		for _, thing := range things {
			last[thing] = part + 1
		}
		if part == len(out) {
			out = append(out, nil)
		}
		out[part] = append(out[part], i)
	}
	return out
}
