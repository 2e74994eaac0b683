package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// CreateSchedule implements store.Store.
func (s *Store) CreateSchedule(ctx context.Context, n store.NewSchedule) (store.Schedule, bool, error) {
	created := false
	out, err := write(ctx, s, "create schedule", func(ctx context.Context, t *tx) (store.Schedule, error) {
		created = false
		row, err := t.q.ScheduleByKey(ctx, digestOf(n.Schedule.Project, n.Schedule.Key))
		if err == nil {
			return toSchedule(row)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return store.Schedule{}, err
		}
		next, err := n.Stored(fromMicros(t.now))
		if err != nil {
			return store.Schedule{}, err
		}
		if err := t.shared().Counts(next.Project).Schedules.OneMore(ctx, n.Most); err != nil {
			return store.Schedule{}, err
		}
		if row, err = fromSchedule(next); err != nil {
			return store.Schedule{}, err
		}
		if err := t.q.InsertSchedule(ctx, sqlitedb.InsertScheduleParams(row)); err != nil {
			return store.Schedule{}, err
		}
		created = true
		t.hint[store.WatchSchedules] = true
		return next, nil
	})
	return out, created && err == nil, err
}

// Schedule implements store.Store.
func (s *Store) Schedule(ctx context.Context, ref store.Ref) (store.Schedule, error) {
	return read(ctx, s, "schedule", func(ctx context.Context, v view) (store.Schedule, error) {
		var row sqlitedb.Schedule
		var err error
		if ref.Key != "" {
			row, err = v.q.ScheduleByKey(ctx, digestOf(ref.Project, ref.Key))
		} else {
			row, err = v.q.GetSchedule(ctx, fromID(ref.ID))
		}
		if err == nil && ref.Project != "" && row.Project != ref.Project {
			err = store.ErrNotFound
		}
		if err != nil {
			return store.Schedule{}, orNotFound(err)
		}
		return toSchedule(row)
	})
}

// ListSchedules implements store.Store.
func (s *Store) ListSchedules(ctx context.Context, q store.ScheduleQuery) (store.SchedulePage, error) {
	return read(ctx, s, "list schedules", func(ctx context.Context, v view) (store.SchedulePage, error) {
		var p store.SchedulePage
		after := sqlitedb.SchedulesPageParams{Project: q.Project, AfterTime: math.MaxInt64, AfterID: []byte{}}
		if !q.After.IsZero() {
			last, err := v.q.ListedSchedule(ctx, fromID(q.After))
			if err != nil {
				return p, orNotFound(err)
			}
			after.AfterTime, after.AfterID = last.CreatedAt, last.ID
		}
		for left := q.MaxScan(); left > 0; {
			after.MaxRows = int64(min(left, store.MaxBatch))
			rows, err := v.q.SchedulesPage(ctx, after)
			if err != nil {
				return p, err
			}
			for _, r := range rows {
				ok, err := selects(q, r)
				if err != nil {
					return p, err
				}
				if ok && len(p.Schedules) == int(page(q.Limit)) {
					p.Next = p.Schedules[len(p.Schedules)-1].ID
					return p, nil
				}
				if ok {
					listed, err := v.listedSchedule(ctx, r.ID)
					if err != nil {
						return p, err
					}
					p.Schedules = append(p.Schedules, listed)
				}
				after.AfterTime, after.AfterID = r.CreatedAt, r.ID
			}
			left -= len(rows)
			if len(rows) < int(after.MaxRows) {
				return p, nil
			}
		}
		p.Next = toID(after.AfterID)
		return p, nil
	})
}

func selects(q store.ScheduleQuery, r sqlitedb.SchedulesPageRow) (bool, error) {
	labels, _, err := store.DecodeTerms(r.Labels, nil)
	return q.Selects(store.Schedule{
		State: store.ScheduleState(r.State), PauseCause: store.PauseCause(r.PauseCause),
		Connection: toID(r.ConnectionID), Labels: labels, Queued: r.Queued != 0,
		HeldUntil: fromNullMicros(r.HeldUntil),
	}), err
}

// listedSchedule reads a schedule without its template.
func (v view) listedSchedule(ctx context.Context, id []byte) (store.Schedule, error) {
	r, err := v.q.ListedSchedule(ctx, id)
	if err != nil {
		return store.Schedule{}, err
	}
	return toSchedule(sqlitedb.Schedule(r))
}

// ChangeSchedule implements store.Store.
func (s *Store) ChangeSchedule(ctx context.Context, c store.ScheduleChange) (store.Schedule, error) {
	return write(ctx, s, "change schedule", func(ctx context.Context, t *tx) (store.Schedule, error) {
		if err := t.refuseQuarantined(ctx); err != nil {
			return store.Schedule{}, err
		}
		row, err := t.q.GetSchedule(ctx, fromID(c.Schedule.ID))
		if err == nil && row.Project != c.Schedule.Project {
			err = store.ErrNotFound
		}
		if err != nil {
			return store.Schedule{}, orNotFound(err)
		}
		if err := store.Settled(store.ScheduleState(row.State), fromNullMicros(row.HeldUntil), c.Schedule.State); err != nil {
			return store.Schedule{}, err
		}
		return t.changeSchedule(ctx, row, c)
	})
}

// changeSchedule writes a change of a schedule that was read.
func (t *tx) changeSchedule(ctx context.Context, row sqlitedb.Schedule, c store.ScheduleChange) (store.Schedule, error) {
	was, err := toSchedule(row)
	if err != nil {
		return store.Schedule{}, err
	}
	next, err := c.Changed(was, fromMicros(t.now))
	if err != nil {
		return store.Schedule{}, err
	}
	to, err := fromSchedule(next)
	if err != nil {
		return store.Schedule{}, err
	}
	writeAll := func() error {
		to.LastFiring = row.LastFiring
		for _, f := range c.Firings {
			f.Decided = fromMicros(t.now)
			if err := t.addFiring(ctx, &to, f); err != nil {
				return err
			}
		}
		if next.State == store.ScheduleDeleted {
			queue, err := t.view().queue(ctx, row.ID)
			if err != nil {
				return err
			}
			if err := t.w.usage.add(ctx, t, row.Project, 0, -queue.Size()); err != nil {
				return err
			}
			if err := t.q.RemoveItems(ctx, sqlitedb.RemoveItemsParams{ScheduleID: row.ID, Now: t.now}); err != nil {
				return fmt.Errorf("items: %w", err)
			}
		}
		return one(t.q.SetSchedule(ctx, setScheduleParams(to)))
	}
	if next.State == store.ScheduleDeleted {
		err = t.wiping(ctx, writeAll)
	} else {
		err = writeAll()
	}
	t.hint[store.WatchSchedules] = true
	return next, err
}

// one returns the verdict on a write of one row under its revision.
func one(n int64, err error) error {
	if err == nil && n != 1 {
		return store.ErrStale
	}
	return err
}

// addFiring adds a firing to the ledger, unless its name exists.
func (t *tx) addFiring(ctx context.Context, to *sqlitedb.Schedule, f store.Firing) error {
	n, err := t.q.InsertFiring(ctx, insertFiringParams(to.ID, to.LastFiring+1, f))
	to.LastFiring += n
	return named("firing", err)
}

// Firings implements store.Store.
func (s *Store) Firings(ctx context.Context, q store.FiringQuery) (store.FiringPage, error) {
	return read(ctx, s, "firings", func(ctx context.Context, v view) (store.FiringPage, error) {
		var p store.FiringPage
		of, err := v.q.ListedSchedule(ctx, fromID(q.Schedule))
		if err == nil && q.Project != "" && of.Project != q.Project {
			err = store.ErrNotFound
		}
		if err != nil {
			return p, orNotFound(err)
		}
		if q.Name != "" {
			return v.firingNamed(ctx, q)
		}
		before := q.Before
		if before <= 0 {
			before = math.MaxInt64
		}
		for left := store.MaxFiringScan; left > 0; {
			most := min(left, store.MaxBatch)
			rows, err := v.q.FiringsBefore(ctx, sqlitedb.FiringsBeforeParams{ScheduleID: fromID(q.Schedule), Before: before, MaxRows: int64(most)})
			if err != nil {
				return p, err
			}
			for _, r := range rows {
				f := toFiring(r)
				if q.Selects(f) && len(p.Firings) == int(page(q.Limit)) {
					p.Next = before
					return p, nil
				}
				if q.Selects(f) {
					p.Firings = append(p.Firings, f)
				}
				before = r.Number
			}
			if left -= len(rows); len(rows) < most {
				return p, nil
			}
		}
		p.Next = before
		return p, nil
	})
}

// firingNamed returns the page of one firing.
func (v view) firingNamed(ctx context.Context, q store.FiringQuery) (p store.FiringPage, err error) {
	row, err := v.q.GetFiring(ctx, sqlitedb.GetFiringParams{ScheduleID: fromID(q.Schedule), Name: q.Name})
	if errors.Is(err, sql.ErrNoRows) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	if f := toFiring(row); q.Selects(f) {
		p.Firings = append(p.Firings, f)
	}
	return p, nil
}

// NextFiring implements store.Store.
func (s *Store) NextFiring(ctx context.Context, limit time.Duration, except []job.ID) (time.Duration, error) {
	return read(ctx, s, "next firing", func(ctx context.Context, v view) (time.Duration, error) {
		m, err := v.q.GetMeta(ctx)
		if err != nil {
			return 0, err
		}
		if v.suspension(m).Suspended() {
			return limit, nil
		}
		at, err := v.q.NextSchedule(ctx, hexList(except))
		if errors.Is(err, sql.ErrNoRows) {
			return limit, nil
		}
		return min(limit, fromDuration(max(0, at-v.now))), err
	})
}

// followJob updates a job's schedule, if it has one, after a change of the job's state: it
// updates the list of open jobs, and makes a schedule due if its buffered firing may have
// waited for the change.
func (t *tx) followJob(ctx context.Context, schedule, id []byte, from, to job.State) error {
	if schedule == nil {
		return nil
	}
	if err := t.listJob(ctx, schedule, id, from, to); err != nil {
		return fmt.Errorf("job of a schedule: %w", err)
	}
	if from == 0 || !store.MayRelease(from, to) {
		return nil
	}
	n, err := t.q.WakeSchedule(ctx, sqlitedb.WakeScheduleParams{ID: schedule, Now: someMicros(t.now)})
	if err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	t.hint[store.WatchSchedules] = t.hint[store.WatchSchedules] || n > 0
	return nil
}

// listJob keeps a job in the list of the open jobs of its schedule.
func (t *tx) listJob(ctx context.Context, schedule, id []byte, from, to job.State) error {
	was, is := from != 0 && !from.Terminal(), !to.Terminal()
	if was && is && from.Unresolved() == to.Unresolved() {
		return nil
	}
	if was {
		err := t.q.RemoveScheduleJob(ctx, sqlitedb.RemoveScheduleJobParams{
			ScheduleID: schedule, Unresolved: toBool(from.Unresolved()), JobID: id,
		})
		if err != nil {
			return err
		}
	}
	if !is {
		return nil
	}
	return t.q.AddScheduleJob(ctx, sqlitedb.AddScheduleJobParams{ScheduleID: schedule, Unresolved: toBool(to.Unresolved()), JobID: id})
}
