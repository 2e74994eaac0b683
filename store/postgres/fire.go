package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file:
//   - the schedules are locked first, and those that another server has locked are left to
//     it. So one server decides about a name, and where it was decided before, only its key
//     is needed;
//   - the data for the decisions is read for all schedules together, and the decisions are
//     written together;
//   - a batch that the database refuses is written schedule by schedule, so that one bad
//     decision does not stop the others.

// Fire implements store.Store.
func (s *Store) Fire(ctx context.Context, p store.FireParams) ([]store.Fired, bool, error) {
	fired, ids, more, err := s.fire(ctx, p, nil)
	switch {
	case err == nil || !errors.Is(err, store.ErrIllegal) || len(ids) == 0:
		return fired, more, err
	case !p.Only.ID.IsZero():
		return []store.Fired{{Schedule: store.Schedule{ID: p.Only.ID, Project: p.Only.Project}, Err: err}}, false, nil
	}
	fired = nil
	for _, id := range ids {
		one, _, _, err := s.fire(ctx, p, []job.ID{id})
		if err != nil && errors.Is(err, store.ErrIllegal) {
			refused := store.Fired{Schedule: store.Schedule{ID: id}, Err: err}
			if refused.Schedule, err = s.postpone(ctx, id); err == nil {
				one = []store.Fired{refused}
			}
		}
		if err != nil {
			return nil, false, err
		}
		fired = append(fired, one...)
	}
	return fired, more, nil
}

// postpone puts off the next decision about a schedule whose decision was refused, by
// store.BufferedLook. The schedule stays due.
func (s *Store) postpone(ctx context.Context, id job.ID) (store.Schedule, error) {
	return write(ctx, s, "postpone", func(ctx context.Context, t *tx) (store.Schedule, error) {
		row, err := t.shared().Q.LockSchedule(ctx, shareddb.LockScheduleParams{ID: id})
		if err != nil {
			return store.Schedule{}, err
		}
		if !row.NextAt.IsZero() && !row.NextAt.After(t.now) { // otherwise another server has decided since
			if err := t.postpone(ctx, []job.ID{id}); err != nil {
				return store.Schedule{}, err
			}
		}
		return sqlstore.ToSchedule(row)
	})
}

func (t *tx) postpone(ctx context.Context, ids []job.ID) error {
	p := shareddb.PostponeSchedulesParams{Until: t.now.Add(store.BufferedLook), Ids: ids}
	return named("postpone", t.shared().Q.PostponeSchedules(ctx, p))
}

// fire decides about due schedules in one transaction, or about the named ones. ids are those
// that it locked.
func (s *Store) fire(ctx context.Context, p store.FireParams, some []job.ID) (out []store.Fired, ids []job.ID, more bool, err error) {
	// Refusals of one try are passed to the next one.
	refused := make(map[keyOf]error)
	out, err = write(ctx, s, "fire", func(ctx context.Context, t *tx) ([]store.Fired, error) {
		ids, more = nil, false
		if err := t.refuseClosed(); err != nil {
			return nil, err
		}
		f := &firer{tx: t, sq: t.shared().Q, p: p, end: time.Now().Add(fireTime), some: some, refused: refused}
		err := sqlstore.InSequence(ctx, f.lock, f.facts, f.decide, f.write)
		ids, more = f.ids, f.more
		return f.out, err
	})
	return out, ids, more, err
}

// fireTime is how long a call of Fire decides: its schedules are locked, and the caller waits
// for a bounded time.
const fireTime = time.Second

// firer is a call of Fire in progress.
type firer struct {
	*tx
	sq      *shareddb.Queries
	p       store.FireParams
	end     time.Time
	some    []job.ID
	refused map[keyOf]error

	ids    []job.ID
	last   map[job.ID]int64
	rounds []*store.FireRound
	// conns are the connections that were read.
	conns map[job.ID]pgdb.ProspectsRow
	out   []store.Fired
	more  bool
}

// lock locks the schedules to decide about, and reads as many as the bound on templates
// allows.
func (f *firer) lock(ctx context.Context) error {
	if !f.p.Only.ID.IsZero() {
		row, err := f.sq.LockSchedule(ctx, shareddb.LockScheduleParams{ID: f.p.Only.ID})
		if errors.Is(err, pgx.ErrNoRows) || err == nil && row.Project != f.p.Only.Project {
			return store.ErrNotFound
		}
		if err != nil {
			return fmt.Errorf("schedule: %w", err)
		}
		return f.read([]job.ID{row.ID}, []shareddb.SchedulesByIDRow{shareddb.SchedulesByIDRow(row)})
	}
	rows, err := f.lockDue(ctx)
	if err != nil {
		return fmt.Errorf("due schedules: %w", err)
	}
	var ids []job.ID
	size := int64(0)
	for _, r := range rows {
		size += r.Size
		if r.Queued {
			size += store.MaxDueItemBytes
		}
		if size > store.MaxFireBytes && len(ids) > 0 {
			f.more = true
			break
		}
		ids = append(ids, r.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	read, err := f.sq.SchedulesByID(ctx, shareddb.SchedulesByIDParams{Ids: ids, Templates: true})
	if err != nil {
		return fmt.Errorf("schedules: %w", err)
	}
	return f.read(ids, read)
}

func (f *firer) lockDue(ctx context.Context) ([]shareddb.LockDueSchedulesRow, error) {
	if f.some != nil {
		some, err := f.sq.LockTheseSchedules(ctx, shareddb.LockTheseSchedulesParams{Ids: f.some, Now: f.now})
		return store.Converted(some, err, func(r shareddb.LockTheseSchedulesRow) shareddb.LockDueSchedulesRow {
			return shareddb.LockDueSchedulesRow(r)
		})
	}
	most := rules.Page(f.p.Limit)
	rows, err := f.sq.LockDueSchedules(ctx, shareddb.LockDueSchedulesParams{
		Now: f.now, ExceptIds: sqlstore.Listed(f.p.Except), MaxRows: int32(most),
	})
	f.more = len(rows) == most
	return rows, err
}

// read takes the schedules in the order of ids.
func (f *firer) read(ids []job.ID, rows []shareddb.SchedulesByIDRow) error {
	f.ids, f.last = ids, make(map[job.ID]int64, len(rows))
	at := make(map[job.ID]int, len(rows))
	for i, r := range rows {
		at[r.ID] = i
	}
	for _, id := range ids {
		row := rows[at[id]]
		s, err := sqlstore.ToSchedule(shareddb.Schedule(row))
		if err != nil {
			return err
		}
		f.last[s.ID] = row.LastFiring
		r := &store.FireRound{Due: store.DueSchedule{Schedule: s, Now: f.now}}
		for key, err := range f.refused {
			if key.project == s.ID.String() {
				r.AddRefused(key.key, err)
			}
		}
		f.rounds = append(f.rounds, r)
	}
	return nil
}

// facts reads what the decisions depend on apart from the schedules.
func (f *firer) facts(ctx context.Context) error {
	if len(f.rounds) == 0 {
		return nil
	}
	due := make(map[job.ID]*store.DueSchedule, len(f.rounds))
	var conns []job.ID
	var failing pgdb.EndedJobsParams
	for _, r := range f.rounds {
		s := &r.Due.Schedule
		due[s.ID], conns = &r.Due, append(conns, s.Connection)
		if s.PauseAfterFailures > 0 {
			failing.Ids = append(failing.Ids, s.ID)
			failing.Mosts = append(failing.Mosts, int64(min(s.PauseAfterFailures, store.MaxEndedJobs)))
		}
	}
	var open []pgdb.OpenJobsRow
	var ended []pgdb.EndedJobsRow
	var meta pgdb.Meta
	f.queue(ctx, func(ctx context.Context, db pgdb.DBTX) (err error) {
		meta, err = pgdb.New(db).GetMeta(ctx)
		return named("meta", err)
	})
	f.queue(ctx, query("jobs", (*pgdb.Queries).OpenJobs, f.ids, &open))
	if len(failing.Ids) > 0 {
		f.queue(ctx, query("ended jobs", (*pgdb.Queries).EndedJobs, failing, &ended))
	}
	if err := f.flush(ctx); err != nil {
		return err
	}
	if err := f.dueItems(ctx, due); err != nil {
		return err
	}
	if !meta.ReleasedAt.IsZero() {
		for _, d := range due {
			d.HeldUntil = meta.ReleasedAt
		}
	}
	for _, o := range open {
		d := due[o.ScheduleID]
		d.Open = append(d.Open, store.OpenJob{ID: o.JobID, State: o.State})
	}
	for _, e := range ended {
		d := due[e.ScheduleID]
		d.Ended = append(d.Ended, store.EndedJob{ID: e.JobID, State: e.State, Decided: e.DecidedAt})
	}
	found, err := f.shared().Connections(ctx, conns)
	for _, d := range due {
		if conn := found[d.Schedule.Connection]; conn.Project == d.Schedule.Project {
			d.Connection = conn
		}
	}
	return err
}

// decide calls Decide until all decisions are final. It leaves the schedules that it does not
// come to in time to the next call.
func (f *firer) decide(ctx context.Context) error {
	f.conns = make(map[job.ID]pgdb.ProspectsRow)
	for first := true; ; first = false {
		var asked []*store.FireRound
		for i, r := range f.rounds {
			if first && i > 0 && time.Now().After(f.end) {
				f.rounds, f.ids, f.more = f.rounds[:i], f.ids[:i], true
				break
			}
			if !r.Final() {
				r.Ask(f.p)
				asked = append(asked, r)
			}
		}
		if len(asked) == 0 {
			return nil
		}
		if err := f.lookUp(ctx, asked); err != nil {
			return err
		}
		if err := f.checkJobs(ctx, asked); err != nil {
			return err
		}
	}
}

// lookUp finds the stored firings.
func (f *firer) lookUp(ctx context.Context, asked []*store.FireRound) error {
	var p pgdb.KnownFiringsParams
	of := make(map[job.ID]*store.FireRound, len(asked))
	for _, r := range asked {
		of[r.Due.Schedule.ID] = r
		for _, name := range r.Names() {
			p.Schedules, p.Names = append(p.Schedules, r.Due.Schedule.ID), append(p.Names, name)
		}
	}
	if len(p.Names) == 0 {
		return nil
	}
	rows, err := f.q.KnownFirings(ctx, p)
	for _, row := range rows {
		of[row.ScheduleID].AddKnown(sqlstore.ToFiring(shareddb.Firing(row)))
	}
	return named("firings", err)
}

// checkJobs finds the jobs that cannot be made.
func (f *firer) checkJobs(ctx context.Context, asked []*store.FireRound) error {
	var ids []job.ID
	for _, r := range asked {
		_, jobs := r.Jobs()
		for i := range jobs {
			if _, ok := f.conns[jobs[i].Spec.Connection]; !ok {
				ids = append(ids, jobs[i].Spec.Connection)
				f.conns[jobs[i].Spec.Connection] = pgdb.ProspectsRow{Deleted: true}
			}
		}
	}
	if len(ids) > 0 {
		rows, err := f.q.Prospects(ctx, distinct(ids))
		if err != nil {
			return fmt.Errorf("connections: %w", err)
		}
		for _, row := range rows {
			f.conns[row.ID] = row
		}
	}
	for _, r := range asked {
		if !r.Final() {
			continue // Decide is called again in any case
		}
		places, jobs := r.Jobs()
		for n, i := range places {
			id := jobs[n].Spec.Connection
			if conn := f.conns[id]; (conn.Deleted || conn.Project != jobs[n].Spec.Project) && r.Err == nil {
				r.AddRefused(r.Firings[i].Firing.Name, fmt.Errorf("connection %s: %w", id, store.ErrNotFound))
			}
			if r.Err != nil {
				break
			}
		}
	}
	return nil
}

// made is the position of a decision's jobs in the batch.
type made struct {
	*store.FireRound
	places     []int
	begin, end int
}

// write writes the decisions, up to the bounds.
func (f *firer) write(ctx context.Context) error {
	var all []made
	var items []store.NewJob
	var budget store.FireBudget
	for _, r := range f.rounds {
		if r.Left() {
			continue
		}
		if !budget.Take(r) {
			f.more = true
			break
		}
		places, jobs := r.Jobs()
		all = append(all, made{r, places, len(items), len(items) + len(jobs)})
		items = append(items, jobs...)
	}
	out, err := f.makeJobs(ctx, items)
	if err != nil {
		return err
	}
	set := pgdb.SetFiredParams{}
	firings := pgdb.InsertFiringsParams{}
	ends := pgdb.EndItemsParams{Now: f.now}
	var off []job.ID
	for _, m := range all {
		for n, i := range m.places {
			if c := out[m.begin+n]; c.Owner().IsZero() {
				// The job could be made a moment ago.
				f.refused[keyOf{m.Due.Schedule.ID.String(), m.Firings[i].Firing.Name}] = c.Err
				return errRestart
			}
		}
		fired := m.Fired(m.places, out[m.begin:m.end])
		f.out = append(f.out, fired)
		if fired.Err != nil {
			off = append(off, fired.Schedule.ID)
			continue
		}
		addEnds(&ends, m.Items(fired))
		last := f.last[fired.Schedule.ID]
		for _, one := range fired.Firings {
			if !one.Repeat {
				last++
				addFiring(&firings, fired.Schedule.ID, last, one.Firing, f.now)
			}
		}
		if err := addFired(&set, fired.Schedule, last); err != nil {
			return err
		}
	}
	f.endItems(ctx, ends)
	return f.writeRows(ctx, firings, set, off)
}

// makeJobs makes jobs, as Create does.
func (f *firer) makeJobs(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	if len(items) == 0 {
		return nil, nil
	}
	b := &jobCreator{tx: f.tx, items: items, out: make([]store.Created, len(items)), reads: new(batchReads)}
	b.reads.queueProspects(ctx, f.tx, items)
	if err := f.flush(ctx); err != nil {
		return nil, err
	}
	if err := b.take(ctx, false); err != nil {
		return nil, err
	}
	return b.out, sqlstore.InSequence(ctx, b.insert, b.start, b.answer, f.flush)
}

func (f *firer) writeRows(ctx context.Context, firings pgdb.InsertFiringsParams, set pgdb.SetFiredParams, off []job.ID) error {
	if len(firings.Names) > 0 {
		f.queue(ctx, statement("firings", (*pgdb.Queries).InsertFirings, firings))
	}
	if len(set.Ids) > 0 {
		f.queue(ctx, func(ctx context.Context, db pgdb.DBTX) error {
			n, err := pgdb.New(db).SetFired(ctx, set)
			if err == nil && int(n) != len(set.Ids) {
				err = fmt.Errorf("%w: %d of %d locked schedules were written", store.ErrUnavailable, n, len(set.Ids))
			}
			return named("schedules", err)
		})
	}
	if err := f.flush(ctx); err != nil || len(off) == 0 || !f.p.Only.ID.IsZero() {
		return err
	}
	return f.postpone(ctx, off)
}

// dueItems reads the first items of queues.
func (f *firer) dueItems(ctx context.Context, due map[job.ID]*store.DueSchedule) error {
	var schedules []job.ID
	for _, r := range f.rounds {
		if r.Due.Schedule.Queued {
			schedules = append(schedules, r.Due.Schedule.ID)
		}
	}
	if len(schedules) == 0 {
		return nil
	}
	heads, err := f.q.QueueHeads(ctx, pgdb.QueueHeadsParams{Schedules: schedules, MaxRows: store.MaxDueItems + 1})
	if err != nil {
		return fmt.Errorf("queues: %w", err)
	}
	queues := make(map[job.ID]store.Queue, len(schedules))
	for _, h := range heads {
		of := h.ScheduleID
		queues[of] = append(queues[of], store.QueuedItem{ID: h.ID, Place: h.Place, Size: h.Size, Waiting: true})
	}
	return f.shared().DueItems(ctx, queues, due)
}

// addEnds adds the items that leave the queue.
func addEnds(p *pgdb.EndItemsParams, ends []store.ItemEnd) {
	for _, e := range ends {
		p.Ids, p.States = append(p.Ids, e.ID), append(p.States, int16(e.State))
		p.FiringNames, p.Jobs = append(p.FiringNames, e.Firing), append(p.Jobs, e.Job)
		p.Reasons = append(p.Reasons, e.Reason)
	}
}

// endItems takes items out of the queue.
func (f *firer) endItems(ctx context.Context, p pgdb.EndItemsParams) {
	if len(p.Ids) == 0 {
		return
	}
	f.queue(ctx, func(ctx context.Context, db pgdb.DBTX) error {
		n, err := pgdb.New(db).EndItems(ctx, p)
		if err == nil && int(n) != len(p.Ids) {
			err = fmt.Errorf("%w: %d of %d items waited", store.ErrIllegal, n, len(p.Ids))
		}
		return named("items", err)
	})
}

func addFired(p *pgdb.SetFiredParams, s store.Schedule, lastFiring int64) error {
	buffered, skips, catchUp, err := s.Texts()
	if err != nil {
		return err
	}
	p.CatchUps = append(p.CatchUps, catchUp)
	p.Ids, p.Versions, p.Revisions = append(p.Ids, s.ID), append(p.Versions, s.Version), append(p.Revisions, s.Revision)
	p.States, p.PauseCauses = append(p.States, int16(s.State)), append(p.PauseCauses, int16(s.PauseCause))
	p.Notes, p.PausedAts = append(p.Notes, s.Note), append(p.PausedAts, s.PausedAt)
	p.Cursors, p.NextAts = append(p.Cursors, s.Cursor), append(p.NextAts, s.Next)
	p.Buffereds, p.SkipLists = append(p.Buffereds, buffered), append(p.SkipLists, skips)
	p.Runs, p.Fireds = append(p.Runs, s.Run), append(p.Fireds, s.Counts.Fired)
	p.Overlapped, p.Persons = append(p.Overlapped, s.Counts.SkippedByOverlap), append(p.Persons, s.Counts.SkippedByPerson)
	p.Misseds, p.Coalesceds = append(p.Misseds, s.Counts.Missed), append(p.Coalesceds, s.Counts.Coalesced)
	p.Refuseds, p.LastFirings = append(p.Refuseds, s.Counts.Refused), append(p.LastFirings, lastFiring)
	p.UpdatedAts, p.NoContents = append(p.UpdatedAts, s.Updated), append(p.NoContents, s.Counts.NoContent)
	p.Limiteds, p.Days = append(p.Limiteds, s.Counts.SkippedByLimit), append(p.Days, s.Day)
	p.DayCounts, p.Helds = append(p.DayCounts, s.DayCount), append(p.Helds, s.Counts.Held)
	p.RefusedRows, p.HeldUntils = append(p.RefusedRows, s.RefusedInRow), append(p.HeldUntils, s.HeldUntil)
	return nil
}

func addFiring(p *pgdb.InsertFiringsParams, schedule job.ID, number int64, f store.Firing, now time.Time) {
	p.DecidedAt = now
	p.Schedules, p.Names, p.Numbers = append(p.Schedules, schedule), append(p.Names, f.Name), append(p.Numbers, number)
	p.Nominals, p.LocalTimes = append(p.Nominals, job.Micros(f.Nominal)), append(p.LocalTimes, f.LocalTime)
	p.Marks, p.Origins = append(p.Marks, int16(f.Mark)), append(p.Origins, int16(f.Origin))
	p.Outcomes, p.Reasons = append(p.Outcomes, int16(f.Outcome)), append(p.Reasons, f.Reason)
	p.Jobs, p.Blockers, p.Runs = append(p.Jobs, f.Job), append(p.Blockers, f.Blocking), append(p.Runs, f.Run)
}

// AddFirings implements sqlstore.Writing.
func (w writing) AddFirings(ctx context.Context, schedule job.ID, last int64, firings []store.Firing) (int64, error) {
	if len(firings) == 0 {
		return last, nil
	}
	var p pgdb.InsertFiringsParams
	for _, f := range firings {
		last++
		addFiring(&p, schedule, last, f, w.t.now)
	}
	return last, named("firings", w.t.q.InsertFirings(ctx, p))
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
