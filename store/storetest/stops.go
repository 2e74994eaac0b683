package storetest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var stopTests = []test{
	{"nothing is claimed under a stop of any scope", stopScopes},
	{"nothing is armed under a stop of any scope", stopArms},
	{"no repeat is armed under a stop, and looks go on", stopRepeats},
	{"a result and late evidence count under a stop", stopEvidence},
	{"an intent of a claim is not written under a stop", stopIntents},
	{"a job is not started as it is submitted under a stop", stopStarts},
	{"a window of time", stopWindow},
	{"the end makes everything due, repeats first", stopEnd},
	{"the end of one stop leaves another", stopTwo},
	{"what is stopped does not delay the rest", stopOthers},
	{"the same stop again", stopSame},
	{"stops that contradict themselves", stopIllegal},
	{"how many there may be", stopBounds},
	{"lists", stopLists},
	{"old stops are forgotten", stopForgotten},
	{"a quarantine is stronger", stopQuarantined},
	{"a preview", stopPreview},
	{"a race of claims, arms, stops and ends", stopRace},
}

// stop stores a stop that an actor wants, with a new id.
func (f *fixture) stop(s store.Stop) store.Stop {
	f.Helper()
	out, created, err := f.tryStop(s)
	f.ok(err)
	f.is(created, true, "created")
	return out
}

func (f *fixture) tryStop(s store.Stop) (store.Stop, bool, error) {
	f.Helper()
	s.ID = f.id()
	if s.Cause == 0 {
		s.Cause = store.StoppedByPerson
	}
	if s.CreatedBy == "" {
		s.CreatedBy = "api:ann/1"
	}
	return f.s.CreateStop(f.ctx, store.NewStop{Stop: s})
}

func (f *fixture) endStop(s store.Stop) store.Stop {
	f.Helper()
	out, err := f.s.EndStop(f.ctx, s.Project, s.ID, "api:bob/2")
	f.ok(err)
	return out
}

// ofTeam sets the label "team" of a job.
func ofTeam(value string) func(*store.NewJob) {
	return func(n *store.NewJob) { n.Spec.Labels = map[string]string{"team": value} }
}

// everyScope has one stop of each scope over a job on the fixture's connection with the label
// team=red, and whether each covers a job of the other connection of the project.
func (f *fixture) everyScope() map[string]store.Stop {
	return map[string]store.Stop{
		"everything":                  {Scope: store.StopEverything},
		"project":                     {Scope: store.StopProject, Project: project},
		"connector":                   {Scope: store.StopConnector, Connector: "fake"},
		"connector of a project":      {Scope: store.StopConnector, Connector: "fake", Project: project},
		"connection":                  {Scope: store.StopConnection, Connection: f.conn.ID, Project: project},
		"destination":                 {Scope: store.StopDestination, Destination: holdKey},
		"destination, of one project": {Scope: store.StopDestination, Destination: holdKey, Project: project},
		"label":                       {Scope: store.StopLabel, Label: "team", Value: "red", Project: project},
	}
}

// bystander returns a connection whose jobs, under another hold key, only a stop of everything
// or of the project covers.
func (f *fixture) bystander() store.Connection {
	f.Helper()
	return f.connect(store.Connection{Connector: "other"})
}

func stopScopes(f *fixture) {
	other := f.bystander()
	for name, s := range f.everyScope() {
		stop := f.stop(s)
		f.is([]any{stop.Begin, stop.End, stop.Created, stop.CreatedBy}, []any{f.job(f.submit().ID).Now, time.Time{}, stop.Begin, "api:ann/1"}, "%s: stored", name)
		// What was submitted beside it, without the label, is covered by all but the label's.
		stopped := f.submit(ofTeam("red"))
		free := f.submit(on(other), holding("elsewhere"), ofTeam("blue"))
		wide := s.Scope == store.StopEverything || s.Scope == store.StopProject
		for _, l := range f.claimN(100) {
			switch {
			case l.ID == free.ID && !wide:
				f.is(l.Stopped == nil, true, "%s: a job beside it is stopped", name)
			case s.Scope == store.StopLabel && l.ID == stopped.ID:
				f.is(l.Stopped != nil && l.Stopped.ID == stop.ID, true, "%s: a claimed job knows its stop", name)
			case s.Scope == store.StopLabel:
				f.is(l.Stopped == nil, true, "%s: a job without the label is stopped", name)
			default:
				f.Errorf("%s: claimed", name)
			}
			f.arrive(l)
		}
		over, err := f.s.StopsOver(f.ctx, []store.StopTarget{
			store.StopTargetOf(&stopped.Spec, "fake"), {Project: "another", Connector: "another", HoldKey: "another"},
		})
		f.ok(err)
		f.is(over[0] != nil && over[0].ID == stop.ID, true, "%s: the stop over a job", name)
		f.is(over[1] != nil, s.Scope == store.StopEverything, "%s: the stop over another job", name)
		f.is(f.meta().Stops, int64(1), "%s: stops", name)
		ended := f.endStop(stop)
		f.is([]any{ended.Ended.IsZero(), ended.EndedBy}, []any{false, "api:bob/2"}, "%s: ended", name)
		f.is(f.endStop(stop), ended, "%s: ended again", name)
		f.is(f.meta().Stops, int64(0), "%s: stops after the end", name)
		f.clock.advance(time.Minute)
		for _, l := range f.claimN(100) {
			f.is(l.Stopped == nil, true, "%s: stopped after the end", name)
			f.arrive(l)
		}
		f.is(f.job(stopped.ID).State, job.Succeeded, "%s: the job after the end", name)
	}
}

// arrive takes a leased job to its end, or returns its lease if it is stopped.
func (f *fixture) arrive(l store.Leased) {
	f.Helper()
	if l.Stopped != nil {
		f.apply(l.Snapshot, job.Deferred{Kind: job.FailHeld, RetryAfter: time.Hour, Message: job.Stopped})
		return
	}
	f.apply(f.arm(l).Snapshot, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, Message: "done"})
}

func stopArms(f *fixture) {
	for name, s := range f.everyScope() {
		want := f.submit(ofTeam("red"))
		l := f.claim()
		f.is(l.ID, want.ID, "%s: claimed", name)
		stop := f.stop(s)
		err := f.armOne(f.intent(l)).Err
		f.fails(err, store.ErrHeld)
		stopped, ok := errors.AsType[*store.StoppedError](err)
		f.is(ok && stopped.By.ID == stop.ID, true, "%s: the stop in the refusal", name)
		f.unchanged(l.Snapshot)
		f.endStop(stop)
		f.apply(f.arm(l).Snapshot, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, Message: "done"})
	}
}

func stopRepeats(f *fixture) {
	unknown := f.ambiguous()
	stop := f.stop(store.Stop{Scope: store.StopEverything})
	f.clock.advance(time.Hour)
	looks := f.looks()
	f.is(len(looks), 1, "looks under a stop")
	f.is(looks[0].ID, unknown.ID, "the look")
	f.is(looks[0].Stopped != nil && looks[0].Stopped.ID == stop.ID, true, "the look knows the stop")
	repeat := f.intent(looks[0], func(a *store.Arm) { a.EffectKey, a.Digest = looks[0].RoundKey, []byte("digest") })
	f.fails(f.armOne(repeat).Err, store.ErrStopped)
	f.endStop(stop)
	f.ok(f.armOne(repeat).Err)
}

func stopEvidence(f *fixture) {
	done, late := f.sending(), f.sending()
	f.stop(store.Stop{Scope: store.StopEverything})
	got := f.apply(done.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, Message: "done"})
	f.is(got.Snapshot.State, job.Succeeded, "a result")
	f.clock.advance(2 * fence)
	over, err := f.s.Overdue(f.ctx, 10)
	f.ok(err)
	f.is(len(over), 1, "fences that are over")
	unknown := f.apply(over[0], job.FenceOver{}).Snapshot
	f.is([]any{unknown.ID, unknown.State}, []any{late.Snapshot.ID, job.Ambiguous}, "an unknown outcome")
	got = f.apply(unknown, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, Message: "late"})
	f.is(got.Snapshot.State, job.Succeeded, "a late answer")
}

func stopIntents(f *fixture) {
	stopped := f.submit(ofTeam("red"))
	free := f.submit(ofTeam("blue"))
	f.stop(store.Stop{Scope: store.StopLabel, Label: "team", Value: "red", Project: project})
	out, err := f.s.Claim(f.ctx, store.ClaimParams{Worker: "worker", Lease: lease, Limit: 10, Intent: func(l store.Leased) *store.Arm {
		a := f.intent(l)
		return &a
	}})
	f.ok(err)
	for _, l := range out {
		f.is(l.Armed != nil, l.ID == free.ID, "armed with its claim: %v", l.ID)
		f.is(l.Stopped != nil, l.ID == stopped.ID, "stopped: %v", l.ID)
	}
	f.is(len(out), 2, "claimed")
}

func stopStarts(f *fixture) {
	for name, s := range f.everyScope() {
		stop := f.stop(s)
		n := f.new(ofTeam("red"))
		n.ScheduleTime = time.Time{}
		n.Start = &store.ClaimParams{Worker: "worker", Lease: lease, Limit: 1, Intent: func(l store.Leased) *store.Arm {
			a := f.intent(l)
			return &a
		}}
		got := f.create(n)[0]
		f.is(got.Started == nil || got.Started.Armed == nil, true, "%s: armed as it was submitted", name)
		if got.Started != nil {
			f.is(got.Started.Stopped != nil, true, "%s: started as it was submitted", name)
		}
		f.endStop(stop)
	}
}

func stopWindow(f *fixture) {
	from, to := start.Add(time.Minute), start.Add(time.Hour)
	stop := f.stop(store.Stop{Scope: store.StopProject, Project: project, Begin: from, End: to})
	f.is([]any{stop.Planned, stop.Begin, stop.End}, []any{true, from, to}, "planned")
	before := f.submit()
	f.arrive(f.claimed(before.ID)[0])
	f.clock.advance(time.Minute)
	in := f.submit()
	f.claimed()
	next, err := f.s.NextDue(f.ctx, 2*time.Hour)
	f.ok(err)
	f.is(next > 0, true, "next due in the window: %v", next)
	f.clock.advance(time.Hour - time.Minute)
	f.is(len(f.s2(f.s.StopsOver(f.ctx, []store.StopTarget{{Project: project}}))), 0, "stops after the window")
	f.clock.advance(store.StopHeadStart)
	f.claimed(in.ID)
	page, err := f.s.ListStops(f.ctx, store.StopQuery{})
	f.ok(err)
	f.is(len(page.Stops), 0, "listed after its end")
	f.is(f.meta().Stops, int64(0), "stops after the window")
	ended := f.endStop(stop)
	f.is(ended.Ended.IsZero(), true, "a stop that has ended by itself is not ended")
}

// s2 returns the stops that are there.
func (f *fixture) s2(list []*store.Stop, err error) []*store.Stop {
	f.Helper()
	f.ok(err)
	return slices.DeleteFunc(list, func(s *store.Stop) bool { return s == nil })
}

func stopEnd(f *fixture) {
	unknown := f.ambiguous()
	stop := f.stop(store.Stop{Scope: store.StopEverything})
	first := f.submit()
	label := f.stop(store.Stop{Scope: store.StopLabel, Label: "team", Value: "red", Project: project})
	f.clock.advance(time.Minute)
	f.claimed()
	looks := f.looks()
	f.is(len(looks), 1, "looks")
	put := f.apply(looks[0].Snapshot, job.Deferred{Kind: job.FailHeld, RetryAfter: time.Hour, Message: job.Stopped}).Snapshot
	f.is([]any{put.ID, put.State, put.Blocked}, []any{unknown.ID, job.Ambiguous, job.Stopped}, "put off")
	work, end := f.s.Watch(store.WatchWork)
	defer end()
	f.endStop(stop)
	f.is(token(work), true, "hint")
	again := f.job(unknown.ID)
	f.is([]any{again.NextAt, again.Version}, []any{again.Now, put.Version}, "the repeat")
	f.is(len(f.lookIDs()), 1, "the repeat goes first")
	f.claimed()
	f.clock.advance(store.StopHeadStart)
	f.claimed(first.ID)
	// A job that a label's stop put off is due as soon as the stop ends.
	red := f.submit(ofTeam("red"))
	l := f.claim()
	f.is(l.ID, red.ID, "claimed")
	f.arrive(l)
	f.claimed()
	f.endStop(label)
	f.claimed(red.ID)
}

func stopTwo(f *fixture) {
	one := f.stop(store.Stop{Scope: store.StopEverything})
	two := f.stop(store.Stop{Scope: store.StopDestination, Destination: holdKey, End: start.Add(time.Hour)})
	a, b := f.submit(), f.submit(holding("elsewhere"))
	f.claimed()
	over := f.s2(f.s.StopsOver(f.ctx, []store.StopTarget{{Project: project, HoldKey: holdKey}}))
	f.is(len(over) == 1 && over[0].ID == one.ID, true, "the one that lasts longest")
	f.endStop(one)
	f.claimed(b.ID)
	f.endStop(two)
	f.claimed(a.ID)
}

func stopOthers(f *fixture) {
	other := f.bystander()
	f.stop(store.Stop{Scope: store.StopConnector, Connector: "fake"})
	for i := range 30 {
		f.submit(holding(strings.Repeat("x", i+1)))
	}
	free := f.submit(on(other))
	var got []store.Leased
	for range 20 { // in small claims
		room := &store.Room{Connection: 100, Project: 100}
		out, err := f.s.Claim(f.ctx, store.ClaimParams{Worker: "worker", Lease: lease, Limit: 2, Room: room})
		f.ok(err)
		if got = append(got, out...); len(got) > 0 || !room.SetAside {
			break
		}
	}
	f.is(len(got) == 1 && got[0].ID == free.ID, true, "claimed beside what is stopped: %v", got)
	f.claimed()
	next, err := f.s.NextDue(f.ctx, time.Hour)
	f.ok(err)
	f.is(next > 0, true, "next due: %v", next)
}

func stopSame(f *fixture) {
	for name, s := range f.everyScope() {
		s.Note = "first"
		stop := f.stop(s)
		f.clock.advance(time.Second)
		s.Note, s.CreatedBy = "second", "api:eve/3"
		again, created, err := f.tryStop(s)
		f.ok(err)
		want := stop
		want.Note = "second"
		f.is(created, false, "%s: created again", name)
		f.is(again, want, "%s: again", name)
		s.HoldWindows = true
		held, created, err := f.tryStop(s)
		f.ok(err)
		f.is([]bool{created, held.HoldWindows}, []bool{true, true}, "%s: of another rule for windows", name)
		f.endStop(held)
		if s.Scope == store.StopDestination {
			f.endStop(f.stop(store.Stop{
				Scope: s.Scope, Project: project, Connection: f.conn.ID, Destination: s.Destination, Cause: store.StoppedByBreaker,
			}))
		}
		f.endStop(stop)
		s.HoldWindows = false
		f.endStop(f.stop(s))
	}
}

func stopIllegal(f *fixture) {
	for name, s := range map[string]store.Stop{
		"no scope":                   {},
		"of an unknown scope":        {Scope: 7},
		"everything, of a project":   {Scope: store.StopEverything, Project: project},
		"a project, without one":     {Scope: store.StopProject},
		"a connection, no project":   {Scope: store.StopConnection, Connection: f.conn.ID},
		"a label, without a project": {Scope: store.StopLabel, Label: "a"},
		"two targets":                {Scope: store.StopConnector, Connector: "a", Destination: "b"},
		"ends before it begins":      {Scope: store.StopEverything, Begin: start.Add(2 * time.Hour), End: start.Add(time.Hour)},
		"a breaker of everything":    {Scope: store.StopEverything, Cause: store.StoppedByBreaker},
		"a breaker of all accounts":  {Scope: store.StopDestination, Project: project, Destination: "b", Cause: store.StoppedByBreaker},
		"a breaker, without project": {Scope: store.StopDestination, Connection: f.conn.ID, Destination: "b", Cause: store.StoppedByBreaker},
		"is over":                    {Scope: store.StopEverything, Begin: start.Add(-2 * time.Hour), End: start.Add(-time.Hour)},
		"ends now":                   {Scope: store.StopEverything, End: start},
	} {
		_, created, err := f.tryStop(s)
		if !errors.Is(err, store.ErrIllegal) || created {
			f.Errorf("%s: %v, %v", name, created, err)
		}
	}
	_, _, err := f.tryStop(store.Stop{Scope: store.StopConnection, Connection: f.conn.ID, Project: "another"})
	f.fails(err, store.ErrNotFound)
	_, _, err = f.tryStop(store.Stop{Scope: store.StopConnection, Connection: f.id(), Project: project})
	f.fails(err, store.ErrNotFound)
	stop := f.stop(store.Stop{Scope: store.StopProject, Project: project})
	_, err = f.s.EndStop(f.ctx, "another", stop.ID, "")
	f.fails(err, store.ErrNotFound)
	_, err = f.s.EndStop(f.ctx, "", f.id(), "")
	f.fails(err, store.ErrNotFound)
	_, _, err = f.s.CreateStop(f.ctx, store.NewStop{Stop: store.Stop{ID: stop.ID, Scope: store.StopEverything, Cause: store.StoppedByPerson}})
	f.fails(err, store.ErrIllegal)
	f.claimed()
}

func stopBounds(f *fixture) {
	for i := range store.MaxWideStops {
		f.stop(store.Stop{Scope: store.StopProject, Project: "p" + f.id().String()[:8] + string(rune('a'+i%26)) + f.id().String()})
	}
	_, _, err := f.tryStop(store.Stop{Scope: store.StopEverything})
	f.fails(err, store.ErrQuota)
	f.stop(store.Stop{Scope: store.StopDestination, Destination: "narrow"})
	page, err := f.s.ListStops(f.ctx, store.StopQuery{Project: project, Limit: 1})
	f.ok(err)
	f.is(page.Stops[0].Destination, "narrow", "the newest")
}

func stopLists(f *fixture) {
	var all []store.Stop
	for _, s := range []store.Stop{
		{Scope: store.StopEverything, Note: "why"}, {Scope: store.StopProject, Project: project}, {Scope: store.StopProject, Project: "another"},
		breakerOf(f.conn.ID), {Scope: store.StopLabel, Label: "a", Value: "b", Project: project, Begin: start.Add(time.Hour)},
	} {
		f.clock.advance(time.Second)
		all = append([]store.Stop{f.stop(s)}, all...)
	}
	all[3] = f.endStop(all[3])
	read := func(q store.StopQuery) []store.Stop {
		f.Helper()
		var out []store.Stop
		for q.Limit = 2; ; {
			page, err := f.s.ListStops(f.ctx, q)
			f.ok(err)
			out = append(out, page.Stops...)
			if !page.More {
				return out
			}
			q.After = out[len(out)-1].ID
		}
	}
	f.is(read(store.StopQuery{Ended: true}), all, "all")
	f.is(read(store.StopQuery{}), []store.Stop{all[0], all[1], all[2], all[4]}, "not ended")
	f.is(read(store.StopQuery{Project: project, Ended: true}), []store.Stop{all[0], all[1], all[3], all[4]}, "of a project")
	_, err := f.s.ListStops(f.ctx, store.StopQuery{After: f.id()})
	f.fails(err, store.ErrNotFound)
}

func stopForgotten(f *fixture) {
	ended := f.endStop(f.stop(store.Stop{Scope: store.StopEverything}))
	over := f.stop(store.Stop{Scope: store.StopEverything, End: start.Add(time.Hour)})
	count := func() int {
		page, err := f.s.ListStops(f.ctx, store.StopQuery{Ended: true})
		f.ok(err)
		return len(page.Stops)
	}
	f.is(count(), 2, "stops")
	f.clock.advance(store.StopsKept + 2*time.Hour)
	f.stop(store.Stop{Scope: store.StopEverything})
	f.is(count(), 1, "stops, much later")
	for _, s := range []store.Stop{ended, over} {
		_, err := f.s.EndStop(f.ctx, "", s.ID, "")
		f.fails(err, store.ErrNotFound)
	}
}

func stopQuarantined(f *fixture) {
	f.submit()
	l := f.claim()
	f.stop(store.Stop{Scope: store.StopEverything})
	f.ok(f.s.Quarantine(f.ctx, "a copy"))
	err := f.armOne(f.intent(l)).Err
	f.is(errors.Is(err, store.ErrHeld) && !errors.Is(err, store.ErrStopped), true, "refusal: %v", err)
	_, err = f.s.Claim(f.ctx, store.ClaimParams{Worker: "worker", Lease: lease, Limit: 1})
	f.fails(err, store.ErrQuarantined)
	// A stop can be made and ended meanwhile, and the release does not end it.
	stop := f.stop(store.Stop{Scope: store.StopProject, Project: project})
	f.ok(f.s.Release(f.ctx))
	f.fails(f.armOne(f.intent(l)).Err, store.ErrStopped)
	f.endStop(stop)
	f.fails(f.armOne(f.intent(l)).Err, store.ErrStopped)
}

func stopPreview(f *fixture) {
	other := f.bystander()
	repeat := f.ambiguous(ofTeam("red"))
	f.sending(ofTeam("red"))
	short := f.submit(ofTeam("red"), func(n *store.NewJob) { n.Spec.StartWindow = 10 * time.Minute })
	longer := f.submit(ofTeam("red"), func(n *store.NewJob) { n.Spec.StartWindow = 30 * time.Minute })
	f.submit(ofTeam("red"), func(n *store.NewJob) { n.Spec.StartWindow = 48 * time.Hour })
	f.submit(on(other), holding("elsewhere"), func(n *store.NewJob) { n.Spec.StartWindow = 5 * time.Minute })
	reply := f.submit(ofTeam("red"), replying(longer.ID), waitingFor(15*time.Minute)) // waits for a job, not for the stop's end
	for name, s := range f.everyScope() {
		s.End = f.job(short.ID).Now.Add(20 * time.Minute)
		got, err := f.s.PreviewStop(f.ctx, s, 10)
		f.ok(err)
		want, ids := int64(3), []job.ID{short.ID, reply.ID}
		if s.Scope == store.StopEverything || s.Scope == store.StopProject {
			want = 4
		}
		var over []job.ID
		for _, w := range got.WindowEnds {
			if w.Connection == f.conn.ID {
				over = append(over, w.ID)
			}
		}
		f.is([]any{got.Waiting, got.Repeats}, []any{want, int64(1)}, "%s: counts", name)
		f.is(over, ids, "%s: windows", name)
		f.is(got.UnderWay, int64(1), "%s: under way", name)
		f.is(len(got.KeyEnds) == 1 && got.KeyEnds[0].ID == repeat.ID, true, "%s: repeats", name)
		s.End = time.Time{}
		got, err = f.s.PreviewStop(f.ctx, s, 1)
		f.ok(err)
		f.is(len(got.WindowEnds), 1, "%s: bounded", name)
		f.is(got.Windows >= 2, true, "%s: all are counted", name)
	}
	got, err := f.s.PreviewStop(f.ctx, store.Stop{Scope: store.StopConnection, Connection: f.conn.ID, Project: project}, 10)
	f.ok(err)
	f.is(len(got.WindowEnds) == 3 && got.WindowEnds[2].ID == longer.ID, true, "without an end: %v", got.WindowEnds)
	f.is(f.meta().Stops, int64(0), "stops after previews")
}

// stopRace makes and ends stops while jobs are claimed and armed. Every arm that was asked for
// after a stop was stored, and that ended before its end was asked for, must be refused.
func stopRace(f *fixture) {
	const workers = 4
	jobs := make([]store.NewJob, 0, 80)
	for i := range cap(jobs) {
		jobs = append(jobs, f.new(holding([]string{"a", "b", "c"}[i%3])))
	}
	f.create(jobs...)
	for round := range 4 {
		leased := f.claimN(20)
		stop := f.stop(store.Stop{Scope: store.StopProject, Project: project})
		together(workers, func(i int) {
			for n := i; n < len(leased); n += workers {
				out, err := f.s.Arm(f.ctx, []store.Arm{f.intent(leased[n])})
				if err != nil || !errors.Is(out[0].Err, store.ErrStopped) {
					f.Errorf("round %d: armed under a stop: %v, %v", round, err, out)
				}
			}
			if out, err := f.s.Claim(f.ctx, store.ClaimParams{Worker: "worker", Lease: lease, Limit: 5}); err != nil || len(out) > 0 {
				f.Errorf("round %d: claimed under a stop: %v, %v", round, err, out)
			}
		})
		// The end races with claims that set rows aside by the stop.
		together(workers, func(i int) {
			if i == 0 {
				if _, err := f.s.EndStop(f.ctx, "", stop.ID, "x"); err != nil {
					f.Error(err)
				}
				return
			}
			out, err := f.s.Claim(f.ctx, store.ClaimParams{Worker: "worker", Lease: lease, Limit: 1})
			if err != nil {
				f.Error(err)
			}
			for _, l := range out {
				f.arrive(l)
			}
		})
		for _, l := range leased {
			f.arrive(l)
		}
	}
	for {
		out := f.claimN(store.MaxBatch)
		if len(out) == 0 {
			break
		}
		for _, l := range out {
			f.arrive(l)
		}
	}
	for _, n := range jobs {
		f.is(f.job(n.Spec.ID).State, job.Succeeded, "a job after all stops")
	}
}
