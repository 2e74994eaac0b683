package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var scheduleTests = []test{
	{"create, read and repeat", scheduleCreate},
	{"what is refused", scheduleIllegal},
	{"list", scheduleList},
	{"every move", scheduleMoves},
	{"a change", scheduleChange},
	{"a deleted schedule", scheduleDelete},
	{"a quota", scheduleQuota},
	{"a firing is one job", fireOne},
	{"not before its time", fireDue},
	{"bounds of a call", fireBounds},
	{"a decision that the database refuses", fireRolledBack},
	{"a decision on an old revision", fireStale},
	{"a decision that is refused again and again", firePostponed},
	{"a catch-up that goes on", fireCatchUp},
	{"a decision that contradicts itself", fireIllegal},
	{"a key that is bound", fireBound},
	{"a firing that is there", fireKnown},
	{"firings that are looked up first", fireNames},
	{"held until a release", fireHeld},
	{"a job that is refused", fireRefused},
	{"one name is one job, under many callers", fireConcurrent},
	{"changes and firings at once", fireRaces},
	{"one schedule", fireOnly},
	{"what a decision depends on", fireFacts},
	{"open jobs, of either kind", fireOpenJobs},
	{"schedules that are passed over or left", fireExcept},
	{"a buffered firing, for every end of a job", fireBuffered},
	{"a buffered firing, when an outcome is unknown or known", fireReleased},
	{"not under a quarantine", fireQuarantined},
	{"started as it is made", fireStarts},
	{"pages of firings", firingPages},
	{"firings are kept for long", firingsKept},
	{"an erased project", scheduleErased},
	{"hints", scheduleHints},
}

// newSchedule is a schedule that is due each minute from now on.
func (f *fixture) newSchedule(edit ...func(*store.Schedule)) store.NewSchedule {
	id := f.id()
	n := store.NewSchedule{Schedule: store.Schedule{
		ID: id, Project: project, Key: "schedule-" + id.String(), Spec: []byte("spec"), Template: []byte("template"),
		Policies: []byte("policies"), Connection: f.conn.ID, DisplayName: "name", State: store.ScheduleActive,
		Cursor: "0", Next: f.clock.now(), CreatedBy: "ann",
	}}
	for _, e := range edit {
		e(&n.Schedule)
	}
	return n
}

func (f *fixture) schedule(edit ...func(*store.Schedule)) store.Schedule {
	f.Helper()
	s, created, err := f.s.CreateSchedule(f.ctx, f.newSchedule(edit...))
	f.ok(err)
	f.is(created, true, "created")
	return s
}

func (f *fixture) readSchedule(id job.ID) store.Schedule {
	f.Helper()
	s, err := f.s.Schedule(f.ctx, store.Ref{Project: project, ID: id})
	f.ok(err)
	return s
}

func (f *fixture) changeSchedule(s store.Schedule, edit func(*store.Schedule)) store.Schedule {
	f.Helper()
	edit(&s)
	out, err := f.s.ChangeSchedule(f.ctx, store.ScheduleChange{Schedule: s, Actor: "bob"})
	f.ok(err)
	return out
}

// making is a firing that makes a job.
func (f *fixture) making(d store.DueSchedule, name string) store.FiringDecision {
	n := f.new(func(n *store.NewJob) { n.Spec.Connection, n.Spec.Key = d.Schedule.Connection, "" })
	return store.FiringDecision{Job: &n, Firing: store.Firing{
		Name: name, Nominal: d.Now, LocalTime: "local", Origin: store.FiredByTime, Outcome: store.FiringFired,
	}}
}

// beat fires the next name of a schedule that is due each minute.
func (f *fixture) beat(d store.DueSchedule) store.FireDecision {
	n, err := strconv.Atoi(d.Schedule.Cursor)
	if err != nil {
		f.Error(err)
	}
	s := d.Schedule
	out := store.FireDecision{Firings: []store.FiringDecision{f.making(d, fmt.Sprint("i:", n))}}
	s.Run++
	s.Counts.Fired++
	out.Firings[0].Firing.Run = s.Run
	s.Cursor, s.Next = strconv.Itoa(n+1), d.Now.Add(time.Minute)
	out.Schedule = s
	return out
}

func (f *fixture) fire(decide func(store.DueSchedule) store.FireDecision) []store.Fired {
	f.Helper()
	var all []store.Fired
	for range 100 { // a store may leave off for its writer's sake
		out, more, err := f.s.Fire(f.ctx, store.FireParams{Decide: decide})
		f.ok(err)
		all = append(all, out...)
		if !more {
			return all
		}
	}
	f.Fatal("firing has no end")
	return nil
}

// settle decides the lost time of a schedule.
func (f *fixture) settle(s store.Schedule) {
	f.Helper()
	only := store.Ref{Project: s.Project, ID: s.ID}
	out, _, err := f.s.Fire(f.ctx, store.FireParams{Only: only, Decide: func(d store.DueSchedule) store.FireDecision {
		d.Schedule.HeldUntil = time.Time{}
		return store.FireDecision{Schedule: d.Schedule}
	}})
	f.ok(err)
	f.ok(out[0].Err)
}

// fired is the outcome of the only schedule that is due.
func (f *fixture) fired(decide func(store.DueSchedule) store.FireDecision) store.Fired {
	f.Helper()
	out := f.fire(decide)
	f.is(len(out), 1, "schedules decided about")
	return out[0]
}

func (f *fixture) firings(id job.ID) []store.Firing {
	f.Helper()
	p, err := f.s.Firings(f.ctx, store.FiringQuery{Project: project, Schedule: id})
	f.ok(err)
	return p.Firings
}

func (f *fixture) jobsOf(id job.ID) []job.Snapshot {
	f.Helper()
	p, err := f.s.List(f.ctx, store.JobQuery{Project: project, Schedule: id})
	f.ok(err)
	return p.Jobs
}

func scheduleCreate(f *fixture) {
	n := f.newSchedule(func(s *store.Schedule) {
		s.Labels, s.PauseAfterFailures = map[string]string{"a": "b"}, 3
		s.Next = start.Add(time.Hour)
	})
	s, created, err := f.s.CreateSchedule(f.ctx, n)
	f.ok(err)
	want := n.Schedule
	want.Version, want.Revision, want.Generation, want.UpdatedBy = 1, 1, 1, "ann"
	want.Created, want.Updated, want.LedgerBegin = start, start, start
	f.is(created, true, "created")
	f.is(s, want, "stored")
	for _, ref := range []store.Ref{{ID: s.ID}, {Project: project, ID: s.ID}, {Project: project, Key: s.Key}} {
		got, err := f.s.Schedule(f.ctx, ref)
		f.ok(err)
		f.is(got, want, "read")
	}
	for _, ref := range []store.Ref{{ID: f.id()}, {Project: "other", ID: s.ID}, {Project: "other", Key: s.Key}} {
		f.fails(second(f.s.Schedule(f.ctx, ref)), store.ErrNotFound)
	}
	n.Schedule.ID, n.Schedule.DisplayName = f.id(), "another"
	again, created, err := f.s.CreateSchedule(f.ctx, n)
	f.ok(err)
	f.is([]any{again, created}, []any{want, false}, "repeat")
	paused := f.schedule(func(s *store.Schedule) {
		s.State, s.PauseCause, s.Next = store.SchedulePaused, store.PausedByPerson, time.Time{}
	})
	f.is(f.readSchedule(paused.ID).PausedAt, start, "paused at")
}

func scheduleIllegal(f *fixture) {
	for name, edit := range map[string]func(*store.Schedule){
		"a long cursor":         func(s *store.Schedule) { s.Cursor = strings.Repeat("x", store.MaxCursor+1) },
		"ended":                 func(s *store.Schedule) { s.State, s.Next = store.ScheduleEnded, time.Time{} },
		"paused without cause":  func(s *store.Schedule) { s.State, s.Next = store.SchedulePaused, time.Time{} },
		"a cause without pause": func(s *store.Schedule) { s.PauseCause = store.PausedByPerson },
		"paused and due":        func(s *store.Schedule) { s.State, s.PauseCause = store.SchedulePaused, store.PausedByPerson },
		"no key":                func(s *store.Schedule) { s.Key = "" },
	} {
		_, created, err := f.s.CreateSchedule(f.ctx, f.newSchedule(edit))
		if !errors.Is(err, store.ErrIllegal) || created {
			f.Errorf("%s: %v", name, err)
		}
	}
	s := f.schedule()
	for name, edit := range map[string]func(*store.Schedule){
		"a long cursor": func(s *store.Schedule) { s.Cursor = strings.Repeat("x", store.MaxCursor+1) },
		"many skips":    func(s *store.Schedule) { s.Skips = make([]string, store.MaxSkips+1) },
		"a generation":  func(s *store.Schedule) { s.Generation = 0 },
		"a run":         func(s *store.Schedule) { s.Run = -1 },
	} {
		to := s
		edit(&to)
		if _, err := f.s.ChangeSchedule(f.ctx, store.ScheduleChange{Schedule: to}); !errors.Is(err, store.ErrIllegal) {
			f.Errorf("%s: %v", name, err)
		}
	}
	f.is(f.readSchedule(s.ID), s, "after refusals")
}

func scheduleList(f *fixture) {
	other := f.connect(store.Connection{})
	var all []store.Schedule
	for i := range 6 {
		all = append(all, f.schedule(func(s *store.Schedule) {
			s.Labels = map[string]string{"n": fmt.Sprint(i % 2)}
			if i == 3 {
				s.Connection = other.ID
			}
		}))
		if i%2 == 0 {
			f.clock.advance(time.Second)
		}
	}
	f.schedule(func(s *store.Schedule) { s.Project = "other" })
	all[1] = f.changeSchedule(all[1], func(s *store.Schedule) {
		s.State, s.PauseCause, s.Next = store.SchedulePaused, store.PausedByRefusal, time.Time{}
	})
	all[4] = f.changeSchedule(all[4], func(s *store.Schedule) { s.State = store.ScheduleDeleted })
	for _, tt := range []struct {
		q    store.ScheduleQuery
		want []int
	}{
		{store.ScheduleQuery{}, []int{5, 3, 2, 1, 0}},
		{store.ScheduleQuery{States: []store.ScheduleState{store.ScheduleDeleted, store.SchedulePaused}}, []int{4, 1}},
		{store.ScheduleQuery{PauseCauses: []store.PauseCause{store.PausedByRefusal}}, []int{1}},
		{store.ScheduleQuery{Connections: []job.ID{other.ID}}, []int{3}},
		{store.ScheduleQuery{Labels: map[string]string{"n": "1"}}, []int{5, 3, 1}},
		{store.ScheduleQuery{Labels: map[string]string{"n": "1", "m": "1"}}, nil},
	} {
		for _, limit := range []int{0, 1, 2} {
			for _, scan := range []int{0, 1, 3} {
				q := tt.q
				q.Project, q.Limit, q.Scan = project, limit, scan
				var got []store.Schedule
				for range 20 {
					p, err := f.s.ListSchedules(f.ctx, q)
					f.ok(err)
					got = append(got, p.Schedules...)
					if q.After = p.Next; q.After.IsZero() {
						break
					}
				}
				f.is(q.After.IsZero(), true, "the list ends")
				var want []store.Schedule
				for _, i := range tt.want {
					s := all[i]
					s.Template = nil
					want = append(want, s)
				}
				f.is(got, want, "list %+v", q)
			}
		}
	}
	f.fails(second(f.s.ListSchedules(f.ctx, store.ScheduleQuery{Project: project, After: f.id()})), store.ErrNotFound)
}

func scheduleMoves(f *fixture) {
	in := func(to store.ScheduleState) func(*store.Schedule) {
		return func(s *store.Schedule) {
			s.State, s.PauseCause, s.Next = to, 0, time.Time{}
			if to == store.SchedulePaused {
				s.PauseCause = store.PausedByPerson
			}
		}
	}
	for _, from := range store.ScheduleStates {
		for _, to := range store.ScheduleStates {
			s := f.changeSchedule(f.schedule(), in(from))
			next := s
			in(to)(&next)
			got, err := f.s.ChangeSchedule(f.ctx, store.ScheduleChange{Schedule: next})
			if from.Next(to) {
				f.ok(err)
				f.is([]any{got.State, got.Version}, []any{to, s.Version + 1}, "moved")
				continue
			}
			f.fails(err, store.ErrIllegal)
			f.is(f.readSchedule(s.ID), s, "after a refused move")
		}
	}
}

func scheduleChange(f *fixture) {
	s := f.schedule()
	f.clock.advance(time.Second)
	next := f.changeSchedule(s, func(s *store.Schedule) {
		s.Spec, s.Template, s.Policies, s.DisplayName = []byte("s2"), []byte("t2"), nil, "n2"
		s.Generation, s.Labels, s.Cursor, s.Next = 2, map[string]string{"x": "y"}, "7", start.Add(time.Hour)
		s.Skips, s.Note, s.PauseAfterFailures = []string{"a", "b"}, "note", 5
		s.Buffered = &store.Firing{Name: "i:1", Nominal: start, Origin: store.FiredByTime, Blocking: f.id()}
		s.Created, s.Key, s.CreatedBy = time.Time{}, "another", "eve"
	})
	f.is(f.readSchedule(s.ID), next, "read")
	f.is([]any{next.Version, next.Revision, next.Key, next.Created, next.CreatedBy, next.UpdatedBy, next.Updated},
		[]any{int64(2), int64(2), s.Key, start, "ann", "bob", start.Add(time.Second)}, "kept and set")
	f.is(next.Next, start.Add(time.Second+store.BufferedLook), "a buffered firing is looked at")
	f.is([]any{next.Buffered.Outcome, next.Buffered.Decided}, []any{store.FiringBuffered, start.Add(time.Second)}, "buffered")
	f.fails(second(f.s.ChangeSchedule(f.ctx, store.ScheduleChange{Schedule: s})), store.ErrStale)
	for _, edit := range []func(*store.Schedule){
		func(s *store.Schedule) { s.ID = f.id() }, func(s *store.Schedule) { s.Project = "other" },
	} {
		to := next
		edit(&to)
		f.fails(second(f.s.ChangeSchedule(f.ctx, store.ScheduleChange{Schedule: to})), store.ErrNotFound)
	}
	dropped := store.Firing{Name: "i:1", Nominal: start, Origin: store.FiredByTime, Outcome: store.FiringSkippedByPerson, Reason: "why"}
	to := next
	to.Buffered = nil
	c := store.ScheduleChange{Schedule: to, Firings: []store.Firing{dropped}}
	_, err := f.s.ChangeSchedule(f.ctx, c)
	f.ok(err)
	dropped.Decided = start.Add(time.Second)
	f.is(f.firings(s.ID), []store.Firing{dropped}, "firings of a change")
	c.Schedule = f.readSchedule(s.ID)
	c.Firings[0].Outcome = store.FiringFired
	f.fails(second(f.s.ChangeSchedule(f.ctx, c)), store.ErrIllegal)
}

func scheduleDelete(f *fixture) {
	n := f.newSchedule(func(s *store.Schedule) { s.Note = "note" })
	s, _, err := f.s.CreateSchedule(f.ctx, n)
	f.ok(err)
	gone := f.changeSchedule(s, func(s *store.Schedule) { s.State = store.ScheduleDeleted })
	f.is([]any{len(gone.Template), gone.Note, gone.Next, gone.Deleted}, []any{0, "", time.Time{}, start}, "erased")
	f.is(f.readSchedule(s.ID), gone, "a deleted schedule is found")
	again, created, err := f.s.CreateSchedule(f.ctx, n)
	f.ok(err)
	f.is([]any{again, created}, []any{gone, false}, "its key stays bound")
	f.fails(second(f.s.ChangeSchedule(f.ctx, store.ScheduleChange{Schedule: gone})), store.ErrIllegal)
	f.is(len(f.fire(f.beat)), 0, "schedules that fire")
	out, _, err := f.s.Fire(f.ctx, store.FireParams{Only: store.Ref{Project: project, ID: s.ID}, Decide: func(d store.DueSchedule) store.FireDecision {
		return store.FireDecision{Schedule: d.Schedule, Firings: []store.FiringDecision{f.making(d, "t:x")}}
	}})
	f.ok(err)
	f.fails(out[0].Err, store.ErrIllegal)
	f.is(len(f.jobsOf(s.ID)), 0, "jobs")
}

func scheduleQuota(f *fixture) {
	add := func(edit ...func(*store.NewSchedule)) (store.Schedule, error) {
		n := f.newSchedule()
		n.Most = 2
		for _, e := range edit {
			e(&n)
		}
		s, _, err := f.s.CreateSchedule(f.ctx, n)
		return s, err
	}
	first, err := add()
	f.ok(err)
	_, err = add()
	f.ok(err)
	_, err = add()
	f.full(err, 2)
	_, err = add(func(n *store.NewSchedule) { n.Schedule.Key = first.Key })
	f.ok(err) // a repeat
	_, err = add(func(n *store.NewSchedule) { n.Schedule.Project = "other" })
	f.ok(err)
	f.holds(project, store.Holdings{Connections: 1, Schedules: 2})
	f.changeSchedule(first, func(s *store.Schedule) { s.State = store.ScheduleDeleted })
	f.holds(project, store.Holdings{Connections: 1, Schedules: 1})
	var mu sync.Mutex
	added := 0
	together(crowd, func(int) {
		_, err := add(func(n *store.NewSchedule) { n.Schedule.Project, n.Most = "new", 3 })
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil:
			added++
		case !errors.Is(err, store.ErrQuota):
			f.Error(err)
		}
	})
	f.is(added, 3, "added")
}

func fireOne(f *fixture) {
	s := f.schedule()
	f.clock.advance(time.Second)
	now := start.Add(time.Second)
	got := f.fired(f.beat)
	f.ok(got.Err)
	f.is(got.Schedule, f.readSchedule(s.ID), "schedule")
	f.is([]any{got.Schedule.Version, got.Schedule.Revision, got.Schedule.Cursor, got.Schedule.Next, got.Schedule.Run, got.Schedule.Counts.Fired, got.Schedule.Updated},
		[]any{int64(1), int64(2), "1", now.Add(time.Minute), int64(1), int64(1), start}, "schedule")
	j := got.Firings[0].Job
	f.is([]any{j.Created, j.Snapshot.Key, j.Snapshot.Schedule, j.Snapshot.Project}, []any{true, store.FiringKey(s.ID, "i:0"), s.ID, project}, "job")
	f.is(f.last(j.Snapshot.ID).Actor, "schedule:"+s.ID.String(), "actor")
	f.is(f.firings(s.ID), []store.Firing{{
		Name: "i:0", Nominal: now, LocalTime: "local", Origin: store.FiredByTime, Outcome: store.FiringFired, Job: j.Snapshot.ID, Run: 1, Decided: now,
	}}, "firings")
	f.is(got.Firings[0].Firing, f.firings(s.ID)[0], "firing in the answer")
	f.is(f.claim().ID, j.Snapshot.ID, "job that is claimed")
	f.stores(project, 1, int64(len("payload")))
}

func fireDue(f *fixture) {
	next := func(want time.Duration) {
		f.Helper()
		got, err := f.s.NextFiring(f.ctx, time.Hour, nil)
		f.ok(err)
		f.is(got, want, "next firing")
	}
	next(time.Hour)
	s := f.schedule(func(s *store.Schedule) { s.Next = start.Add(time.Minute) })
	f.schedule(func(s *store.Schedule) { s.Next = time.Time{} })
	f.schedule(func(s *store.Schedule) {
		s.State, s.PauseCause, s.Next = store.SchedulePaused, store.PausedByPerson, time.Time{}
	})
	next(time.Minute)
	f.is(len(f.fire(f.beat)), 0, "fired early")
	f.clock.advance(time.Minute - time.Microsecond)
	f.is(len(f.fire(f.beat)), 0, "fired early")
	next(time.Microsecond)
	f.clock.advance(time.Microsecond)
	next(0)
	f.is(f.fired(f.beat).Schedule.ID, s.ID, "fired")
	next(time.Minute)
}

func fireBounds(f *fixture) {
	for i := range 5 {
		f.schedule(func(s *store.Schedule) { s.Next = start.Add(-time.Duration(i) * time.Second) })
	}
	// A store may leave off earlier for its writer's sake, but not before the first.
	fired, more := 0, true
	for more {
		var out []store.Fired
		var err error
		out, more, err = f.s.Fire(f.ctx, store.FireParams{Limit: 3, Decide: f.beat})
		f.ok(err)
		fired += len(out)
		f.is(len(out) <= 3 && (len(out) > 0 || !more), true, "a call has its limit, and gets on")
		f.is(more || fired == 5, true, "more while schedules are left")
	}
	f.clock.advance(time.Minute)
	many := func(d store.DueSchedule) store.FireDecision {
		out := f.beat(d)
		out.Firings = nil
		for i := range store.MaxFirings {
			out.Firings = append(out.Firings, store.FiringDecision{Firing: store.Firing{
				Name: fmt.Sprint("m:", i), Nominal: d.Now, Origin: store.FiredByCatchUp, Outcome: store.FiringMissed,
			}})
		}
		return out
	}
	out, more, err := f.s.Fire(f.ctx, store.FireParams{Decide: many})
	f.ok(err)
	f.is(len(out) > 0 && len(out) < 5, true, "a call is bounded")
	f.is(more, true, "more")
	for n := len(out); n < 5; n += len(out) {
		out, _, err = f.s.Fire(f.ctx, store.FireParams{Decide: many})
		f.ok(err)
		f.is(len(out) > 0, true, "each call gets on")
	}
}

// fireRolledBack: a decision that is refused while it is written leaves nothing, and the
// others are written. The retry fires once.
func fireRolledBack(f *fixture) {
	taken := f.submit()
	bad, good := f.schedule(), f.schedule()
	before := f.readSchedule(bad.ID)
	out := f.fire(func(d store.DueSchedule) store.FireDecision {
		out := f.beat(d)
		if d.Schedule.ID == bad.ID {
			out.Firings = append(out.Firings, f.making(d, "i:1"))
			out.Firings[1].Job.Spec.ID = taken.ID
		}
		return out
	})
	f.is(len(out), 2, "schedules")
	for _, one := range out {
		if one.Schedule.ID == good.ID {
			f.ok(one.Err)
			continue
		}
		f.fails(one.Err, store.ErrIllegal)
	}
	f.is([]int{len(f.jobsOf(bad.ID)), len(f.firings(bad.ID)), len(f.jobsOf(good.ID)), len(f.firings(good.ID))}, []int{0, 0, 1, 1}, "jobs and firings")
	after := f.readSchedule(bad.ID)
	f.is([]any{after.PostponedUntil, after.RefusedDecisions}, []any{start.Add(store.BufferedLook), int64(1)}, "postponed")
	after.PostponedUntil, after.RefusedDecisions = time.Time{}, 0
	f.is(after, before, "schedule")
	f.is(len(f.fire(f.beat)), 0, "due immediately")
	f.clock.advance(store.BufferedLook)
	f.fire(f.beat)
	f.is([]int{len(f.jobsOf(bad.ID)), len(f.jobsOf(good.ID))}, []int{1, 2}, "jobs after the retry")
}

func fireStale(f *fixture) {
	s := f.schedule()
	var old store.DueSchedule
	f.ok(f.fired(func(d store.DueSchedule) store.FireDecision { old = d; return f.beat(d) }).Err)
	f.clock.advance(time.Minute)
	before := f.readSchedule(s.ID)
	f.fails(f.fired(func(store.DueSchedule) store.FireDecision {
		d := f.beat(old)
		d.Firings[0].Firing.Name = "i:9"
		return d
	}).Err, store.ErrStale)
	f.is([]int{len(f.jobsOf(s.ID)), len(f.firings(s.ID))}, []int{1, 1}, "jobs and firings")
	after := f.readSchedule(s.ID)
	after.PostponedUntil, after.RefusedDecisions = time.Time{}, 0
	f.is(after, before, "schedule")
}

// firePostponed: a schedule whose decisions are refused stays due since its time, is counted, and
// is decided about once a minute, until a decision is written or a person changes the schedule.
func firePostponed(f *fixture) {
	s := f.schedule()
	due := f.readSchedule(s.ID).Next
	refuse := func(d store.DueSchedule) store.FireDecision {
		return store.FireDecision{Schedule: d.Schedule, Err: errors.New("not now")}
	}
	refused := func(n int) {
		f.Helper()
		for i := range n {
			f.is(f.fired(refuse).Err != nil, true, "refused")
			f.is(len(f.fire(refuse)), 0, "decided about again immediately")
			next, err := f.s.NextFiring(f.ctx, time.Hour, nil)
			f.ok(err)
			f.is(next, store.BufferedLook, "next decision")
			got := f.readSchedule(s.ID)
			f.is([]any{got.Next, got.RefusedDecisions, got.PostponedUntil.Sub(f.clock.now())}, []any{due, int64(i + 1), store.BufferedLook}, "refused")
			v := f.vitals()
			f.is([]any{v.OldestFiring, v.RefusedSchedules}, []any{f.clock.now().Sub(due), int64(min(i, 1))}, "vitals after %d refusals", i+1)
			p, err := f.s.ListSchedules(f.ctx, store.ScheduleQuery{Project: project})
			f.ok(err)
			f.is(p.Schedules[0].RefusedDecisions, int64(i+1), "refusals in a list")
			f.clock.advance(store.BufferedLook)
		}
	}
	cleared := func(what string) {
		f.Helper()
		got := f.readSchedule(s.ID)
		f.is([]any{got.PostponedUntil, got.RefusedDecisions, f.vitals().RefusedSchedules}, []any{time.Time{}, int64(0), int64(0)}, "%s", what)
	}
	refused(3)
	f.ok(f.fired(f.beat).Err)
	cleared("after a decision")

	f.clock.advance(time.Minute)
	due = f.readSchedule(s.ID).Next
	refused(2)
	f.changeSchedule(f.readSchedule(s.ID), func(s *store.Schedule) { s.DisplayName = "another" })
	cleared("after a change")
	f.is(f.readSchedule(s.ID).Next, due, "due after a change")
	f.ok(f.fired(f.beat).Err)

	f.clock.advance(time.Minute)
	due = f.readSchedule(s.ID).Next
	refused(1)
	f.changeSchedule(f.readSchedule(s.ID), func(s *store.Schedule) {
		s.State, s.PauseCause, s.Next = store.SchedulePaused, store.PausedByPerson, time.Time{}
	})
	cleared("of a paused schedule")
}

// fireCatchUp: a catch-up is kept until a decision ends it, or a change moves or stops the
// schedule.
func fireCatchUp(f *fixture) {
	s := f.schedule()
	on := store.CatchUp{Began: f.clock.now().UTC(), Paced: f.clock.now().UTC().Add(time.Hour)}
	begin := func() {
		f.Helper()
		f.ok(f.fired(func(d store.DueSchedule) store.FireDecision {
			out := f.beat(d)
			out.Schedule.CatchUp, out.Schedule.Next = on, d.Now
			return out
		}).Err)
		f.is(f.readSchedule(s.ID).CatchUp, on, "begun")
	}
	ends := func(what string, want store.CatchUp, edit func(*store.Schedule)) {
		f.Helper()
		f.is(f.changeSchedule(f.readSchedule(s.ID), edit).CatchUp, want, "%s", what)
		f.is(f.readSchedule(s.ID).CatchUp, want, "%s", what)
	}
	begin()
	ends("after another name", on, func(s *store.Schedule) { s.DisplayName = "another" })
	ends("at another place", store.CatchUp{}, func(s *store.Schedule) { s.Cursor = "40" })
	begin()
	f.ok(f.fired(func(d store.DueSchedule) store.FireDecision {
		out := f.beat(d)
		out.Schedule.CatchUp, out.Schedule.Next = store.CatchUp{}, d.Now
		return out
	}).Err)
	f.is(f.readSchedule(s.ID).CatchUp, store.CatchUp{}, "ended")
	begin()
	ends("of a paused schedule", store.CatchUp{}, func(s *store.Schedule) {
		s.State, s.PauseCause, s.Next = store.SchedulePaused, store.PausedByPerson, time.Time{}
	})
}

func fireIllegal(f *fixture) {
	s := f.schedule()
	for name, edit := range map[string]func(store.DueSchedule, *store.FireDecision){
		"a name twice":         func(_ store.DueSchedule, d *store.FireDecision) { d.Firings = append(d.Firings, d.Firings[0]) },
		"no job":               func(_ store.DueSchedule, d *store.FireDecision) { d.Firings[0].Job = nil },
		"a job that is missed": func(_ store.DueSchedule, d *store.FireDecision) { d.Firings[0].Firing.Outcome = store.FiringMissed },
		"buffered":             func(_ store.DueSchedule, d *store.FireDecision) { d.Firings[0].Firing.Outcome = store.FiringBuffered },
		"no name":              func(_ store.DueSchedule, d *store.FireDecision) { d.Firings[0].Firing.Name = "" },
		"a reply":              func(_ store.DueSchedule, d *store.FireDecision) { d.Firings[0].Job.Spec.ReplyTo = f.id() },
		"deleted":              func(_ store.DueSchedule, d *store.FireDecision) { d.Schedule.State = store.ScheduleDeleted },
		"many jobs": func(due store.DueSchedule, d *store.FireDecision) {
			for i := range store.MaxFiringJobs {
				d.Firings = append(d.Firings, f.making(due, fmt.Sprint("x:", i)))
			}
		},
		"a run that falls": func(_ store.DueSchedule, d *store.FireDecision) { d.Schedule.Run = -1 },
	} {
		got := f.fired(func(due store.DueSchedule) store.FireDecision {
			d := f.beat(due)
			edit(due, &d)
			return d
		})
		if !errors.Is(got.Err, store.ErrIllegal) {
			f.Errorf("%s: %v", name, got.Err)
		}
		f.clock.advance(store.BufferedLook)
	}
	f.is([]any{len(f.jobsOf(s.ID)), len(f.firings(s.ID)), f.readSchedule(s.ID).Revision}, []any{0, 0, int64(1)}, "jobs, firings, revision")
}

// fireBound: a bound key makes no second job, whatever has bound it.
func fireBound(f *fixture) {
	s := f.schedule()
	persons := f.submit(func(n *store.NewJob) { n.Spec.Key = store.FiringKey(s.ID, "i:0") })
	got := f.fired(f.beat)
	f.ok(got.Err)
	f.is([]any{got.Firings[0].Job.Created, got.Firings[0].Firing.Job}, []any{false, persons.ID}, "job of the firing")
	f.is(f.firings(s.ID)[0].Job, persons.ID, "job in the ledger")
	f.is(len(f.jobsOf(s.ID)), 0, "jobs of the schedule")
	f.apply(persons, job.CancelAsked{})
	removed := f.submit(func(n *store.NewJob) { n.Spec.Key = store.FiringKey(s.ID, "i:1") })
	f.apply(removed, job.CancelAsked{})
	f.clock.advance(store.LeastKept)
	f.erase(removed.ID)
	got = f.fired(f.beat)
	f.ok(got.Err)
	f.is([]any{got.Firings[0].Job.Created, got.Firings[0].Firing.Job}, []any{false, removed.ID}, "job of the firing")
}

func fireKnown(f *fixture) {
	s := f.schedule()
	f.ok(f.fired(f.beat).Err)
	first := f.firings(s.ID)[0]
	f.clock.advance(time.Minute)
	asked := 0
	got := f.fired(func(d store.DueSchedule) store.FireDecision {
		asked++
		f.is(len(d.Known), asked-1, "known firings")
		if asked == 2 {
			f.is(d.Known["i:0"], first, "known")
		}
		out := f.beat(d)
		out.Firings = append([]store.FiringDecision{f.making(d, "i:0")}, out.Firings...)
		return out
	})
	f.ok(got.Err)
	f.is([]any{got.Firings[0].Repeat, got.Firings[0].Firing, got.Firings[1].Repeat}, []any{true, first, false}, "repeats")
	f.is(asked, 2, "asked")
	f.is(f.firings(s.ID)[1], first, "the first firing")
	f.is(len(f.jobsOf(s.ID)), 2, "jobs")
}

func fireNames(f *fixture) {
	s := f.schedule()
	only := store.Ref{Project: project, ID: s.ID}
	var known []map[string]store.Firing
	trigger := func(names ...string) store.Fired {
		f.Helper()
		known = nil
		out, _, err := f.s.Fire(f.ctx, store.FireParams{Only: only, Names: names, Decide: func(d store.DueSchedule) store.FireDecision {
			known = append(known, d.Known)
			if _, ok := d.Known["t:x"]; ok {
				return store.FireDecision{Schedule: d.Schedule}
			}
			return store.FireDecision{Schedule: d.Schedule, Firings: []store.FiringDecision{f.making(d, "t:x")}}
		}})
		f.ok(err)
		f.ok(out[0].Err)
		return out[0]
	}
	first := trigger("t:x", "t:y")
	f.is(len(known), 1, "times asked")
	f.is(len(known[0]), 0, "known")
	trigger("t:y", "t:x")
	f.is(known, []map[string]store.Firing{{"t:x": first.Firings[0].Firing}}, "known before it was asked")
	trigger()
	f.is(len(known), 2, "times asked without names")
	f.is(len(f.jobsOf(s.ID)), 1, "jobs")
}

// fireHeld: decisions get when the database was last released from a quarantine, and held
// firings are counted.
func fireHeld(f *fixture) {
	s := f.schedule()
	until := func() time.Time {
		f.Helper()
		var got time.Time
		f.clock.advance(time.Minute)
		f.ok(f.fired(func(d store.DueSchedule) store.FireDecision {
			got = d.HeldUntil
			return f.beat(d)
		}).Err)
		return got
	}
	f.is(until(), time.Time{}, "before a quarantine")
	f.ok(f.s.Release(f.ctx))
	f.is(until(), time.Time{}, "after a release of nothing")
	f.ok(f.s.Quarantine(f.ctx, "restored"))
	f.clock.advance(time.Second)
	released := f.clock.now().UTC()
	f.ok(f.s.Release(f.ctx))
	f.is(until(), released, "after a release")
	f.ok(f.s.Release(f.ctx))
	f.is(until(), released, "after a release of nothing")
	f.ok(f.s.Quarantine(f.ctx, "restored again"))
	f.ok(f.s.Release(f.ctx))
	f.is(until(), f.clock.now().Add(-time.Minute).UTC(), "after a second release")

	f.clock.advance(time.Minute)
	held := store.Firing{Name: "i:9", Nominal: start, Origin: store.FiredByTime, Outcome: store.FiringHeld, Reason: "why"}
	f.ok(f.fired(func(d store.DueSchedule) store.FireDecision {
		out := store.FireDecision{Schedule: d.Schedule, Firings: []store.FiringDecision{{Firing: held}}}
		out.Schedule.Counts.Held, out.Schedule.Next = 3, d.Now.Add(time.Hour)
		return out
	}).Err)
	held.Decided = f.clock.now().UTC()
	f.is(f.firings(s.ID)[0], held, "firing")
	got := f.readSchedule(s.ID)
	f.is(got.Counts, store.ScheduleCounts{Fired: 5, Held: 3}, "counts")
	p, err := f.s.ListSchedules(f.ctx, store.ScheduleQuery{Project: project})
	f.ok(err)
	f.is(p.Schedules[0].Counts, got.Counts, "counts in a list")
	f.settle(got)
	f.changeSchedule(f.readSchedule(s.ID), func(s *store.Schedule) { s.Counts.Held = 4 })
	f.is(f.readSchedule(s.ID).Counts.Held, int64(4), "counts after a change")
	only := store.FiringQuery{Project: project, Schedule: s.ID, Outcomes: []store.FiringOutcome{store.FiringHeld}}
	page, err := f.s.Firings(f.ctx, only)
	f.ok(err)
	f.is(page.Firings, []store.Firing{held}, "firings that are held")
}

func fireRefused(f *fixture) {
	conn := f.connect(store.Connection{})
	s := f.schedule(func(s *store.Schedule) { s.Connection = conn.ID })
	other := f.schedule()
	f.revise(conn, store.ConnectionChange{Delete: true})
	out := f.fire(f.beat)
	for _, one := range out {
		if one.Schedule.ID == s.ID {
			f.fails(one.Err, store.ErrNotFound)
		} else {
			f.ok(one.Err)
		}
	}
	f.is([]int{len(f.jobsOf(s.ID)), len(f.firings(s.ID)), len(f.jobsOf(other.ID))}, []int{0, 0, 1}, "jobs and firings")
	f.clock.advance(store.BufferedLook)
	for _, one := range f.fire(func(d store.DueSchedule) store.FireDecision {
		out := f.beat(d)
		if err := d.Refused["i:0"]; err != nil {
			out.Schedule = d.Schedule
			out.Schedule.State, out.Schedule.PauseCause, out.Schedule.Next = store.SchedulePaused, store.PausedByRefusal, time.Time{}
			out.Schedule.Counts.Refused, out.Schedule.Note = 1, err.Error()
			out.Firings[0].Job, out.Firings[0].Firing.Outcome, out.Firings[0].Firing.Run = nil, store.FiringRefused, 0
		}
		return out
	}) {
		f.ok(one.Err)
	}
	paused := f.readSchedule(s.ID)
	f.is([]any{paused.State, paused.PauseCause, paused.Version, paused.Revision, paused.PausedAt}, []any{
		store.SchedulePaused, store.PausedByRefusal, int64(2), int64(2), start.Add(store.BufferedLook),
	}, "schedule")
	f.is(f.firings(s.ID)[0].Outcome, store.FiringRefused, "outcome")
}

// fireConcurrent: callers that decide differently about the same schedules, by their time
// and by triggers, make one job for each name.
func fireConcurrent(f *fixture) {
	var ids []job.ID
	for range 3 {
		ids = append(ids, f.schedule().ID)
	}
	const beats = 5
	for range beats {
		together(crowd, func(i int) {
			p := store.FireParams{Decide: func(d store.DueSchedule) store.FireDecision {
				out := f.beat(d)
				if i%2 == 0 { // with one that was decided before, and one that others decide, too
					if out.Firings[0].Firing.Name != "i:0" {
						out.Firings = append(out.Firings, f.making(d, "i:0"))
					}
					out.Firings = append(out.Firings, f.making(d, "extra"))
				}
				return out
			}}
			if i%3 == 0 {
				p.Only = store.Ref{Project: project, ID: ids[i%len(ids)]}
				p.Decide = func(d store.DueSchedule) store.FireDecision {
					return store.FireDecision{Schedule: d.Schedule, Firings: []store.FiringDecision{f.making(d, "t:k"), f.making(d, "i:1")}}
				}
			}
			out, _, err := f.s.Fire(f.ctx, p)
			if err != nil {
				f.Error(err)
			}
			for _, one := range out {
				if one.Err != nil {
					f.Error(one.Err)
				}
			}
		})
		f.fire(f.beat) // what each caller left to another one
		f.clock.advance(time.Minute)
	}
	for _, id := range ids {
		jobs, firings := f.jobsOf(id), f.firings(id)
		f.is(len(jobs), len(firings), "a job for each firing")
		keys, names := make(map[string]job.ID), make(map[string]bool)
		for _, j := range jobs {
			keys[j.Key] = j.ID
		}
		for _, one := range firings {
			f.is(names[one.Name], false, "a name twice")
			names[one.Name] = true
			f.is(one.Job, keys[store.FiringKey(id, one.Name)], "job of %s", one.Name)
		}
		f.is(f.readSchedule(id).Cursor, strconv.Itoa(beats), "cursor")
	}
}

// fireRaces: a schedule that is paused, resumed and deleted while it fires has a job for
// each firing, and none after its end.
func fireRaces(f *fixture) {
	id := f.schedule().ID
	together(crowd, func(i int) {
		for range 5 {
			if i%2 == 0 {
				if _, _, err := f.s.Fire(f.ctx, store.FireParams{Decide: func(d store.DueSchedule) store.FireDecision {
					if d.Schedule.State != store.ScheduleActive {
						f.Errorf("asked in state %d", d.Schedule.State)
					}
					out := f.beat(d)
					out.Schedule.Next = d.Now
					return out
				}}); err != nil {
					f.Error(err)
				}
				continue
			}
			s, err := f.s.Schedule(f.ctx, store.Ref{ID: id})
			if err != nil {
				f.Error(err)
				return
			}
			if s.State == store.ScheduleActive {
				s.State, s.PauseCause, s.Next = store.SchedulePaused, store.PausedByPerson, time.Time{}
			} else {
				s.State, s.PauseCause, s.Next = store.ScheduleActive, 0, f.clock.now()
			}
			if _, err := f.s.ChangeSchedule(f.ctx, store.ScheduleChange{Schedule: s}); err != nil && !errors.Is(err, store.ErrStale) {
				f.Error(err)
			}
		}
	})
	s := f.changeSchedule(f.readSchedule(id), func(s *store.Schedule) { s.State = store.ScheduleDeleted })
	jobs := f.jobsOf(id)
	f.is(int64(len(jobs)), s.Run, "jobs")
	f.is(len(f.firings(id)), len(jobs), "firings")
	f.is(len(f.fire(f.beat)), 0, "fired after the end")
}

func fireOnly(f *fixture) {
	s := f.schedule(func(s *store.Schedule) {
		s.State, s.PauseCause, s.Next = store.SchedulePaused, store.PausedByPerson, time.Time{}
	})
	f.schedule()
	trigger := func(d store.DueSchedule) store.FireDecision {
		return store.FireDecision{Schedule: d.Schedule, Firings: []store.FiringDecision{f.making(d, "t:k")}}
	}
	for i := range 2 {
		out, more, err := f.s.Fire(f.ctx, store.FireParams{Only: store.Ref{Project: project, ID: s.ID}, Decide: trigger})
		f.ok(err)
		f.is([]any{len(out), more, out[0].Err, out[0].Schedule.ID, out[0].Firings[0].Repeat}, []any{1, false, error(nil), s.ID, i == 1}, "fired")
	}
	f.is(len(f.jobsOf(s.ID)), 1, "jobs")
	for _, ref := range []store.Ref{{Project: "other", ID: s.ID}, {Project: project, ID: f.id()}} {
		_, _, err := f.s.Fire(f.ctx, store.FireParams{Only: ref, Decide: trigger})
		f.fails(err, store.ErrNotFound)
	}
}

func fireFacts(f *fixture) {
	f.schedule(func(s *store.Schedule) { s.PauseAfterFailures = 2 })
	var made []job.Snapshot
	for range 4 {
		made = append(made, f.fired(f.beat).Firings[0].Job.Snapshot)
		f.clock.advance(time.Minute)
	}
	f.apply(f.job(made[0].ID), job.CancelAsked{})
	f.apply(f.job(made[1].ID), job.CancelAsked{})
	f.apply(f.job(made[2].ID), job.CancelAsked{})
	f.submit() // without a schedule
	sending := f.arm(f.claimN(1)[0])
	f.is(sending.Snapshot.ID, made[3].ID, "claimed")
	f.fired(func(d store.DueSchedule) store.FireDecision {
		f.is(d.Open, []store.OpenJob{{ID: made[3].ID, State: job.Sending}}, "open jobs")
		f.is(d.Ended, []store.EndedJob{
			{ID: made[2].ID, State: job.Canceled, Decided: start.Add(2 * time.Minute)},
			{ID: made[1].ID, State: job.Canceled, Decided: start.Add(time.Minute)},
		}, "ended jobs")
		f.is(d.Connection.ID, f.conn.ID, "connection")
		f.is(d.Now, start.Add(4*time.Minute), "now")
		return f.beat(d)
	})
	f.revise(f.connection(f.conn.ID), store.ConnectionChange{Pause: new(string)})
	f.clock.advance(time.Minute)
	f.fired(func(d store.DueSchedule) store.FireDecision {
		f.is(d.Connection.State(d.Now), store.ConnectionPaused, "connection")
		f.is([]any{len(d.Open), d.Open[0].ID == made[3].ID}, []any{1, false}, "open jobs: the newest")
		return f.beat(d)
	})
	f.schedule(func(s *store.Schedule) { s.Connection = f.id() })
	f.fired(func(d store.DueSchedule) store.FireDecision {
		f.is(d.Connection, store.Connection{}, "a connection that is not there")
		d.Schedule.Next = time.Time{}
		return store.FireDecision{Schedule: d.Schedule}
	})
}

// fireExcept: a schedule that a server skips is not due for it, one that it leaves does not
// change, and both are due for others.
func fireExcept(f *fixture) {
	first := f.schedule().ID
	f.clock.advance(time.Second)
	second := f.schedule().ID
	before := f.readSchedule(first)
	asked := 0
	out, more, err := f.s.Fire(f.ctx, store.FireParams{Limit: 10, Decide: func(d store.DueSchedule) store.FireDecision {
		asked++
		if d.Schedule.ID == first {
			return store.FireDecision{Schedule: d.Schedule, Leave: true}
		}
		return f.beat(d)
	}})
	f.ok(err)
	f.is([]any{asked, len(out), more, out[0].Schedule.ID}, []any{2, 1, false, second}, "decided beside one that is left")
	f.is(f.readSchedule(first), before, "the schedule that is left")

	f.clock.advance(time.Minute)
	out, more, err = f.s.Fire(f.ctx, store.FireParams{Limit: 1, Except: []job.ID{first, f.id()}, Decide: f.beat})
	f.ok(err)
	f.is([]any{len(out), more, out[0].Schedule.ID}, []any{1, true, second}, "decided behind one that is passed over")
	for _, tt := range []struct {
		except []job.ID
		soon   bool
	}{{nil, true}, {[]job.ID{first}, false}} {
		next, err := f.s.NextFiring(f.ctx, time.Hour, tt.except)
		f.ok(err)
		f.is(next == 0, tt.soon, "next firing except %v: in %v", tt.except, next)
	}
	broken := errors.New("not now")
	out, _, err = f.s.Fire(f.ctx, store.FireParams{Limit: 10, Decide: func(d store.DueSchedule) store.FireDecision {
		return store.FireDecision{Schedule: d.Schedule, Err: broken}
	}})
	f.ok(err)
	f.is([]any{len(out), out[0].Schedule.ID}, []any{1, first}, "refused")
	f.fails(out[0].Err, broken)
	after := f.readSchedule(first)
	f.is([]any{after.Revision, after.Next, after.PostponedUntil.Sub(f.clock.now())}, []any{before.Revision, before.Next, store.BufferedLook}, "put off")
}

// fireOpenJobs: with any number of open jobs of a schedule, the newest of either kind is
// known, through all changes of their states.
func fireOpenJobs(f *fixture) {
	id := f.schedule(func(s *store.Schedule) { s.Next = time.Time{} }).ID
	of := func(n *store.NewJob) { n.Spec.Schedule = id }
	open := func(what string, want ...store.OpenJob) {
		f.Helper()
		out, _, err := f.s.Fire(f.ctx, store.FireParams{Only: store.Ref{Project: project, ID: id}, Decide: func(d store.DueSchedule) store.FireDecision {
			f.is(d.Open, want, "open jobs %s", what)
			return store.FireDecision{Schedule: d.Schedule}
		}})
		f.ok(err)
		f.ok(out[0].Err)
	}
	open("of none")
	first := f.sending(of)
	open("under way", store.OpenJob{ID: first.Snapshot.ID, State: job.Sending})
	f.apply(first.Snapshot, answer(first.Snapshot, job.ResultUnknown))
	unknown := store.OpenJob{ID: first.Snapshot.ID, State: job.Ambiguous}
	open("unresolved", unknown)
	var items []store.NewJob
	for range 120 {
		items = append(items, f.new(of))
	}
	made := f.create(items...)
	newest := made[len(made)-1].Snapshot
	waits := store.OpenJob{ID: newest.ID, State: job.Scheduled}
	open("of both kinds, the older one unresolved", waits, unknown)

	f.clock.advance(time.Minute)
	again := f.arm(f.looks()[0])
	open("while one is repeated", waits)
	f.apply(again.Snapshot, answer(again.Snapshot, job.ResultUnknown))
	open("after the repeat", waits, unknown)
	f.clock.advance(48 * time.Hour)
	s := f.apply(f.job(first.Snapshot.ID), job.Looked{Observation: job.Observation{Attempt: 2, Verdict: job.SawCandidates}}).Snapshot
	f.is(s.State, job.NeedsResolution, "state")
	open("that a person decides about", waits, store.OpenJob{ID: s.ID, State: job.NeedsResolution})
	f.apply(s, job.Resolved{Ruling: job.RuleResend, Actor: "ann", Override: true})
	open("of one kind again", waits)
	for _, one := range made {
		f.apply(f.job(one.Snapshot.ID), job.CancelAsked{})
	}
	open("of the first alone", store.OpenJob{ID: s.ID, State: job.Retrying})
	f.apply(f.job(s.ID), job.CancelAsked{})
	open("of none, again")
}

// fireReleased: a schedule with a buffered firing is due as soon as a job changes to a kind
// that may not block the firing, and watchers are notified.
func fireReleased(f *fixture) {
	for name, unresolved := range map[string]bool{"becomes unknown": false, "is known again": true} {
		f := newFixture(f.T, f.open)
		id := f.schedule(func(s *store.Schedule) { s.Next = time.Time{} }).ID
		only := store.Ref{Project: project, ID: id}
		s := f.sending(func(n *store.NewJob) { n.Spec.Schedule = id }).Snapshot
		if unresolved {
			s = f.apply(s, answer(s, job.ResultUnknown)).Snapshot
		}
		out, _, err := f.s.Fire(f.ctx, store.FireParams{Only: only, Decide: func(d store.DueSchedule) store.FireDecision {
			f.is(len(d.Open), 1, "%s: jobs in the way", name)
			d.Schedule.Buffered = &store.Firing{Name: "i:1", Nominal: d.Now, Origin: store.FiredByTime, Blocking: d.Open[0].ID}
			return store.FireDecision{Schedule: d.Schedule}
		}})
		f.ok(err)
		f.ok(out[0].Err)
		f.is(out[0].Schedule.Next.Sub(f.clock.now()), store.BufferedLook, "%s: due in", name)
		hints, stop := f.s.Watch(store.WatchSchedules)
		token(hints)
		if unresolved {
			f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient})
		} else {
			f.apply(s, answer(s, job.ResultUnknown))
		}
		f.is(token(hints), true, "%s: hint", name)
		stop()
		f.is(f.readSchedule(id).Next.Sub(f.clock.now()), time.Duration(0), "%s: due in", name)
	}
}

// fireBuffered: every end of the job that a buffered firing waits for makes the schedule due.
func fireBuffered(f *fixture) {
	buffer := func(d store.DueSchedule) store.FireDecision {
		if len(d.Open) == 0 {
			out := f.beat(d)
			if d.Schedule.Buffered != nil {
				out.Firings[0] = f.making(d, d.Schedule.Buffered.Name)
				out.Firings[0].Firing.Run = out.Schedule.Run
				out.Schedule.Buffered, out.Schedule.Cursor = nil, d.Schedule.Cursor
			}
			out.Schedule.Next = d.Now.Add(24 * time.Hour)
			return out
		}
		s := d.Schedule
		if s.Buffered == nil {
			n, _ := strconv.Atoi(s.Cursor)
			s.Buffered = &store.Firing{Name: fmt.Sprint("i:", n), Nominal: d.Now, Origin: store.FiredByTime, Blocking: d.Open[0].ID}
			s.Cursor = strconv.Itoa(n + 1)
		}
		s.Next = d.Now.Add(24 * time.Hour)
		return store.FireDecision{Schedule: s}
	}
	armed := func() job.Snapshot {
		f.Helper()
		return f.arm(f.claim()).Snapshot
	}
	for name, end := range map[string]func(job.Snapshot){
		"canceled": func(s job.Snapshot) { f.apply(s, job.CancelAsked{}) },
		"succeeded": func(job.Snapshot) {
			s := armed()
			f.apply(s, succeeded(s, ""))
		},
		"succeeded, with a name": func(job.Snapshot) {
			s := armed()
			f.apply(s, succeeded(s, s.ID.String()))
		},
		"failed": func(job.Snapshot) {
			f.apply(armed(), job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent})
		},
		"expired": func(s job.Snapshot) {
			f.clock.advance(3 * time.Hour)
			f.apply(f.job(s.ID), job.WindowOver{})
		},
		"resolved": func(job.Snapshot) {
			s := armed()
			s = f.apply(s, answer(s, job.ResultUnknown)).Snapshot
			f.apply(s, job.Resolved{Ruling: job.RuleSent, Actor: "ann", ExternalID: s.ID.String(), Override: true})
		},
	} {
		id := f.schedule().ID
		one := f.fired(buffer)
		f.ok(one.Err)
		blocking := one.Firings[0].Job.Snapshot
		trigger := store.FireParams{Only: store.Ref{Project: project, ID: id}, Decide: buffer}
		out, _, err := f.s.Fire(f.ctx, trigger)
		f.ok(err)
		f.ok(out[0].Err)
		f.is([]any{out[0].Schedule.Buffered.Blocking, out[0].Schedule.Next}, []any{blocking.ID, f.readSchedule(id).Updated.Add(store.BufferedLook)}, "%s: buffered", name)
		f.is(len(f.fire(buffer)), 0, "%s: due before the end", name)
		end(blocking)
		if s := f.readSchedule(id); s.Next.After(f.clock.now()) {
			f.Errorf("%s: not due after the end", name)
		}
		released := f.fired(buffer)
		f.ok(released.Err)
		f.is([]any{released.Schedule.Buffered, released.Firings[0].Firing.Name}, []any{(*store.Firing)(nil), "i:1"}, "%s: released", name)
		f.is(len(f.firings(id)), 2, "%s: firings", name)
		f.apply(f.job(released.Firings[0].Job.Snapshot.ID), job.CancelAsked{})
		f.changeSchedule(f.readSchedule(id), func(s *store.Schedule) { s.State = store.ScheduleDeleted })
	}
}

func fireQuarantined(f *fixture) {
	s := f.schedule()
	f.ok(f.s.Quarantine(f.ctx, "why"))
	for _, only := range []store.Ref{{}, {Project: project, ID: s.ID}} {
		_, _, err := f.s.Fire(f.ctx, store.FireParams{Only: only, Decide: f.beat})
		f.fails(err, store.ErrQuarantined)
	}
	next, err := f.s.NextFiring(f.ctx, time.Hour, nil)
	f.ok(err)
	f.is(next, time.Hour, "next firing")
	f.ok(f.s.Release(f.ctx))
	f.ok(f.fired(f.beat).Err)
}

func fireStarts(f *fixture) {
	f.schedule()
	got := f.fired(func(d store.DueSchedule) store.FireDecision {
		out := f.beat(d)
		out.Firings[0].Job.Start = &store.ClaimParams{Worker: "w", Lease: lease}
		return out
	})
	f.ok(got.Err)
	if l := got.Firings[0].Job.Started; l != nil {
		f.is(f.job(l.ID).State, job.Claimed, "state")
		f.is(len(f.claimN(1)), 0, "claimed again")
	}
}

func firingPages(f *fixture) {
	s := f.schedule()
	var want []store.Firing
	for i := range 7 {
		got := f.fired(func(d store.DueSchedule) store.FireDecision {
			out := f.beat(d)
			if i%3 == 1 {
				out.Firings[0].Job, out.Firings[0].Firing.Outcome, out.Firings[0].Firing.Run = nil, store.FiringMissed, 0
				out.Schedule.Run = d.Schedule.Run
			}
			return out
		})
		f.ok(got.Err)
		want = append([]store.Firing{got.Firings[0].Firing}, want...)
		f.clock.advance(time.Minute)
	}
	for _, outcomes := range [][]store.FiringOutcome{nil, {store.FiringMissed}, {store.FiringFired, store.FiringRefused}} {
		for _, limit := range []int{0, 1, 2, 7} {
			q := store.FiringQuery{Project: project, Schedule: s.ID, Outcomes: outcomes, Limit: limit}
			var got, some []store.Firing
			for range 20 {
				p, err := f.s.Firings(f.ctx, q)
				f.ok(err)
				got = append(got, p.Firings...)
				if q.Before = p.Next; q.Before == 0 {
					break
				}
			}
			for _, one := range want {
				if q.Selects(one) {
					some = append(some, one)
				}
			}
			f.is(got, some, "firings, %d a page", limit)
		}
	}
	for _, one := range want {
		p, err := f.s.Firings(f.ctx, store.FiringQuery{Project: project, Schedule: s.ID, Name: one.Name, Limit: 1})
		f.ok(err)
		f.is(p, store.FiringPage{Firings: []store.Firing{one}}, "the firing named %s", one.Name)
	}
	for _, q := range []store.FiringQuery{{Name: "nobody"}, {Name: want[0].Name, Outcomes: []store.FiringOutcome{store.FiringRefused}}} {
		q.Project, q.Schedule = project, s.ID
		p, err := f.s.Firings(f.ctx, q)
		f.ok(err)
		f.is(p, store.FiringPage{}, "the page of %+v", q)
	}
	f.fails(second(f.s.Firings(f.ctx, store.FiringQuery{Project: "other", Schedule: s.ID, Name: want[0].Name})), store.ErrNotFound)
	f.fails(second(f.s.Firings(f.ctx, store.FiringQuery{Project: "other", Schedule: s.ID})), store.ErrNotFound)
	f.fails(second(f.s.Firings(f.ctx, store.FiringQuery{Project: project, Schedule: f.id()})), store.ErrNotFound)
}

func firingsKept(f *fixture) {
	s, idle := f.schedule(), f.schedule(func(s *store.Schedule) { s.Next = time.Time{} })
	for range 3 {
		f.ok(f.fired(f.beat).Err)
		f.clock.advance(24 * time.Hour)
	}
	f.clock.advance(store.FiringsKept - 2*24*time.Hour)
	f.is(len(f.firings(s.ID)), 3, "firings")
	removed := 0
	p := store.RetainParams{Owner: job.ID{1}, Lease: time.Minute, Limit: 50}
	for range 100 {
		r, err := f.s.Retain(f.ctx, p)
		f.ok(err)
		removed += r.Firings
		if p.After = r.Next; r.Done {
			break
		}
	}
	f.is(removed, 1, "removed")
	f.is(len(f.firings(s.ID)), 2, "firings left")
	f.is(f.readSchedule(s.ID).LedgerBegin, start.Add(24*time.Hour), "begin of the ledger")
	f.is(f.readSchedule(idle.ID).LedgerBegin, start, "begin of another one")
}

func scheduleErased(f *fixture) {
	conn := f.connect(store.Connection{Project: "other"})
	n := f.newSchedule(func(s *store.Schedule) { s.Project, s.Connection = "other", conn.ID })
	s, _, err := f.s.CreateSchedule(f.ctx, n)
	f.ok(err)
	got := f.fired(f.beat)
	f.ok(got.Err)
	key := f.apiKey("other")
	f.ok(second(f.s.RevokeAPIKey(f.ctx, key.ID)))
	// A job is there that has not ended, so the rest stays, but nothing fires any more.
	out := f.eraseAll("other", 50)
	f.is([]any{out.Rest.Open, out.Schedules}, []any{int64(1), 0}, "first pass")
	f.clock.advance(time.Hour)
	f.is(len(f.fire(f.beat)), 0, "fired")
	f.apply(got.Firings[0].Job.Snapshot, job.CancelAsked{})
	f.clock.advance(store.LeastKept)
	out = f.eraseAll("other", 50)
	f.is([]any{out.Schedules, out.Firings, out.Jobs}, []any{1, 1, 1}, "second pass")
	f.fails(second(f.s.Schedule(f.ctx, store.Ref{ID: s.ID})), store.ErrNotFound)
	f.holds("other", store.Holdings{})
}

func scheduleHints(f *fixture) {
	hints, end := f.s.Watch(store.WatchSchedules)
	defer end()
	given := func(want bool, when string) {
		f.Helper()
		select {
		case <-hints:
			f.is(true, want, "hint after %s", when)
		default:
			f.is(false, want, "hint after %s", when)
		}
	}
	s := f.schedule()
	given(true, "a new schedule")
	f.changeSchedule(s, func(s *store.Schedule) { s.DisplayName = "x" })
	given(true, "a change")
	f.submit()
	given(false, "a job")
	f.restore()
	given(true, "a release")
}
