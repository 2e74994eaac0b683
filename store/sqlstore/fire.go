package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file:
//   - the schedules are locked first, and those that another server has locked are left to
//     it. So one server decides about a name, and where it was decided before, only its key
//     is needed;
//   - the data for the decisions is read for many schedules together, and the decisions are
//     written together. When the engine's time for a call is over, the rest is left to the next
//     one, after one decision at least;
//   - a call with a decision that is refused when it is written is repeated schedule by
//     schedule, so that one bad decision does not stop the others.

// Fire implements store.Store.
func (r *Roles) Fire(ctx context.Context, p store.FireParams) (out []store.Fired, more bool, err error) {
	all, err := r.fire(ctx, p, p.Only.ID, nil)
	more = all.more || all.reached < len(all.ids)
	if !rules.Verdict(err) || all.reached == 0 {
		return all.out, more && err == nil, err
	}
	end := time.Now().Add(r.engine.FireTime)
	for i, id := range all.ids[:all.reached] {
		if i > 0 && time.Now().After(end) {
			return out, true, nil
		}
		one, err := r.fire(ctx, p, id, nil)
		if rules.Verdict(err) {
			one, err = r.fire(ctx, p, id, err)
		}
		switch {
		case errors.Is(err, store.ErrNotFound) && p.Only.ID.IsZero():
			continue // it was erased meanwhile
		case err != nil && len(out) > 0:
			return out, true, nil // what was written is the answer, and the next call meets the error
		case err != nil:
			return nil, false, err
		}
		out = append(out, one.out...)
	}
	return out, more, nil
}

// fire decides in one transaction about the schedules that are due, or about one. refused is
// the verdict on that one's decision, which is not made again.
func (r *Roles) fire(ctx context.Context, p store.FireParams, one job.ID, refused error) (f firer, err error) {
	err = r.engine.Write(ctx, "fire", func(ctx context.Context, t Tx) error {
		f = firer{
			Tx: t, p: p, one: one, refused: refused, together: r.engine.StepRows, end: time.Now().Add(r.engine.FireTime),
			conns: make(map[job.ID]store.Connection), writesOnce: r.engine.FiresOnce,
		}
		err := InSequence(ctx, f.RefuseClosed, f.lock)
		for err == nil && f.reached < len(f.ids) && !f.full {
			err = f.next(ctx)
		}
		return err
	})
	if err != nil {
		f.out = nil
	}
	return f, err
}

// firer is a call of Fire in progress.
type firer struct {
	Tx
	p        store.FireParams
	one      job.ID
	refused  error
	together int
	end      time.Time
	// writesOnce is Engine.FiresOnce.
	writesOnce bool

	// ids are the schedules to decide about. Those before reached are done.
	ids     []job.ID
	reached int
	// more reports that others are due, full that the call writes no more decisions.
	more, full bool
	budget     store.FireBudget
	// conns are the connections that were read.
	conns map[job.ID]store.Connection
	// rounds are the decisions that are made together, and of has them by schedule.
	rounds []*round
	of     map[job.ID]*round
	out    []store.Fired
}

// round is a decision.
type round struct {
	store.FireRound
	lastFiring int64
}

// lock locks the schedules to decide about, as many as the bound on templates allows.
func (f *firer) lock(ctx context.Context) error {
	if only := f.p.Only; !f.one.IsZero() {
		row, err := f.lockSchedule(ctx, only.Project, f.one)
		due := !row.NextAt.IsZero() && !cmp.Or(row.PostponedUntil, row.NextAt).After(f.Now)
		switch {
		case err == nil && !only.ID.IsZero() && row.Project != only.Project:
			err = store.ErrNotFound
		case err == nil && (due || !only.ID.IsZero()): // otherwise another server has decided since
			f.ids = []job.ID{f.one}
		}
		return err
	}
	most := min(rules.Page(f.p.Limit), 10*f.together)
	rows, err := f.Q.LockDueSchedules(ctx, shareddb.LockDueSchedulesParams{
		Now: f.Now, ExceptIds: Listed(f.p.Except), MaxRows: int32(most),
	})
	f.more = len(rows) == most
	size := int64(0)
	for _, r := range rows {
		if size += r.Size; r.Queued {
			size += store.MaxDueItemBytes
		}
		if size > store.MaxFireBytes && len(f.ids) > 0 {
			f.more = true
			break
		}
		f.ids = append(f.ids, r.ID)
	}
	return named("due schedules", err)
}

// next decides about the next schedules together, and writes what fits.
func (f *firer) next(ctx context.Context) error {
	ids := f.ids[f.reached:min(len(f.ids), f.reached+f.together)]
	if err := f.read(ctx, ids); err != nil {
		return err
	}
	if f.refused == nil {
		if err := InSequence(ctx, f.facts, f.decide); err != nil {
			return err
		}
	}
	for len(f.rounds) > 0 && !f.full {
		fit, done := f.fit()
		f.rounds, f.reached = f.rounds[done:], f.reached+done
		if err := f.write(ctx, fit); err != nil {
			return err
		}
		// What was only left to other servers is no progress.
		f.full = f.full || f.writesOnce && len(fit) > 0 || len(f.out) > 0 && time.Now().After(f.end)
	}
	return nil
}

// read reads schedules that are locked.
func (f *firer) read(ctx context.Context, ids []job.ID) error {
	rows, err := f.Q.SchedulesByID(ctx, shareddb.SchedulesByIDParams{Ids: ids, Templates: true})
	if err != nil {
		return fmt.Errorf("schedules: %w", err)
	}
	f.rounds, f.of = nil, make(map[job.ID]*round, len(ids))
	for _, row := range rows {
		r := &round{FireRound: store.FireRound{Due: store.DueSchedule{Now: f.Now}, Err: f.refused}, lastFiring: row.LastFiring}
		if r.Due.Schedule, err = toSchedule(shareddb.Schedule(row)); err != nil {
			return err
		}
		f.of[row.ID] = r
	}
	for _, id := range ids {
		f.rounds = append(f.rounds, f.of[id])
	}
	return nil
}

// facts reads what the decisions depend on apart from the schedules.
func (f *firer) facts(ctx context.Context) error {
	released, err := f.Q.ReleasedAt(ctx)
	if err != nil {
		return fmt.Errorf("meta: %w", err)
	}
	var ids, conns []job.ID
	var failing []shareddb.EndedJobsParams
	var queues []shareddb.QueueHeadParams
	for _, r := range f.rounds {
		s := &r.Due.Schedule
		r.Due.HeldUntil, ids, conns = released, append(ids, s.ID), append(conns, s.Connection)
		if most := min(s.PauseAfterFailures, store.MaxEndedJobs); most > 0 {
			failing = append(failing, shareddb.EndedJobsParams{ScheduleID: s.ID, MaxRows: int32(most)})
		}
		if s.Queued {
			queues = append(queues, shareddb.QueueHeadParams{ScheduleID: s.ID, MaxRows: store.MaxDueItems + 1})
		}
	}
	open, err := f.Q.OpenJobs(ctx, ids)
	for _, o := range open {
		d := &f.of[o.ScheduleID].Due
		d.Open = append(d.Open, store.OpenJob{ID: o.JobID, State: o.State})
	}
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	if len(failing) > 0 {
		err = inBatch(func(each func(int, error)) {
			f.Q.EndedJobs(ctx, failing).Query(func(i int, rows []shareddb.EndedJobsRow, err error) {
				d := &f.of[failing[i].ScheduleID].Due
				for _, e := range rows {
					d.Ended = append(d.Ended, store.EndedJob{ID: e.JobID, State: e.State, Decided: e.DecidedAt})
				}
				each(i, err)
			})
		})
	}
	if err != nil {
		return fmt.Errorf("ended jobs: %w", err)
	}
	if err := f.dueItems(ctx, queues); err != nil {
		return err
	}
	err = f.connect(ctx, conns)
	for _, r := range f.rounds {
		if conn := f.conns[r.Due.Schedule.Connection]; conn.Project == r.Due.Schedule.Project {
			r.Due.Connection = conn
		}
	}
	return err
}

// dueItems reads the items that decisions get of the first items of queues.
func (f *firer) dueItems(ctx context.Context, queues []shareddb.QueueHeadParams) error {
	if len(queues) == 0 {
		return nil
	}
	of := make(map[job.ID]*store.DueSchedule)
	var ids []job.ID
	err := inBatch(func(each func(int, error)) {
		f.Q.QueueHead(ctx, queues).Query(func(i int, rows []shareddb.QueueHeadRow, err error) {
			var queue store.Queue
			for _, r := range rows {
				queue = append(queue, store.QueuedItem{ID: r.ID, Size: r.Size})
			}
			d := &f.of[queues[i].ScheduleID].Due
			var n int
			n, d.MoreItems = queue.First()
			for _, one := range queue[:n] {
				ids, of[one.ID] = append(ids, one.ID), d
			}
			each(i, err)
		})
	})
	if err != nil {
		return fmt.Errorf("queues: %w", err)
	}
	found, err := f.itemsByID(ctx, ids, true)
	for _, id := range ids {
		of[id].Items = append(of[id].Items, found[id])
	}
	return err
}

// connect reads connections that were not read before.
func (f *firer) connect(ctx context.Context, ids []job.ID) error {
	var unread []job.ID
	for _, id := range ids {
		if _, ok := f.conns[id]; !ok {
			f.conns[id], unread = store.Connection{}, append(unread, id)
		}
	}
	found, err := f.Connections(ctx, unread)
	maps.Copy(f.conns, found)
	return err
}

// decide calls Decide until all decisions are final. It leaves the schedules that it does not
// come to in time to the next call.
func (f *firer) decide(ctx context.Context) error {
	for first := true; ; first = false {
		var asked []*round
		for i, r := range f.rounds {
			if first && i > 0 && time.Now().After(f.end) {
				f.rounds = f.rounds[:i]
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
func (f *firer) lookUp(ctx context.Context, asked []*round) error {
	var p shareddb.KnownFiringsParams
	for _, r := range asked {
		for _, name := range r.Names() {
			p.Schedules, p.Names = append(p.Schedules, r.Due.Schedule.ID), append(p.Names, name)
		}
	}
	if len(p.Names) == 0 {
		return nil
	}
	rows, err := f.Q.KnownFirings(ctx, p)
	for _, row := range rows {
		f.of[row.ScheduleID].AddKnown(toFiring(row))
	}
	return named("firings", err)
}

// checkJobs finds the jobs that cannot be made.
func (f *firer) checkJobs(ctx context.Context, asked []*round) error {
	for _, r := range asked {
		for _, one := range r.Jobs() {
			verdict, err := f.refusal(ctx, one.Job)
			if err != nil {
				return err
			}
			if verdict != nil {
				r.AddRefused(one.Firing.Name, verdict)
			}
		}
	}
	return nil
}

// refusal returns why a job cannot be made. One that is made already can.
func (f *firer) refusal(ctx context.Context, n *store.NewJob) (verdict, err error) {
	if err := f.connect(ctx, []job.ID{n.Spec.Connection}); err != nil {
		return nil, err
	}
	conn := f.conns[n.Spec.Connection]
	verdict = rules.MayCreate(&n.Spec, conn.Project, !conn.Deleted.IsZero())
	if verdict == nil && n.Spec.OwnEffectKey != "" {
		taken, err := f.Q.EffectKeyTaken(ctx, n.EffectKey[:])
		if err != nil {
			return nil, fmt.Errorf("effect key: %w", err)
		}
		if taken {
			verdict = store.ErrEffectKeyTaken
		}
	}
	if verdict == nil {
		return nil, nil
	}
	digest := job.KeyDigest(n.Spec.Project, n.Spec.Key)
	_, err = f.Q.KeyOwner(ctx, digest[:])
	if errors.Is(err, sql.ErrNoRows) {
		return verdict, nil
	}
	return nil, named("key", err)
}

// fit returns the decisions that are written together, and how many are done with them.
func (f *firer) fit() (fit []*round, done int) {
	firings := 0
	for _, r := range f.rounds {
		if !r.Left() {
			if firings += len(r.Firings); len(fit) > 0 && firings > f.together {
				break
			}
			if f.full = !f.budget.Take(&r.FireRound); f.full {
				break
			}
			fit = append(fit, r)
		}
		done++
	}
	return fit, done
}

// write writes decisions.
func (f *firer) write(ctx context.Context, rounds []*round) error {
	var jobs []store.NewJob
	for _, r := range rounds {
		for _, one := range r.Jobs() {
			jobs = append(jobs, *one.Job)
		}
	}
	if len(rounds) == 0 {
		return nil
	}
	made, err := f.MakeJobs(ctx, jobs)
	if err != nil {
		return err
	}
	for _, c := range made {
		if c.Owner().IsZero() { // it could be made a moment ago
			return c.Err
		}
	}
	var set shareddb.SetFiredParams
	firings := shareddb.InsertFiringsParams{DecidedAt: f.Now}
	var ends []store.ItemEnd
	var off []job.ID
	freed := make(map[string]int64)
	for _, r := range rounds {
		var fired store.Fired
		fired, made = r.Fired(made)
		f.out = append(f.out, fired)
		s := fired.Schedule
		if fired.Err != nil {
			off = append(off, s.ID)
			continue
		}
		for _, e := range r.Items(fired) {
			ends, freed[s.Project] = append(ends, e), freed[s.Project]-e.Freed
		}
		for _, one := range fired.Firings {
			if !one.Repeat {
				r.lastFiring++
				addFiring(&firings, s.ID, r.lastFiring, one.Firing)
			}
		}
		if err := addFired(&set, s, r.lastFiring); err != nil {
			return err
		}
	}
	if err := f.endItems(ctx, ends, freed); err != nil {
		return err
	}
	return f.writeRows(ctx, firings, set, off)
}

// writeRows writes firings and schedules, and postpones the schedules that are off.
func (f *firer) writeRows(ctx context.Context, firings shareddb.InsertFiringsParams, set shareddb.SetFiredParams, off []job.ID) error {
	if len(firings.Names) > 0 {
		if err := f.Q.InsertFirings(ctx, firings); err != nil {
			return fmt.Errorf("firings: %w", err)
		}
	}
	if len(set.Ids) > 0 {
		n, err := f.Q.SetFired(ctx, set)
		if err == nil && int(n) != len(set.Ids) {
			err = fmt.Errorf("%w: %d of %d locked schedules were written", store.ErrUnavailable, n, len(set.Ids))
		}
		if err != nil {
			return fmt.Errorf("schedules: %w", err)
		}
	}
	if len(off) == 0 || !f.p.Only.ID.IsZero() {
		return nil
	}
	return named("postpone", f.Q.PostponeSchedules(ctx, shareddb.PostponeSchedulesParams{
		Until: f.Now.Add(store.BufferedLook), Ids: off,
	}))
}

// endItems takes items out of their queues. freed has by how many bytes their projects' use
// changes.
func (f *firer) endItems(ctx context.Context, ends []store.ItemEnd, freed map[string]int64) error {
	if len(ends) == 0 {
		return nil
	}
	p := shareddb.EndItemsParams{Now: f.Now}
	for _, e := range ends {
		p.Ids, p.States = append(p.Ids, e.ID), append(p.States, int16(e.State))
		p.FiringNames, p.Jobs = append(p.FiringNames, e.Firing), append(p.Jobs, e.Job)
		p.Reasons = append(p.Reasons, e.Reason)
	}
	return named("items", f.Overwriting(ctx, func() error {
		if n, err := f.Q.EndItems(ctx, p); err != nil || int(n) != len(ends) {
			return cmp.Or(err, fmt.Errorf("%w: %d of %d items waited", store.ErrIllegal, n, len(ends)))
		}
		for project, bytes := range freed {
			if err := f.CountUse(ctx, project, 0, bytes); err != nil {
				return err
			}
		}
		return nil
	}))
}

func addFired(p *shareddb.SetFiredParams, s store.Schedule, lastFiring int64) error {
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

func addFiring(p *shareddb.InsertFiringsParams, schedule job.ID, number int64, f store.Firing) {
	p.Schedules, p.Names, p.Numbers = append(p.Schedules, schedule), append(p.Names, f.Name), append(p.Numbers, number)
	p.Nominals, p.LocalTimes = append(p.Nominals, job.Micros(f.Nominal)), append(p.LocalTimes, f.LocalTime)
	p.Marks, p.Origins = append(p.Marks, int16(f.Mark)), append(p.Origins, int16(f.Origin))
	p.Outcomes, p.Reasons = append(p.Outcomes, int16(f.Outcome)), append(p.Reasons, f.Reason)
	p.Jobs, p.Blockers, p.Runs = append(p.Jobs, f.Job), append(p.Blockers, f.Blocking), append(p.Runs, f.Run)
}
