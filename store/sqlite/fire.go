package sqlite

import (
	"context"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// MakeJobs implements sqlstore.Writing.
func (w writing) MakeJobs(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	out := make([]store.Created, len(items))
	for i, n := range items {
		var err error
		if out[i], err = w.t.create(ctx, n); err != nil {
			if out[i].Err = err; !rules.Verdict(err) {
				return nil, err
			}
		}
	}
	return out, nil
}

// followJob updates a job's schedule, if it has one, after a change of the job's state: it
// updates the list of open jobs, and makes a schedule due if its buffered firing may have
// waited for the change.
func (t *tx) followJob(ctx context.Context, j *job.Job, from job.State) error {
	if err := t.listJob(ctx, j, from); err != nil || j.Schedule.IsZero() || from == 0 || !store.MayRelease(from, j.State) {
		return err
	}
	n, err := t.q.WakeSchedule(ctx, sqlitedb.WakeScheduleParams{ID: j.Schedule, Now: t.now})
	t.hint[store.WatchSchedules] = t.hint[store.WatchSchedules] || n > 0
	return named("schedule", err)
}

// listJob keeps a job in the list of the open jobs of its schedule.
func (t *tx) listJob(ctx context.Context, j *job.Job, from job.State) (err error) {
	was, is := from != 0 && !from.Terminal(), !j.State.Terminal()
	if j.Schedule.IsZero() || was && is && from.Unresolved() == j.State.Unresolved() {
		return nil
	}
	if was {
		err = t.q.RemoveScheduleJob(ctx, sqlitedb.RemoveScheduleJobParams{ScheduleID: j.Schedule, Unresolved: from.Unresolved(), JobID: j.ID})
	}
	if is && err == nil {
		err = t.q.AddScheduleJob(ctx, sqlitedb.AddScheduleJobParams{ScheduleID: j.Schedule, Unresolved: j.State.Unresolved(), JobID: j.ID})
	}
	return named("job of a schedule", err)
}
