package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// stored is an object, and whether the call created it.
type stored[T any] struct {
	value   T
	created bool
}

// CreateSchedule implements store.Store. Of concurrent calls with one key, one inserts; the
// others wait for it and then read what it bound.
func (r *Roles) CreateSchedule(ctx context.Context, n store.NewSchedule) (store.Schedule, bool, error) {
	out, err := write(ctx, r, "create schedule", func(ctx context.Context, t Tx) (out stored[store.Schedule], err error) {
		if n.Most > 0 {
			if err := t.LockCount(ctx, CountedSchedules, n.Schedule.Project); err != nil {
				return out, err
			}
		}
		digest := job.KeyDigest(n.Schedule.Project, n.Schedule.Key)
		row, err := t.Q.ScheduleByKey(ctx, digest[:])
		if errors.Is(err, sql.ErrNoRows) {
			if out.value, err = n.Stored(t.Now); err != nil {
				return out, err
			}
			if err := t.Counts(n.Schedule.Project).Schedules.OneMore(ctx, n.Most); err != nil {
				return out, err
			}
			if row, err = fromSchedule(out.value); err != nil {
				return out, err
			}
			row.KeyDigest = digest[:]
			var took int64
			took, err = t.Q.InsertSchedule(ctx, shareddb.InsertScheduleParams(row))
			if out.created = took == 1; err != nil || out.created {
				t.Wake(store.WatchSchedules)
				return out, err
			}
			row, err = t.Q.ScheduleByKey(ctx, digest[:]) // bound concurrently
		}
		if err == nil {
			out.value, err = toSchedule(row)
		}
		return out, err
	})
	return out.value, out.created, err
}

// Schedule implements store.Store.
func (r *Roles) Schedule(ctx context.Context, ref store.Ref) (store.Schedule, error) {
	return readOne(ctx, r, "schedule", func(ctx context.Context, v View) (store.Schedule, error) {
		var row shareddb.Schedule
		var err error
		if ref.Key != "" {
			digest := job.KeyDigest(ref.Project, ref.Key)
			row, err = v.Q.ScheduleByKey(ctx, digest[:])
		} else {
			row, err = v.Q.GetSchedule(ctx, ref.ID)
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

// lockSchedule locks a schedule of a project.
func (t Tx) lockSchedule(ctx context.Context, project string, id job.ID) (shareddb.Schedule, error) {
	row, err := t.Q.LockSchedule(ctx, shareddb.LockScheduleParams{ID: id, Project: project})
	return row, orNotFound(err)
}

// hasSchedule returns ErrNotFound unless a project has a schedule.
func (v View) hasSchedule(ctx context.Context, project string, id job.ID) error {
	_, err := v.Q.HasSchedule(ctx, shareddb.HasScheduleParams{ID: id, Project: project})
	return orNotFound(err)
}

// ListSchedules implements store.Store.
func (r *Roles) ListSchedules(ctx context.Context, q store.ScheduleQuery) (store.SchedulePage, error) {
	return read(ctx, r, "list schedules", func(ctx context.Context, v View) (p store.SchedulePage, err error) {
		ids, next, err := v.walkSchedules(ctx, q)
		if err != nil {
			return p, err
		}
		p.Next = next
		rows, err := v.Q.SchedulesByID(ctx, shareddb.SchedulesByIDParams{Ids: ids})
		if err != nil {
			return p, err
		}
		found := make(map[job.ID]store.Schedule, len(rows))
		for _, r := range rows {
			if found[r.ID], err = toSchedule(shareddb.Schedule(r)); err != nil {
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
func (v View) walkSchedules(ctx context.Context, q store.ScheduleQuery) (ids []job.ID, next job.ID, err error) {
	after := shareddb.SchedulesPageParams{Project: q.Project, AfterTime: endOfTime}
	if !q.After.IsZero() {
		last, err := v.Q.SchedulesByID(ctx, shareddb.SchedulesByIDParams{Ids: []job.ID{q.After}})
		if err == nil && len(last) == 0 {
			err = store.ErrNotFound
		}
		if err != nil {
			return nil, next, err
		}
		after.AfterTime, after.AfterID = last[0].CreatedAt, q.After
	}
	for left := q.MaxScan(); left > 0; {
		after.MaxRows = int32(min(left, store.MaxBatch))
		rows, err := v.Q.SchedulesPage(ctx, after)
		if err != nil {
			return nil, next, err
		}
		for _, r := range rows {
			labels, _, err := store.DecodeTerms(r.Labels, nil)
			if err != nil {
				return nil, next, err
			}
			ok := q.Selects(store.Schedule{
				State: r.State, PauseCause: r.PauseCause, Connection: r.ConnectionID, Labels: labels, Queued: r.Queued,
				HeldUntil: r.HeldUntil,
			})
			if ok && len(ids) == rules.Page(q.Limit) {
				return ids, ids[len(ids)-1], nil
			}
			if ok {
				ids = append(ids, r.ID)
			}
			after.AfterTime, after.AfterID = r.CreatedAt, r.ID
		}
		if left -= len(rows); len(rows) < int(after.MaxRows) {
			return ids, next, nil
		}
	}
	return ids, after.AfterID, nil
}

// ChangeSchedule implements store.Store.
func (r *Roles) ChangeSchedule(ctx context.Context, c store.ScheduleChange) (store.Schedule, error) {
	return write(ctx, r, "change schedule", func(ctx context.Context, t Tx) (store.Schedule, error) {
		if err := t.RefuseQuarantined(ctx); err != nil {
			return store.Schedule{}, err
		}
		row, err := t.lockSchedule(ctx, c.Schedule.Project, c.Schedule.ID)
		if err == nil && c.Schedule.Project == "" {
			err = store.ErrNotFound
		}
		if err != nil {
			return store.Schedule{}, err
		}
		if err := store.Settled(row.State, row.HeldUntil, c.Schedule.State); err != nil {
			return store.Schedule{}, err
		}
		return t.changeSchedule(ctx, row, c)
	})
}

// changeSchedule writes a change of a schedule that is locked.
func (t Tx) changeSchedule(ctx context.Context, row shareddb.Schedule, c store.ScheduleChange) (store.Schedule, error) {
	was, err := toSchedule(row)
	if err != nil {
		return store.Schedule{}, err
	}
	next, err := c.Changed(was, t.Now)
	if err != nil {
		return store.Schedule{}, err
	}
	last, firings := row.LastFiring, shareddb.InsertFiringsParams{DecidedAt: t.Now}
	for _, f := range c.Firings {
		last++
		addFiring(&firings, row.ID, last, f)
	}
	if len(firings.Names) > 0 {
		if err := t.Q.InsertFirings(ctx, firings); err != nil {
			return store.Schedule{}, fmt.Errorf("firings: %w", err)
		}
	}
	t.Wake(store.WatchSchedules)
	if next.State != store.ScheduleDeleted {
		return next, t.setSchedule(ctx, next, last)
	}
	return next, t.Overwriting(ctx, func() error {
		queue, err := t.queueOf(ctx, row.ID)
		if err != nil {
			return err
		}
		if err := t.CountUse(ctx, row.Project, 0, -queue.Size()); err != nil {
			return err
		}
		if err := t.Q.RemoveItems(ctx, shareddb.RemoveItemsParams{ScheduleID: row.ID, Now: t.Now}); err != nil {
			return fmt.Errorf("items: %w", err)
		}
		return t.setSchedule(ctx, next, last)
	})
}

// setSchedule writes a schedule that is locked, with the number of its newest firing.
func (t Tx) setSchedule(ctx context.Context, s store.Schedule, lastFiring int64) error {
	r, err := fromSchedule(s)
	if err != nil {
		return err
	}
	return named("schedule", stale(t.Q.SetSchedule(ctx, shareddb.SetScheduleParams{
		Version: r.Version, Revision: r.Revision, Generation: r.Generation, Spec: r.Spec, Template: r.Template,
		Policies: r.Policies, ConnectionID: r.ConnectionID, DisplayName: r.DisplayName, Labels: r.Labels, Queued: r.Queued,
		PauseAfterFailures: r.PauseAfterFailures, State: r.State, PauseCause: r.PauseCause, Note: r.Note,
		PausedAt: r.PausedAt, CursorAt: r.CursorAt, NextAt: r.NextAt, CatchUp: r.CatchUp, Buffered: r.Buffered,
		Skips: r.Skips, Run: r.Run, Day: r.Day, DayCount: r.DayCount, Fired: r.Fired, SkippedByOverlap: r.SkippedByOverlap,
		SkippedByPerson: r.SkippedByPerson, SkippedByLimit: r.SkippedByLimit, NoContent: r.NoContent, Missed: r.Missed,
		Coalesced: r.Coalesced, Refused: r.Refused, Held: r.Held, RefusedInRow: r.RefusedInRow, LastFiring: lastFiring,
		HeldUntil: r.HeldUntil, UpdatedAt: r.UpdatedAt, DeletedAt: r.DeletedAt, UpdatedBy: r.UpdatedBy, ID: r.ID,
	})))
}

// stale returns the verdict on a write of one row under its version.
func stale(n int64, err error) error {
	if err == nil && n != 1 {
		return store.ErrStale
	}
	return err
}

// Firings implements store.Store.
func (r *Roles) Firings(ctx context.Context, q store.FiringQuery) (store.FiringPage, error) {
	return read(ctx, r, "firings", func(ctx context.Context, v View) (p store.FiringPage, err error) {
		if err := v.hasSchedule(ctx, q.Project, q.Schedule); err != nil {
			return p, err
		}
		if q.Name != "" {
			row, err := v.Q.GetFiring(ctx, shareddb.GetFiringParams{ScheduleID: q.Schedule, Name: q.Name})
			if f := toFiring(row); err == nil && q.Selects(f) {
				p.Firings = append(p.Firings, f)
			}
			if errors.Is(err, sql.ErrNoRows) {
				err = nil
			}
			return p, err
		}
		before := q.Before
		if before <= 0 {
			before = math.MaxInt64
		}
		for left := store.MaxFiringScan; left > 0; {
			most := min(left, store.MaxBatch)
			rows, err := v.Q.FiringsBefore(ctx, shareddb.FiringsBeforeParams{ScheduleID: q.Schedule, Before: before, MaxRows: int32(most)})
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

// NextFiring implements store.Store.
func (r *Roles) NextFiring(ctx context.Context, limit time.Duration, except []job.ID) (time.Duration, error) {
	return read(ctx, r, "next firing", func(ctx context.Context, v View) (time.Duration, error) {
		if v.Suspect.Suspends {
			return limit, nil
		}
		at, err := v.Q.NextSchedule(ctx, Listed(except))
		if errors.Is(err, sql.ErrNoRows) {
			return limit, nil
		}
		return min(limit, max(0, at.Sub(v.Now))), err
	})
}

// toSchedule returns a schedule as it is stored.
func toSchedule(r shareddb.Schedule) (store.Schedule, error) {
	s := store.Schedule{
		ID: r.ID, Project: r.Project, Key: r.IdemKey, Version: r.Version, Revision: r.Revision, Generation: r.Generation,
		Spec: bytesOf(r.Spec), Template: bytesOf(r.Template), Policies: bytesOf(r.Policies), Connection: r.ConnectionID,
		DisplayName: r.DisplayName, PauseAfterFailures: r.PauseAfterFailures, State: r.State, PauseCause: r.PauseCause,
		Note: r.Note, PausedAt: r.PausedAt, Cursor: r.CursorAt, Next: r.NextAt, Run: r.Run, Counts: store.ScheduleCounts{
			Fired: r.Fired, SkippedByOverlap: r.SkippedByOverlap, SkippedByPerson: r.SkippedByPerson, Missed: r.Missed,
			Coalesced: r.Coalesced, Refused: r.Refused, NoContent: r.NoContent, SkippedByLimit: r.SkippedByLimit,
			Held: r.Held,
		},
		Queued: r.Queued, Day: r.Day, DayCount: r.DayCount, RefusedInRow: r.RefusedInRow, HeldUntil: r.HeldUntil,
		Created: r.CreatedAt, Updated: r.UpdatedAt, Deleted: r.DeletedAt, CreatedBy: r.CreatedBy, UpdatedBy: r.UpdatedBy,
		LedgerBegin: r.LedgerBegin, PostponedUntil: r.PostponedUntil, RefusedDecisions: r.RefusedDecisions,
	}
	var err error
	if s.Labels, s.Fingerprint, err = store.DecodeTerms(r.Labels, r.Fingerprint); err != nil {
		return s, fmt.Errorf("schedule %s: %w", s.ID, err)
	}
	return s, s.SetTexts(r.Buffered, r.Skips, r.CatchUp)
}

// fromSchedule returns the row of a schedule without the digest of its key and the number of its
// newest firing.
func fromSchedule(s store.Schedule) (shareddb.Schedule, error) {
	r := shareddb.Schedule{
		ID: s.ID, Project: s.Project, IdemKey: s.Key, Fingerprint: s.Fingerprint.Bytes(),
		Version: s.Version, Revision: s.Revision, Generation: s.Generation, Spec: filled(s.Spec),
		Template: filled(s.Template), Policies: filled(s.Policies), ConnectionID: s.Connection, DisplayName: s.DisplayName,
		Labels: labelsOf(s.Labels), Queued: s.Queued, PauseAfterFailures: s.PauseAfterFailures, State: s.State,
		PauseCause: s.PauseCause, Note: s.Note, PausedAt: s.PausedAt, CursorAt: s.Cursor, NextAt: s.Next, Run: s.Run,
		Day: s.Day, DayCount: s.DayCount, Fired: s.Counts.Fired, SkippedByOverlap: s.Counts.SkippedByOverlap,
		SkippedByPerson: s.Counts.SkippedByPerson, SkippedByLimit: s.Counts.SkippedByLimit, NoContent: s.Counts.NoContent,
		Missed: s.Counts.Missed, Coalesced: s.Counts.Coalesced, Refused: s.Counts.Refused, Held: s.Counts.Held,
		RefusedInRow: s.RefusedInRow, HeldUntil: s.HeldUntil, LedgerBegin: s.LedgerBegin, CreatedAt: s.Created,
		UpdatedAt: s.Updated, DeletedAt: s.Deleted, CreatedBy: s.CreatedBy, UpdatedBy: s.UpdatedBy,
	}
	var err error
	r.Buffered, r.Skips, r.CatchUp, err = s.Texts()
	return r, err
}

// toFiring returns a firing as it is stored.
func toFiring(r shareddb.Firing) store.Firing {
	return store.Firing{
		Name: r.Name, Nominal: r.NominalAt, LocalTime: r.LocalTime, Mark: r.Mark, Origin: r.Origin, Outcome: r.Outcome,
		Reason: r.Reason, Job: job.ID(r.JobID), Blocking: job.ID(r.BlockingJob), Run: r.Run, Decided: r.DecidedAt,
	}
}
