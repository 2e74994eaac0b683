package postgres

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/store"
)

// noteSchedule records the schedule of a job whose change may release a firing.
func (b *changeApplier) noteSchedule(p *plannedChange) {
	if !p.job.Schedule.IsZero() && store.MayRelease(p.old.State, p.job.State) {
		b.schedules = append(b.schedules, p.job.Schedule)
	}
}

// wakeSchedules makes schedules due whose buffered firings may have waited for changes of
// jobs. A decision in progress has not seen the changes: its schedule is left to the waker.
func (b *changeApplier) wakeSchedules(ctx context.Context) {
	if len(b.schedules) == 0 {
		return
	}
	p := pgdb.WakeSchedulesParams{Now: b.now, Ids: distinct(b.schedules)}
	b.queue(ctx, func(ctx context.Context, db pgdb.DBTX) error {
		r, err := pgdb.New(db).WakeSchedules(ctx, p)
		if err != nil {
			return fmt.Errorf("schedules: %w", err)
		}
		b.hint[store.WatchSchedules] = b.hint[store.WatchSchedules] || r.Woken > 0
		b.busy = append(b.busy, r.Busy...)
		return nil
	})
}
