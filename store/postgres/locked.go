package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
)

// lockedJob is a job whose row this transaction has locked. Of the request it
// has only what the log and the start window need.
type lockedJob struct {
	job.Job
	position   int64 // of its newest event
	claimedAt  time.Time
	resolution int64 // the newest ruling's row; 0: none
	// marks are the job's attempts, oldest first, once addMarks has read them.
	marks []pgdb.MarksRow
}

// lock locks jobs by id, and those that wait for the jobs in done. What is to be
// changed must be before this transaction in the log.
func (t *tx) lock(ctx context.Context, ids, done []job.ID) (map[job.ID]*lockedJob, error) {
	jobs, err := t.reread(ctx, ids, done)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if j, ok := jobs[id]; ok {
			if err := t.inOrder(j.position); err != nil {
				return nil, err
			}
		}
	}
	return jobs, nil
}

// reread is lock for jobs that this transaction may have changed already.
func (t *tx) reread(ctx context.Context, ids, done []job.ID) (map[job.ID]*lockedJob, error) {
	rows, err := t.q.LockJobs(ctx, pgdb.LockJobsParams{Ids: fromIDs(ids), Done: fromIDs(done)})
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	out := make(map[job.ID]*lockedJob, len(rows))
	for _, r := range rows {
		out[toID(r.JobState.JobID)] = toLockedJob(r)
	}
	return out, nil
}

// addMarks reads the attempts of the jobs that have any.
func (t *tx) addMarks(ctx context.Context, jobs map[job.ID]*lockedJob, ids []job.ID) error {
	var armed []job.ID
	for _, id := range ids {
		if j, ok := jobs[id]; ok && j.Attempt > 0 && j.marks == nil {
			armed = append(armed, id)
		}
	}
	if len(armed) == 0 {
		return nil
	}
	rows, err := t.q.Marks(ctx, fromIDs(armed))
	if err != nil {
		return fmt.Errorf("attempts: %w", err)
	}
	for _, r := range rows {
		j := jobs[toID(r.JobID)]
		j.marks = append(j.marks, r)
	}
	return nil
}

// waves sorts the items of a batch so that those of one wave have nothing to do
// with each other, and those that have follow in the order of the batch. touches
// gives, as comparable values, what an item reads or writes.
func waves(n int, touches func(i int) []any) [][]int {
	var out [][]int
	last := make(map[any]int) // one more than the wave that touched it
	for i := range n {
		wave, things := 0, touches(i)
		for _, thing := range things {
			wave = max(wave, last[thing])
		}
		for _, thing := range things {
			last[thing] = wave + 1
		}
		if wave == len(out) {
			out = append(out, nil)
		}
		out[wave] = append(out[wave], i)
	}
	return out
}
