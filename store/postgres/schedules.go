package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// CreateSchedule implements store.Store. Of concurrent calls with one key, one inserts; the
// others wait for it and then read what it bound.
func (s *Store) CreateSchedule(ctx context.Context, n store.NewSchedule) (store.Schedule, bool, error) {
	created := false
	out, err := write(ctx, s, "create schedule", func(ctx context.Context, t *tx) (store.Schedule, error) {
		created = false
		if err := t.lockCount(ctx, sqlstore.CountedSchedules, n.Schedule.Project, n.Most); err != nil {
			return store.Schedule{}, err
		}
		digest := digestOf(n.Schedule.Project, n.Schedule.Key)
		row, err := t.q.ScheduleByKey(ctx, digest)
		if err == nil {
			return toSchedule(row)
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return store.Schedule{}, err
		}
		next, err := n.Stored(t.now)
		if err != nil {
			return store.Schedule{}, err
		}
		p, err := insertScheduleParams(next)
		if err != nil {
			return store.Schedule{}, err
		}
		took, err := t.q.InsertSchedule(ctx, p)
		if err != nil {
			return store.Schedule{}, err
		}
		if took == 0 {
			return store.Schedule{}, errRestart // bound concurrently
		}
		if err := t.shared().Counts(next.Project).Schedules.Before().OneMore(ctx, n.Most); err != nil {
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
	return readOne(ctx, s, "schedule", func(ctx context.Context, v view) (store.Schedule, error) {
		var row pgdb.Schedule
		var err error
		if ref.Key != "" {
			row, err = v.q.ScheduleByKey(ctx, digestOf(ref.Project, ref.Key))
		} else {
			row, err = v.q.GetSchedule(ctx, fromID(ref.ID))
		}
		if err != nil {
			return store.Schedule{}, err
		}
		if ref.Project != "" && row.Project != ref.Project {
			return store.Schedule{}, store.ErrNotFound
		}
		return toSchedule(row)
	})
}

// ListSchedules implements store.Store.
func (s *Store) ListSchedules(ctx context.Context, q store.ScheduleQuery) (store.SchedulePage, error) {
	return read(ctx, s, "list schedules", func(ctx context.Context, v view) (store.SchedulePage, error) {
		var p store.SchedulePage
		ids, next, err := v.walkSchedules(ctx, q)
		if err != nil {
			return p, err
		}
		p.Next = next
		rows, err := v.q.ListedSchedules(ctx, fromIDs(ids))
		if err != nil {
			return p, err
		}
		found := make(map[job.ID]store.Schedule, len(rows))
		for _, r := range rows {
			if found[toID(r.ID)], err = toSchedule(pgdb.Schedule(r)); err != nil {
				return p, err
			}
		}
		for _, id := range ids {
			p.Schedules = append(p.Schedules, found[id])
		}
		return p, nil
	})
}

// walkSchedules finds the schedules of a page, and where the next one begins.
func (v view) walkSchedules(ctx context.Context, q store.ScheduleQuery) (ids []job.ID, next job.ID, err error) {
	after := pgdb.SchedulesPageParams{Project: q.Project, AfterTime: endOfTime, AfterID: fromID(job.ID{})}
	if !q.After.IsZero() {
		last, err := v.q.ListedSchedules(ctx, fromIDs([]job.ID{q.After}))
		if err == nil && len(last) == 0 {
			err = store.ErrNotFound
		}
		if err != nil {
			return nil, next, err
		}
		after.AfterTime, after.AfterID = last[0].CreatedAt, last[0].ID
	}
	for left := q.MaxScan(); left > 0; {
		after.MaxRows = int32(min(left, store.MaxBatch))
		rows, err := v.q.SchedulesPage(ctx, after)
		if err != nil {
			return nil, next, err
		}
		for _, r := range rows {
			labels, _, err := store.DecodeTerms(r.Labels, nil)
			if err != nil {
				return nil, next, err
			}
			ok := q.Selects(store.Schedule{
				State: store.ScheduleState(r.State), PauseCause: store.PauseCause(r.PauseCause),
				Connection: toID(r.ConnectionID), Labels: labels, Queued: r.Queued, HeldUntil: toTime(r.HeldUntil),
			})
			if ok && len(ids) == rules.Page(q.Limit) {
				return ids, ids[len(ids)-1], nil
			}
			if ok {
				ids = append(ids, toID(r.ID))
			}
			after.AfterTime, after.AfterID = r.CreatedAt, r.ID
		}
		if left -= len(rows); len(rows) < int(after.MaxRows) {
			return ids, next, nil
		}
	}
	return ids, toID(after.AfterID), nil
}

// ChangeSchedule implements store.Store.
func (s *Store) ChangeSchedule(ctx context.Context, c store.ScheduleChange) (store.Schedule, error) {
	return write(ctx, s, "change schedule", func(ctx context.Context, t *tx) (store.Schedule, error) {
		if err := t.refuseQuarantined(); err != nil {
			return store.Schedule{}, err
		}
		row, err := t.q.LockSchedule(ctx, fromID(c.Schedule.ID))
		if err != nil {
			return store.Schedule{}, err
		}
		if row.Project != c.Schedule.Project {
			return store.Schedule{}, store.ErrNotFound
		}
		if err := store.Settled(store.ScheduleState(row.State), toTime(row.HeldUntil), c.Schedule.State); err != nil {
			return store.Schedule{}, err
		}
		return t.changeSchedule(ctx, row, c)
	})
}

// changeSchedule writes a change of a schedule that is locked.
func (t *tx) changeSchedule(ctx context.Context, row pgdb.Schedule, c store.ScheduleChange) (store.Schedule, error) {
	was, err := toSchedule(row)
	if err != nil {
		return store.Schedule{}, err
	}
	next, err := c.Changed(was, t.now)
	if err != nil {
		return store.Schedule{}, err
	}
	last, err := t.addFirings(ctx, row, c.Firings)
	if err != nil {
		return store.Schedule{}, err
	}
	if next.State == store.ScheduleDeleted {
		if err := t.q.RemoveItems(ctx, pgdb.RemoveItemsParams{ScheduleID: row.ID, Now: t.now}); err != nil {
			return store.Schedule{}, fmt.Errorf("items: %w", err)
		}
	}
	p, err := setScheduleParams(next, last)
	if err != nil {
		return store.Schedule{}, err
	}
	n, err := t.q.SetSchedule(ctx, p)
	if err == nil && n != 1 {
		err = store.ErrStale
	}
	t.hint[store.WatchSchedules] = true
	return next, named("schedule", err)
}

// addFirings adds the firings of a change that are not stored yet, and returns the number of
// the newest one.
func (t *tx) addFirings(ctx context.Context, row pgdb.Schedule, firings []store.Firing) (int64, error) {
	last := row.LastFiring
	if len(firings) == 0 {
		return last, nil
	}
	var p pgdb.InsertFiringsParams
	for _, f := range firings {
		last++
		addFiring(&p, row.ID, last, f, t.now)
	}
	return last, named("firings", t.q.InsertFirings(ctx, p))
}

// Firings implements store.Store.
func (s *Store) Firings(ctx context.Context, q store.FiringQuery) (store.FiringPage, error) {
	return read(ctx, s, "firings", func(ctx context.Context, v view) (store.FiringPage, error) {
		var p store.FiringPage
		of, err := v.q.ListedSchedules(ctx, []pgtype.UUID{fromID(q.Schedule)})
		if err != nil {
			return p, err
		}
		if len(of) == 0 || q.Project != "" && of[0].Project != q.Project {
			return p, store.ErrNotFound
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
			rows, err := v.q.FiringsBefore(ctx, pgdb.FiringsBeforeParams{ScheduleID: fromID(q.Schedule), Before: before, MaxRows: int32(most)})
			if err != nil {
				return p, err
			}
			for _, r := range rows {
				f := toFiring(r)
				if q.Selects(f) && len(p.Firings) == rules.Page(q.Limit) {
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
	rows, err := v.q.KnownFirings(ctx, pgdb.KnownFiringsParams{Schedules: []pgtype.UUID{fromID(q.Schedule)}, Names: []string{q.Name}})
	for _, row := range rows {
		if f := toFiring(row); q.Selects(f) {
			p.Firings = append(p.Firings, f)
		}
	}
	return p, err
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
		at, err := v.q.NextSchedule(ctx, fromIDs(except))
		if errors.Is(err, pgx.ErrNoRows) {
			return limit, nil
		}
		return min(limit, max(0, at.Sub(v.now))), err
	})
}

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
	p := pgdb.WakeSchedulesParams{Now: &b.now, Ids: fromIDs(distinct(b.schedules))}
	b.queue(ctx, func(ctx context.Context, db pgdb.DBTX) error {
		r, err := pgdb.New(db).WakeSchedules(ctx, p)
		if err != nil {
			return fmt.Errorf("schedules: %w", err)
		}
		b.hint[store.WatchSchedules] = b.hint[store.WatchSchedules] || r.Woken > 0
		b.busy = append(b.busy, toIDs(r.Busy)...)
		return nil
	})
}
