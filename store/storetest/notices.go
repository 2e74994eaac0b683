package storetest

import (
	"reflect"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: what reads a project reads none of its notices. Each method of a store
// states in leavesOut how that is so. A new one is refused until it has its line.

var noticeTests = []test{
	{"each method states how it treats them", noticesStated},
	{"who reads a project reads none", noticesUnread},
	{"an operator's measurements have none that need a person", noticesInVitals},
	{"a connection with a notice under way is in use", noticesInUse},
	{"a stop holds them, but for one of their project", noticesStopped},
	{"they pass a stop of their project", noticesPass},
	{"they are not started for a job that was just made", noticesNotStarted},
	{"they share claims with others", noticesShare},
	{"they keep the bounds of their connection", noticesBounded},
	{"they pass it when another stop has ended by itself", noticesPassLater},
}

// treatment is how a method treats notices.
type treatment int

const (
	_ treatment = iota
	// byProject: it reads or writes one project, so it has none. noticesUnread calls it.
	byProject
	// byID: its caller has the id of a job already, and names the project if a client asks.
	byID
	// works: it moves jobs on, notices like others, or counts what a server does.
	works
	// noJobs: it has no jobs at all.
	noJobs
	// leavesOut: it reads all projects, and leaves notices out. noticesInVitals calls it.
	leavesOut
)

// treatments has all methods of a store.
var treatments = map[string]treatment{
	"Create": byProject, "Job": byProject, "List": byProject, "Count": byProject, "JobNames": byProject,
	"Attempts": byID, "Observations": byID, "Apply": byID,
	"Events": byProject, "Stats": byProject, "Series": byProject, "StoredJobs": byProject, "Holdings": noJobs,
	"Watch": noJobs,
	"Claim": works, "ClaimLooks": works, "Renew": works, "NextDue": works, "Arm": works, "ContentArms": works,
	"ArmedBy": byID, "SaveHandle": byID, "Owners": byID, "Overdue": works, "Orphans": works,
	"Enlist": noJobs, "Drain": noJobs, "Servers": works,
	"CreateSchedule": noJobs, "Schedule": noJobs, "ListSchedules": noJobs, "ChangeSchedule": noJobs, "Firings": noJobs,
	"AddItem": noJobs, "Item": noJobs, "Items": noJobs, "ChangeItem": noJobs, "Fire": byProject, "NextFiring": noJobs,
	"CreateSubscription": noJobs, "Subscription": noJobs, "ListSubscriptions": noJobs, "ChangeSubscription": noJobs,
	"Notices": noJobs, "LeaseNotices": noJobs, "DueSubscriptions": works, "StepSubscription": works,
	"CreateConnection": noJobs, "Connection": noJobs, "Hold": noJobs, "ListConnections": noJobs, "ChangeConnection": works,
	"Missed": byProject, "Credential": noJobs,
	"KeyUse": noJobs, "CredentialKeys": noJobs, "CredentialsOfOthers": noJobs, "Reseal": noJobs,
	"StartLogin": noJobs, "ReadLogin": noJobs, "TakeLogin": noJobs, "BeginRenewal": noJobs, "EndRenewal": noJobs,
	"CreateAPIKey": noJobs, "APIKey": noJobs, "ListAPIKeys": noJobs, "RevokeAPIKey": noJobs, "Projects": noJobs, "TouchAPIKey": noJobs,
	"Troubles": byProject, "Unproven": byProject, "CreatePlan": byProject, "Plan": byProject, "ListPlans": byProject, "PlanPage": byProject,
	"StartPlan": byProject, "FinishPage": byProject, "RunningPlans": noJobs,
	"CreateStop": noJobs, "EndStop": works, "ListStops": noJobs, "StopsOver": byID, "PreviewStop": works, "TakeProbe": works, "EndProbe": works,
	"Retain": works, "EraseJob": byProject, "ErasedJob": byProject, "EraseProject": works, "Roll": works,
	"Meta": noJobs, "Vitals": leavesOut, "SetNamespace": noJobs, "Quarantine": noJobs, "Doubtful": leavesOut, "Release": works, "Close": noJobs,
}

func noticesStated(f *fixture) {
	methods := reflect.TypeFor[store.Store]()
	for i := range methods.NumMethod() {
		if name := methods.Method(i).Name; treatments[name] == 0 {
			f.Errorf("%s: treatments does not state how it treats notices", name)
		}
	}
	f.is(len(treatments), methods.NumMethod(), "methods with a treatment")
}

// carried returns the job of a notice that waits to be sent.
func (f *fixture) carried() job.Snapshot {
	f.Helper()
	s := f.subscribe()
	f.submit(at(start.Add(24 * time.Hour)))
	s = f.step(s, f.telling(f.logEnd()))
	out, err := f.s.Job(f.ctx, store.Ref{ID: s.OpenJob})
	f.ok(err)
	return out
}

// leasedNotice returns the job of a notice that a worker has.
func (f *fixture) leasedNotice() store.Leased {
	f.Helper()
	carried := f.carried()
	for _, l := range f.claimN(store.MaxBatch) {
		if l.ID == carried.ID {
			return l
		}
	}
	f.Fatalf("the notice %s was not claimed", carried.ID)
	return store.Leased{}
}

// noticed returns a notice's job in each state that a job of this fixture can be brought to.
func (f *fixture) noticed(state job.State) job.Snapshot {
	f.Helper()
	if state == job.Scheduled {
		return f.carried()
	}
	armed := f.arm(f.leasedNotice()).Snapshot
	switch state {
	case job.Sending:
		return armed
	case job.Ambiguous:
		return f.applied(armed, answer(armed, job.ResultUnknown))
	case job.Succeeded:
		return f.applied(armed, succeeded(armed, "object-"+armed.ID.String()))
	default:
		return f.applied(armed, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent})
	}
}

var noticedStates = []job.State{job.Succeeded, job.Failed, job.Ambiguous, job.Sending, job.Scheduled}

func noticesUnread(f *fixture) {
	var notices []job.Snapshot
	var ids []job.ID
	for _, state := range noticedStates {
		n := f.noticed(state)
		f.is(n.State, state, "the notice's state")
		notices, ids = append(notices, n), append(ids, n.ID)
	}
	none := func(id job.ID, what string) {
		f.Helper()
		f.is(slices.Contains(ids, id), false, "%s has a notice", what)
	}
	for order := store.ByScheduledDesc; order <= store.ByCreatedAsc; order++ {
		p, err := f.s.List(f.ctx, store.JobQuery{Project: project, Order: order})
		f.ok(err)
		f.is(len(p.Jobs), len(notices), "listed jobs") // one ordinary job beside each notice
		for _, j := range p.Jobs {
			none(j.ID, "List")
		}
	}
	for _, by := range []store.GroupBy{store.ByNothing, store.ByConnection, store.ByClass, store.ByErrorKind} {
		c, err := f.s.Count(f.ctx, store.JobQuery{Project: project}, by)
		f.ok(err)
		for state, n := range c.States {
			want := int64(0)
			if state == job.Scheduled {
				want = int64(len(notices))
			}
			f.is(n.Count, want, "counted %s", state)
		}
	}
	p, err := f.s.Events(f.ctx, store.EventQuery{Project: project})
	f.ok(err)
	f.is(len(p.Events), len(notices), "events")
	for _, e := range p.Events {
		none(e.Job, "Events")
	}
	for _, n := range notices {
		for _, ref := range []store.Ref{{Project: project, ID: n.ID}, {Project: project, Key: n.Key}} {
			_, err := f.s.Job(f.ctx, ref)
			f.fails(err, store.ErrNotFound)
		}
		_, err := f.s.Attempts(f.ctx, store.Ref{Project: project, ID: n.ID}, 0, 0)
		f.fails(err, store.ErrNotFound)
		_, err = f.s.Observations(f.ctx, store.Ref{Project: project, ID: n.ID}, 0, 0)
		f.fails(err, store.ErrNotFound)
		_, err = f.s.Events(f.ctx, store.EventQuery{Project: project, Job: n.ID})
		f.fails(err, store.ErrNotFound)
		_, err = f.s.EraseJob(f.ctx, store.EraseParams{Project: project, Job: n.ID, Version: n.Version, Keep: keeping})
		f.fails(err, store.ErrNotFound)
	}
	names, err := f.s.JobNames(f.ctx, project, ids)
	f.ok(err)
	f.is(len(names), 0, "names of notices")
	// A reply to a notice is a reply to no job.
	out, err := f.s.Create(f.ctx, []store.NewJob{f.new(func(n *store.NewJob) { n.Spec.ReplyTo = ids[0] })})
	f.ok(err)
	f.fails(out[0].Err, store.ErrReplyTo)
	// No other job than a notice uses another project's connection.
	out, err = f.s.Create(f.ctx, []store.NewJob{f.new(func(n *store.NewJob) { n.Spec.Project = "default-notices" })})
	f.ok(err)
	f.fails(out[0].Err, store.ErrNotFound)
	st, err := f.s.Stats(f.ctx, store.StatsQuery{Project: project, Window: time.Hour})
	f.ok(err)
	for state, n := range st.Counts {
		if state != job.Scheduled {
			f.is(n, int64(0), "Stats: %s", state)
		}
	}
	f.is([]any{st.Started, st.Recovered, st.OldestUnresolved, st.OldestDue}, []any{int64(0), int64(0), time.Duration(0), time.Duration(0)}, "Stats")
	used, err := f.s.StoredJobs(f.ctx, project)
	f.ok(err)
	f.is(used.Jobs, int64(len(notices)), "stored jobs")
	f.is(f.rolled(), map[store.Measure]int64{store.CountScheduled: int64(len(notices))}, "Series")
	for _, row := range f.series(store.SeriesQuery{Connections: []job.ID{f.conn.ID}}) {
		f.is(row.Counts, map[store.Measure]int64{store.CountScheduled: int64(len(notices))}, "Series of the connection")
	}
	f.revise(f.connection(f.conn.ID), store.ConnectionChange{Pause: new("lunch")})
	f.clock.advance(time.Minute)
	missed, err := f.s.Missed(f.ctx, project, f.conn.ID, 0)
	f.ok(err)
	for _, j := range missed {
		none(j.ID, "Missed")
	}
}

func noticesInVitals(f *fixture) {
	for _, state := range noticedStates {
		f.noticed(state)
	}
	f.clock.advance(time.Minute)
	v, err := f.s.Vitals(f.ctx)
	f.ok(err)
	f.is([]any{v.Ambiguous, v.NeedsResolution, v.OldestUnknown}, []any{int64(0), int64(0), time.Duration(0)}, "what needs a person")
	doubtful, err := f.s.Doubtful(f.ctx, start.Add(-time.Hour), 0)
	f.ok(err)
	f.is(len(doubtful), 0, "doubtful jobs")
}

func noticesInUse(f *fixture) {
	n := f.noticed(job.Ambiguous)
	f.is(n.State, job.Ambiguous, "the notice's state")
	_, err := f.s.ChangeConnection(f.ctx, store.ConnectionChange{Project: project, ID: f.conn.ID, Version: f.connection(f.conn.ID).Version, Delete: true})
	f.fails(err, store.ErrInUse)
}

// passes reports whether notices pass a stop: one of their project, and of a label, which they have not.
func passes(s store.Stop) bool { return s.Scope == store.StopProject || s.Scope == store.StopLabel }

// noticesStopped: a stop of everything, or of what is in a project, covers notices that were claimed
// before it.
func noticesStopped(f *fixture) {
	l := f.leasedNotice()
	for _, s := range f.everyScope() {
		if passes(s) {
			continue
		}
		stop := f.stop(s)
		f.fails(f.armOne(f.intent(l)).Err, store.ErrStopped)
		f.endStop(stop)
	}
	another := f.stop(store.Stop{Scope: store.StopProject, Project: "another"})
	f.arm(l)
	f.endStop(another)
}

// noticesPass: a stop of their project holds no try of a notice back, although it has set the row of its
// jobs aside; any other stop does.
func noticesPass(f *fixture) {
	s := f.subscribe()
	waits := f.submit()
	stop := f.stop(store.Stop{Scope: store.StopProject, Project: project})
	f.is(len(f.claimN(store.MaxBatch)), 0, "claimed in the stop")
	s = f.step(s, f.telling(f.logEnd()))
	claimed := func(what string) store.Leased {
		f.Helper()
		l := f.claim()
		f.is(l.ID, s.OpenJob, "%s", what)
		f.is(l.Stopped == nil, true, "%s: stopped", what)
		return l
	}
	a := f.arm(claimed("a notice that was made in the stop"))
	f.applied(a.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient})
	f.clock.advance(time.Minute)
	for name, other := range f.everyScope() {
		if passes(other) {
			continue
		}
		beside := f.stop(other)
		f.is(len(f.claimN(store.MaxBatch)), 0, "%s beside it: claimed", name)
		f.endStop(beside)
	}
	f.clock.advance(store.StopNoticeLook)
	a = f.arm(claimed("a later try"))
	f.is(len(f.claimN(store.MaxBatch)), 0, "claimed beside it")
	f.applied(a.Snapshot, succeeded(a.Snapshot, "object"))
	f.endStop(stop)
	f.clock.advance(store.StopHeadStart)
	f.is(f.claim().ID, waits.ID, "claimed after the stop")
}

// noticesPassLater: a stop that ends by itself beside one of their project, which lasts longer, holds notices
// no longer than it lasts.
func noticesPassLater(f *fixture) {
	s := f.subscribe()
	f.submit()
	f.stop(store.Stop{Scope: store.StopProject, Project: project})
	f.stop(store.Stop{Scope: store.StopConnection, Project: project, Connection: f.conn.ID, End: f.clock.now().Add(time.Minute)})
	s = f.step(s, f.telling(f.logEnd()))
	f.is(len(f.claimN(store.MaxBatch)), 0, "claimed in both")
	f.clock.advance(time.Minute + store.StopHeadStart)
	f.is(f.claim().ID, s.OpenJob, "claimed after the other")
}

// noticesNotStarted: a job that is made in a stop of its project is not started, and no notice in its place.
func noticesNotStarted(f *fixture) {
	s := f.subscribe()
	f.submit()
	sent := f.arm(f.claim())
	f.applied(sent.Snapshot, succeeded(sent.Snapshot, "object"))
	f.stop(store.Stop{Scope: store.StopProject, Project: project})
	s = f.step(s, f.telling(f.logEnd()))
	f.notStarted(f.started(at(f.clock.now().Add(-time.Second))), "made in the stop")
	f.is(f.claim().ID, s.OpenJob, "claimed after it")
}

// noticesShare: claims that have less room than there are notices take of each row in turn, and wait for
// nothing between them.
func noticesShare(f *fixture) {
	const each = 4
	notices := make(map[job.ID]bool)
	other := f.connect(store.Connection{Key: "other"})
	f.submit()
	f.stop(store.Stop{Scope: store.StopProject, Project: project})
	for range each {
		for _, conn := range []job.ID{f.conn.ID, other.ID} {
			s := f.subscribe(func(s *store.Subscription) { s.Connection = conn })
			notices[f.step(s, f.telling(max(s.Position, f.logEnd()))).OpenJob] = true
		}
	}
	free := f.submit(on(f.connect(store.Connection{Project: "other"})), func(n *store.NewJob) { n.Spec.Project = "other" })
	of := make(map[job.ID]int)
	for range each {
		for _, l := range f.claimN(3) {
			f.is(notices[l.ID] || l.ID == free.ID, true, "claimed what passes")
			of[l.Job.Connection]++
		}
	}
	f.is([]int{of[f.conn.ID], of[other.ID], of[free.Connection]}, []int{each, each, 1}, "claimed of each connection")
}

// noticesBounded: notices that pass a stop keep the bounds and the pause of their connection, and take the room
// of a worker. What a claim leaves waits for nothing else.
func noticesBounded(f *fixture) {
	conn := f.connect(store.Connection{MaxInFlight: 2})
	f.submit(on(conn))
	f.stop(store.Stop{Scope: store.StopProject, Project: project})
	for range 4 {
		s := f.subscribe(func(s *store.Subscription) { s.Connection = conn.ID })
		f.step(s, f.telling(max(s.Position, f.logEnd())))
	}
	conn = f.revise(conn, store.ConnectionChange{Pause: ptr("holiday")})
	f.is(len(f.claimN(10)), 0, "claimed of a paused connection")
	f.revise(conn, store.ConnectionChange{Resume: true})
	claim := func(room store.Room) []store.Leased {
		out, err := f.s.Claim(f.ctx, store.ClaimParams{Worker: "worker", Lease: lease, Limit: 10, Room: &room})
		f.ok(err)
		return out
	}
	one := claim(store.Room{Connection: 1, Project: 10})
	f.is(len(one), 1, "claimed with room for one")
	f.is(len(claim(store.Room{Connection: 1, Project: 10, Connections: map[job.ID]int{conn.ID: 0}})), 0, "claimed without room")
	f.is(len(f.claimN(10)), 1, "claimed up to the bound")
	f.is(len(f.claimN(10)), 0, "claimed at the bound")
	sent := f.arm(one[0]).Snapshot
	f.applied(sent, succeeded(sent, "object"))
	f.is(len(f.claimN(10)), 1, "claimed after a result")
}
