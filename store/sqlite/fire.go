package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file:
//   - a call is one operation of the only writer, which all other writes wait for: when its
//     time is over it leaves the rest to the next call, after one schedule at least;
//   - a decision is judged whole before the first write of it.

// fireTime is how long a call of Fire may keep the writer.
const fireTime = 25 * time.Millisecond

// maxFired bounds the schedules of a call: those that it does not come to are read for nothing.
const maxFired = 256

// readTogether is how many schedules one statement reads.
const readTogether = 16

// Fire implements store.Store.
func (s *Store) Fire(ctx context.Context, p store.FireParams) (fired []store.Fired, more bool, err error) {
	fired, err = write(ctx, s, "fire", func(ctx context.Context, t *tx) ([]store.Fired, error) {
		if err := t.refuseClosed(ctx); err != nil {
			return nil, err
		}
		f := &firer{tx: t, p: p, end: time.Now().Add(fireTime), conns: make(map[job.ID]store.Connection)}
		ids, err := f.due(ctx)
		if err != nil {
			return nil, err
		}
		err = f.all(ctx, ids)
		more = f.more
		return f.out, err
	})
	return fired, more && err == nil, err
}

// firer is a call of Fire in progress.
type firer struct {
	*tx
	p      store.FireParams
	end    time.Time
	budget store.FireBudget
	// conns are the connections that were read.
	conns map[job.ID]store.Connection
	out   []store.Fired
	more  bool
}

// due returns the schedules to decide about.
func (f *firer) due(ctx context.Context) ([]job.ID, error) {
	if !f.p.Only.ID.IsZero() {
		row, err := f.w.sq.GetSchedule(ctx, f.p.Only.ID)
		if err == nil && row.Project != f.p.Only.Project {
			err = store.ErrNotFound
		}
		return []job.ID{f.p.Only.ID}, orNotFound(err)
	}
	most := min(rules.Page(f.p.Limit), maxFired)
	rows, err := f.w.sq.LockDueSchedules(ctx, shareddb.LockDueSchedulesParams{Now: f.now, ExceptIds: f.p.Except, MaxRows: int32(most)})
	f.more = len(rows) == most
	return store.Converted(rows, named("due schedules", err), func(r shareddb.LockDueSchedulesRow) job.ID { return r.ID })
}

// all decides about schedules until the call's bounds.
func (f *firer) all(ctx context.Context, ids []job.ID) error {
	read := make(map[job.ID]shareddb.Schedule)
	for i, id := range ids {
		if i > 0 && time.Now().After(f.end) {
			f.more = true
			return nil
		}
		if i%readTogether == 0 {
			p := shareddb.SchedulesByIDParams{Ids: ids[i:min(i+readTogether, len(ids))], Templates: true}
			rows, err := f.w.sq.SchedulesByID(ctx, p)
			if err != nil {
				return fmt.Errorf("schedules: %w", err)
			}
			clear(read)
			for _, row := range rows {
				read[row.ID] = shareddb.Schedule(row)
			}
		}
		row := read[id]
		r, err := f.decide(ctx, row)
		if err != nil {
			return err
		}
		if r.Left() {
			continue
		}
		if !f.budget.Take(r) {
			f.more = true
			return nil
		}
		var one store.Fired
		verdict := r.Err
		if verdict == nil {
			var fatal error
			verdict, fatal = f.runItem(ctx, len(ids), func() (err error) {
				one, err = f.write(ctx, row, r)
				return err
			})
			if fatal != nil {
				return fatal
			}
		}
		if verdict != nil {
			one = store.Fired{Schedule: r.Due.Schedule, Err: verdict}
			if err := f.postpone(ctx, id); err != nil {
				return err
			}
		}
		f.out = append(f.out, one)
	}
	return nil
}

// decide reads what a decision depends on, and calls Decide until it is final.
func (f *firer) decide(ctx context.Context, row shareddb.Schedule) (*store.FireRound, error) {
	s, err := sqlstore.ToSchedule(row)
	if err != nil {
		return nil, err
	}
	m, err := f.meta(ctx)
	if err != nil {
		return nil, err
	}
	r := &store.FireRound{Due: store.DueSchedule{Schedule: s, Now: f.now, HeldUntil: m.ReleasedAt}}
	if err := f.facts(ctx, &r.Due); err != nil {
		return nil, err
	}
	for !r.Final() {
		r.Ask(f.p)
		for _, name := range r.Names() {
			known, err := f.w.sq.GetFiring(ctx, shareddb.GetFiringParams{ScheduleID: row.ID, Name: name})
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("firing: %w", err)
			}
			r.AddKnown(sqlstore.ToFiring(known))
		}
		places, jobs := r.Jobs()
		for n, i := range places {
			if !r.Final() {
				break // Decide is called again in any case
			}
			switch err := f.refusal(ctx, jobs[n]); {
			case err == nil:
			case rules.Verdict(err):
				r.AddRefused(r.Firings[i].Firing.Name, err)
			default:
				return nil, err
			}
			if r.Err != nil {
				break
			}
		}
	}
	return r, nil
}

// postpone puts off the next decision about a schedule whose decision was not written, by
// store.BufferedLook. The schedule stays due, and its revision stays.
func (f *firer) postpone(ctx context.Context, id job.ID) error {
	if !f.p.Only.ID.IsZero() {
		return nil
	}
	until := f.now.Add(store.BufferedLook)
	return named("postpone", f.w.sq.PostponeSchedules(ctx, shareddb.PostponeSchedulesParams{Ids: []job.ID{id}, Until: until}))
}

// facts reads what a decision depends on apart from the schedule.
func (f *firer) facts(ctx context.Context, d *store.DueSchedule) error {
	id := d.Schedule.ID
	for _, unresolved := range []bool{false, true} {
		open, err := f.q.NewestOpenJob(ctx, sqlitedb.NewestOpenJobParams{ScheduleID: id, Unresolved: unresolved})
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return fmt.Errorf("jobs: %w", err)
		}
		d.Open = append(d.Open, store.OpenJob{ID: open.JobID, State: open.State})
	}
	if most := d.Schedule.PauseAfterFailures; most > 0 {
		ended, err := f.q.EndedOfSchedule(ctx, sqlitedb.EndedOfScheduleParams{ScheduleID: id, MaxRows: int64(min(most, store.MaxEndedJobs))})
		if err != nil {
			return fmt.Errorf("ended jobs: %w", err)
		}
		for _, e := range ended {
			d.Ended = append(d.Ended, store.EndedJob{ID: e.JobID, State: e.State, Decided: e.DecidedAt})
		}
	}
	if d.Schedule.Queued {
		if err := f.dueItems(ctx, d); err != nil {
			return err
		}
	}
	conn, ok := f.conns[d.Schedule.Connection]
	if !ok {
		var err error
		conn, err = f.getConnection(ctx, d.Schedule.Connection)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("connection: %w", err)
		}
		f.conns[d.Schedule.Connection] = conn
	}
	if conn.Project == d.Schedule.Project {
		d.Connection = conn
	}
	return nil
}

// refusal returns why a job cannot be made.
func (t *tx) refusal(ctx context.Context, n store.NewJob) error {
	conn, err := t.getConnection(ctx, n.Spec.Connection)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	case err == nil && conn.Deleted.IsZero() && conn.Project == n.Spec.Project:
		if err := t.freeEffectKey(ctx, n.EffectKey); err == nil {
			return nil
		} else if !rules.Verdict(err) {
			return err
		}
		err = store.ErrEffectKeyTaken
	default:
		err = fmt.Errorf("connection %s: %w", n.Spec.Connection, store.ErrNotFound)
	}
	if _, berr := t.w.sq.KeyOwner(ctx, digestOf(n.Spec)); berr == nil {
		return nil // it is made already
	} else if !errors.Is(berr, sql.ErrNoRows) {
		return berr
	}
	return err
}

// write writes a decision.
func (f *firer) write(ctx context.Context, row shareddb.Schedule, r *store.FireRound) (store.Fired, error) {
	places, jobs := r.Jobs()
	made := make([]store.Created, len(jobs))
	for n, j := range jobs {
		var err error
		made[n], err = f.create(ctx, j)
		if removed, ok := errors.AsType[*store.RemovedError](err); ok {
			made[n].Err, err = removed, nil
		}
		if err != nil {
			return store.Fired{}, err
		}
	}
	out := r.Fired(places, made)
	var firings []store.Firing
	for _, one := range out.Firings {
		if !one.Repeat {
			firings = append(firings, one.Firing)
		}
	}
	t := f.shared()
	last, err := t.AddFirings(ctx, row.ID, row.LastFiring, firings)
	if err != nil {
		return store.Fired{}, err
	}
	if err := f.endItems(ctx, row.Project, r.Items(out)); err != nil {
		return store.Fired{}, err
	}
	return out, t.SetSchedule(ctx, r.Next, last)
}

// dueItems reads the first items of a queue.
func (f *firer) dueItems(ctx context.Context, d *store.DueSchedule) error {
	of := d.Schedule.ID
	rows, err := f.q.QueueHead(ctx, sqlitedb.QueueHeadParams{ScheduleID: of, MaxRows: store.MaxDueItems + 1})
	queue, err := store.Converted(rows, named("queue", err), func(r sqlitedb.QueueHeadRow) store.QueuedItem {
		return store.QueuedItem{ID: r.ID, Place: r.Place, Size: r.Size, Waiting: true}
	})
	if err != nil {
		return err
	}
	return f.shared().DueItems(ctx, map[job.ID]store.Queue{of: queue}, map[job.ID]*store.DueSchedule{of: d})
}

// endItems takes items out of the queue.
func (f *firer) endItems(ctx context.Context, project string, ends []store.ItemEnd) error {
	if len(ends) == 0 {
		return nil
	}
	return f.overwriting(ctx, func() error {
		freed := int64(0)
		for _, e := range ends {
			freed += e.Freed
			n, err := f.q.EndItem(ctx, sqlitedb.EndItemParams{
				State: e.State, FiringName: e.Firing, JobID: column.OptionalID(e.Job), Reason: e.Reason, EndedAt: f.now, ID: e.ID,
			})
			if err == nil && n != 1 {
				err = fmt.Errorf("%w: it does not wait", store.ErrIllegal)
			}
			if err != nil {
				return fmt.Errorf("item %s: %w", e.ID, err)
			}
		}
		return f.w.usage.add(ctx, f.tx, project, 0, -freed)
	})
}

// AddFirings implements sqlstore.Writing.
func (w writing) AddFirings(ctx context.Context, schedule job.ID, last int64, firings []store.Firing) (int64, error) {
	for _, f := range firings {
		n, err := w.t.q.InsertFiring(ctx, sqlitedb.InsertFiringParams{
			ScheduleID: schedule, Name: f.Name, Number: last + 1, NominalAt: f.Nominal, LocalTime: f.LocalTime,
			Mark: f.Mark, Origin: f.Origin, Outcome: f.Outcome, Reason: f.Reason, JobID: column.OptionalID(f.Job),
			BlockingJob: column.OptionalID(f.Blocking), Run: f.Run, DecidedAt: w.t.now,
		})
		if err != nil {
			return last, fmt.Errorf("firing: %w", err)
		}
		last += n
	}
	return last, nil
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
