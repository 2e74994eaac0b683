package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a lost state's effects on a schedule are settled before the schedule is
// changed, and before its queue releases an item.

var restoredTests = []test{
	{"every state after a release", restoredStates},
	{"no change before the first decision", restoredChanges},
	{"no change under a quarantine", restoredQuarantined},
	{"a change that was read before", restoredStale},
	{"a queue", restoredQueue},
	{"released again", restoredAgain},
	{"a deleted project", restoredProject},
}

// restore makes the database one that was restored and released, and returns when.
func (f *fixture) restore() time.Time {
	f.Helper()
	f.ok(f.s.Quarantine(f.ctx, "restored"))
	f.clock.advance(time.Second)
	f.ok(f.s.Release(f.ctx))
	return f.clock.now().UTC()
}

// pausedSchedule pauses a schedule.
func (f *fixture) pausedSchedule(s store.Schedule) store.Schedule {
	f.Helper()
	return f.changeSchedule(s, func(s *store.Schedule) {
		s.State, s.PauseCause, s.Note, s.Next = store.SchedulePaused, store.PausedByPerson, "why", time.Time{}
	})
}

func (f *fixture) endedSchedule(s store.Schedule) store.Schedule {
	f.Helper()
	return f.changeSchedule(s, func(s *store.Schedule) { s.State, s.Next = store.ScheduleEnded, time.Time{} })
}

// restoredStates: a release makes every schedule that is not deleted doubtful. An active one
// is due, and a queue that is not active gets another etag.
func restoredStates(f *fixture) {
	later := func(s *store.Schedule) { s.Next = f.clock.now().Add(time.Hour) }
	queue := func(s *store.Schedule) { s.Queued = true }
	active, queued := f.schedule(later), f.schedule(later, queue)
	paused, pausedQueue := f.pausedSchedule(f.schedule()), f.pausedSchedule(f.schedule(queue))
	ended, endedQueue := f.endedSchedule(f.schedule()), f.endedSchedule(f.schedule(queue))
	deleted := f.changeSchedule(f.schedule(), func(s *store.Schedule) { s.State = store.ScheduleDeleted })
	f.ok(f.s.Release(f.ctx))
	f.is(f.readSchedule(queued.ID), queued, "after a release of nothing")
	released := f.restore()
	for _, c := range []struct {
		name    string
		was     store.Schedule
		next    time.Time
		version int64
		cause   store.PauseCause
	}{
		{"active", active, released, 0, 0},
		{"a queue", queued, released, 0, 0},
		{"paused", paused, time.Time{}, 0, store.PausedByPerson},
		{"a paused queue", pausedQueue, time.Time{}, 1, store.PausedByRestore},
		{"ended", ended, time.Time{}, 0, 0},
		{"an ended queue", endedQueue, time.Time{}, 1, 0},
	} {
		got, want := f.readSchedule(c.was.ID), c.was
		want.HeldUntil, want.Next = released, c.next
		want.Revision, want.Version = want.Revision+1, want.Version+c.version
		f.is(got, want, "%s", c.name)
		f.is(got.Cause(), c.cause, "%s: cause", c.name)
	}
	f.is(f.readSchedule(deleted.ID), deleted, "deleted")
	for _, c := range []struct {
		cause store.PauseCause
		want  job.ID
	}{{store.PausedByRestore, pausedQueue.ID}, {store.PausedByPerson, paused.ID}} {
		p, err := f.s.ListSchedules(f.ctx, store.ScheduleQuery{Project: project, PauseCauses: []store.PauseCause{c.cause}})
		f.ok(err)
		f.is(len(p.Schedules), 1, "schedules with cause %d", c.cause)
		f.is(p.Schedules[0].ID, c.want, "schedule with cause %d", c.cause)
		f.is(p.Schedules[0].HeldUntil, released, "in a list")
	}
}

// changes are those of each RPC that changes a schedule.
func (f *fixture) changes() map[string]func(*store.Schedule) {
	return map[string]func(*store.Schedule){
		"pause": func(s *store.Schedule) {
			s.State, s.PauseCause, s.Next = store.SchedulePaused, store.PausedByPerson, time.Time{}
		},
		"update": func(s *store.Schedule) { s.Generation, s.Cursor, s.Next = s.Generation+1, "9", f.clock.now() },
		"skip":   func(s *store.Schedule) { s.Skips = []string{"i:1"} },
		"delete": func(s *store.Schedule) { s.State = store.ScheduleDeleted },
		"settle": func(s *store.Schedule) { s.HeldUntil = time.Time{} },
	}
}

func restoredChanges(f *fixture) {
	s, gone := f.schedule(), f.schedule()
	f.restore()
	f.changeSchedule(f.readSchedule(gone.ID), f.changes()["delete"])
	for name, edit := range f.changes() {
		was := f.readSchedule(s.ID)
		to := was.Clone()
		edit(&to)
		if name == "delete" {
			continue // it makes no job
		}
		_, err := f.s.ChangeSchedule(f.ctx, store.ScheduleChange{Schedule: to})
		f.fails(err, store.ErrUndecided)
		f.is(f.readSchedule(s.ID), was, "after a change: %s", name)
	}
	f.settle(s)
	f.is(f.readSchedule(s.ID).HeldUntil, time.Time{}, "held until")
	for _, name := range []string{"update", "skip", "pause", "delete"} {
		f.changeSchedule(f.readSchedule(s.ID), f.changes()[name])
	}
}

func restoredQuarantined(f *fixture) {
	active := f.schedule()
	paused := f.pausedSchedule(f.schedule())
	f.ok(f.s.Quarantine(f.ctx, "restored"))
	for name, edit := range f.changes() {
		for _, was := range []store.Schedule{active, paused} {
			to := was.Clone()
			edit(&to)
			_, err := f.s.ChangeSchedule(f.ctx, store.ScheduleChange{Schedule: to})
			f.fails(err, store.ErrQuarantined)
			f.is(f.readSchedule(was.ID), was, "after a change: %s", name)
		}
	}
}

// restoredStale: a schedule that a client read before the release has another etag
// afterwards.
func restoredStale(f *fixture) {
	was := f.pausedSchedule(f.queued())
	f.restore()
	was.State, was.PauseCause, was.Next = store.ScheduleActive, 0, f.clock.now()
	_, err := f.s.ChangeSchedule(f.ctx, store.ScheduleChange{Schedule: was})
	f.fails(err, store.ErrStale)
}

// restoredQueue: no decision takes an item of a queue that no person has looked at, in any
// state of the schedule, and none ends the doubt. A change does.
func restoredQueue(f *fixture) {
	for name, state := range map[string]func(store.Schedule) store.Schedule{
		"active": func(s store.Schedule) store.Schedule { return s }, "paused": f.pausedSchedule, "ended": f.endedSchedule,
	} {
		s := state(f.queued())
		waits := f.item(s)
		released := f.restore()
		only := store.FireParams{Only: store.Ref{Project: project, ID: s.ID}}
		for what, decide := range map[string]func(store.DueSchedule) store.FireDecision{
			"takes": func(d store.DueSchedule) store.FireDecision {
				out := f.take(d)
				out.Schedule.Cursor, out.Schedule.Next = d.Schedule.Cursor, d.Schedule.Next
				return out
			},
			"settles": func(d store.DueSchedule) store.FireDecision {
				d.Schedule.HeldUntil = time.Time{}
				return store.FireDecision{Schedule: d.Schedule}
			},
		} {
			only.Decide = decide
			out, _, err := f.s.Fire(f.ctx, only)
			f.ok(err)
			f.fails(out[0].Err, store.ErrIllegal)
			f.is(f.readItem(s, waits.ID), waits, "%s: a decision that %s", name, what)
		}
		only.Decide = func(d store.DueSchedule) store.FireDecision {
			if d.Schedule.State == store.ScheduleActive {
				d.Schedule.State, d.Schedule.PauseCause, d.Schedule.Next = store.SchedulePaused, store.PausedByRefusal, time.Time{}
			}
			return store.FireDecision{Schedule: d.Schedule}
		}
		out, _, err := f.s.Fire(f.ctx, only)
		f.ok(err)
		f.ok(out[0].Err)
		f.is(f.readSchedule(s.ID).HeldUntil, released, "%s: held until", name)
		kept := f.changeSchedule(f.readSchedule(s.ID), func(s *store.Schedule) { s.DisplayName = "other" })
		f.is(kept.HeldUntil, released, "%s: after another change", name)
		settled := f.changeSchedule(kept, func(s *store.Schedule) {
			s.State, s.PauseCause, s.Next, s.HeldUntil = store.ScheduleActive, 0, f.clock.now(), time.Time{}
		})
		f.is(settled.HeldUntil, time.Time{}, "%s: settled", name)
		f.ok(f.fired(f.take).Err)
		f.is(f.readItem(s, waits.ID).State, store.ItemUsed, "%s: item", name)
		f.changeSchedule(f.readSchedule(s.ID), func(s *store.Schedule) { s.State = store.ScheduleDeleted })
	}
}

func restoredAgain(f *fixture) {
	s := f.queued()
	first := f.restore()
	f.clock.advance(time.Minute)
	second := f.restore()
	f.is([]any{first.Before(second), f.readSchedule(s.ID).HeldUntil}, []any{true, second}, "held until")
	_, err := f.s.ChangeSchedule(f.ctx, store.ScheduleChange{Schedule: f.readSchedule(s.ID)})
	f.fails(err, store.ErrUndecided)
}

// restoredProject: erasing a project removes its schedules, decided or not.
func restoredProject(f *fixture) {
	conn := f.connect(store.Connection{Project: "other"})
	s, _, err := f.s.CreateSchedule(f.ctx, f.newSchedule(func(s *store.Schedule) { s.Project, s.Connection = "other", conn.ID }))
	f.ok(err)
	f.restore()
	key := f.apiKey("other")
	f.ok(second(f.s.RevokeAPIKey(f.ctx, key.ID)))
	f.clock.advance(store.LeastKept)
	f.is(f.eraseAll("other", 50).Schedules, 1, "erased schedules")
	f.fails(second(f.s.Schedule(f.ctx, store.Ref{ID: s.ID})), store.ErrNotFound)
}
