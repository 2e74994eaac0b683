package storetest

import (
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var eraseTests = []test{
	{"a job goes, and what stays names nobody", eraseJob},
	{"what stays of each end", eraseEnds},
	{"the words of events go, their places stay", eraseEvents},
	{"the key stays bound, from the erasure on", eraseKey},
	{"an object stays taken, without its address", eraseObject},
	{"not before an hour after the end", eraseTooEarly},
	{"not while another job replies to it", eraseReplied},
	{"a version, and a state", eraseStale},
	{"not under a quarantine", eraseQuarantined},
	{"retention leaves nothing", eraseNotRetained},
	{"a project", eraseProject},
	{"a project in short steps", eraseProjectSteps},
	{"a project with jobs that must stay", eraseProjectRest},
	{"a project with replies that ended first", eraseProjectReplies},
	{"a project that somebody works in", eraseProjectLive},
	{"what an erasure of a project refuses", eraseProjectRefuses},
}

// erase erases a job, which must work.
func (f *fixture) erase(id job.ID) store.ErasedJob {
	f.Helper()
	got, err := f.tryErase(id)
	f.ok(err)
	f.gone(id)
	read, err := f.s.ErasedJob(f.ctx, project, id)
	f.ok(err)
	f.is(read, got, "erased job, read back")
	return got
}

func (f *fixture) tryErase(id job.ID) (store.ErasedJob, error) {
	f.Helper()
	return f.s.EraseJob(f.ctx, store.EraseParams{
		Project: project, Job: id, Version: f.job(id).Version, Keep: keeping, Actor: "api:key",
	})
}

func eraseJob(f *fixture) {
	s := f.ended(job.Succeeded)
	other := f.ended(job.Failed)
	f.clock.advance(store.LeastKept)
	f.fails(second(f.s.ErasedJob(f.ctx, project, s.ID)), store.ErrNotFound)
	f.is(f.erase(s.ID), store.ErasedJob{
		ID: s.ID, Project: project, KeyDigest: job.KeyDigest(project, s.Key), State: job.Succeeded, Class: s.Class, Attempts: 1,
		Proof: job.ProofOperator, EffectAt: s.Effect.At, ObjectDigest: store.ObjectDigest(s.ID, s.Effect.ExternalID),
		ScheduleTime: s.ScheduleTime, Created: s.Created, Ended: s.Ended, Erased: start.Add(store.LeastKept), Actor: "api:key",
	}, "erased job")
	f.fails(second(f.s.ErasedJob(f.ctx, "other", s.ID)), store.ErrNotFound)
	f.fails(second(f.s.EraseJob(f.ctx, store.EraseParams{Project: project, Job: s.ID, Version: s.Version})), store.ErrNotFound)
	f.unchanged(other)
	f.is(f.list(), []job.ID{other.ID}, "jobs that are listed")
	f.stores(project, 1, int64(len(other.Payload)))
}

func eraseEnds(f *fixture) {
	for _, state := range []job.State{job.Failed, job.Canceled} {
		s := f.ended(state)
		f.clock.advance(store.LeastKept)
		e := f.erase(s.ID)
		f.is([]any{e.State, e.Proof, e.EffectAt, len(e.ObjectDigest)}, []any{state, job.Proof(0), time.Time{}, 0}, "what stays")
	}
	s := f.sending().Snapshot // whose effect has no name
	s = f.apply(s, succeeded(s, "")).Snapshot
	f.clock.advance(store.LeastKept)
	e := f.erase(s.ID)
	f.is([]any{e.Proof, e.EffectAt, len(e.ObjectDigest)}, []any{job.ProofResponse, s.Ended, 0}, "what stays")
}

func eraseEvents(f *fixture) {
	s, other := f.ended(job.Canceled), f.ended(job.Canceled)
	before, err := f.s.Events(f.ctx, store.EventQuery{Project: project})
	f.ok(err)
	worded := 0
	for i := range before.Events {
		e := &before.Events[i]
		if e.Job != s.ID {
			continue
		}
		if e.Reason+e.Detail != "" {
			worded++
		}
		e.Reason, e.Detail = "", ""
	}
	f.is(worded > 1, true, "events with words")
	f.clock.advance(store.LeastKept)
	f.erase(s.ID)
	after, err := f.s.Events(f.ctx, store.EventQuery{Project: project})
	f.ok(err)
	f.is(after, before, "the log, without words")
	half := before.Events[2].Position
	rest, err := f.s.Events(f.ctx, store.EventQuery{Project: project, After: half})
	f.ok(err)
	f.is(rest.Events, before.Events[3:], "the log from an old cursor on")
	// They are removed when the log drops them, as those of any removed job.
	f.clock.advance(20 * day)
	f.submit()
	f.roll()
	f.is(f.retain(store.Keep{Events: 10 * day}).Events, int(s.Version+other.Version), "events dropped with the log")
	f.is(int64(len(f.events(other.ID))), other.Version, "events of the job that is there")
}

func eraseKey(f *fixture) {
	n := f.new()
	s := f.create(n)[0].Snapshot
	s = f.apply(s, job.CancelAsked{}).Snapshot
	// Retention, with these times, would forget the key together with the job.
	f.clock.advance(40 * day)
	f.erase(s.ID)
	f.is(f.bound(n), true, "bound after the erasure")
	out, err := f.s.Create(f.ctx, []store.NewJob{n})
	f.ok(err)
	var removed *store.RemovedError
	f.is(errors.As(out[0].Err, &removed) && removed.Job == s.ID, true, "a repeat names the erased job: %v", out[0].Err)
	f.clock.advance(30*day - time.Microsecond)
	f.is(f.retain(keeping).Keys, 0, "keys forgotten before their time")
	f.clock.advance(time.Microsecond)
	f.is(f.retain(keeping).Keys, 1, "keys forgotten")
	f.is(f.bound(n), false, "bound after its time")
}

func eraseObject(f *fixture) {
	conn := f.connect(store.Connection{Class: job.Observable, AccountIdentity: "me"})
	long := func(n *store.NewJob) { n.Spec.StartWindow = 1000 * day }
	a, b := f.sending(on(conn), long).Snapshot, f.sending(on(conn), long).Snapshot
	b = f.apply(b, answer(b, job.ResultUnknown)).Snapshot
	f.apply(a, succeeded(a, "x"))
	f.clock.advance(store.LeastKept)
	f.erase(a.ID)
	f.is(f.owners(b, "x"), map[string]job.ID{"x": a.ID}, "owner of the object")
	f.is(f.apply(b, saw("x")).Snapshot.State, job.NeedsResolution, "the other job, which saw it")
}

// kept makes sure that a job cannot be erased yet, and returns why.
func (f *fixture) kept(s job.Snapshot) store.KeptError {
	f.Helper()
	_, err := f.tryErase(s.ID)
	f.fails(err, store.ErrKept)
	var kept *store.KeptError
	f.is(errors.As(err, &kept), true, "says why: %v", err)
	f.unchanged(s)
	f.fails(second(f.s.ErasedJob(f.ctx, project, s.ID)), store.ErrNotFound)
	return *kept
}

func eraseTooEarly(f *fixture) {
	s := f.ended(job.Failed)
	f.clock.advance(store.LeastKept - time.Microsecond)
	f.is(f.kept(s), store.KeptError{Left: time.Microsecond, Until: s.Ended.Add(store.LeastKept)}, "why it is kept")
	f.clock.advance(time.Microsecond)
	f.erase(s.ID)
}

func eraseReplied(f *fixture) {
	a := f.ended(job.Succeeded)
	b := f.submit(replying(a.ID), at(start.Add(day)))
	f.clock.advance(store.LeastKept)
	f.is(f.kept(a), store.KeptError{Reply: b.ID}, "why it is kept")
	f.apply(b, job.CancelAsked{})
	f.is(f.kept(a), store.KeptError{Reply: b.ID}, "why it is kept, beside a reply that has ended")
	f.clock.advance(store.LeastKept)
	f.erase(b.ID)
	f.erase(a.ID)
}

func eraseStale(f *fixture) {
	s, open := f.ended(job.Failed), f.submit()
	f.clock.advance(store.LeastKept)
	erase := func(project string, id job.ID, version int64) error {
		return second(f.s.EraseJob(f.ctx, store.EraseParams{Project: project, Job: id, Version: version}))
	}
	f.fails(erase(project, s.ID, s.Version-1), store.ErrStale)
	f.fails(erase("other", s.ID, s.Version), store.ErrNotFound)
	f.fails(erase(project, f.id(), 1), store.ErrNotFound)
	f.fails(erase(project, open.ID, open.Version), store.ErrIllegal)
	f.unchanged(s)
	f.unchanged(open)
}

func eraseQuarantined(f *fixture) {
	s := f.ended(job.Failed)
	f.clock.advance(store.LeastKept)
	f.ok(f.s.Quarantine(f.ctx, "why"))
	f.fails(second(f.tryErase(s.ID)), store.ErrQuarantined)
	f.fails(second(f.s.EraseProject(f.ctx, store.EraseProjectParams{Project: project})), store.ErrQuarantined)
	f.unchanged(s)
	f.ok(f.s.Release(f.ctx))
	f.erase(s.ID)
}

func eraseNotRetained(f *fixture) {
	s := f.ended(job.Failed)
	f.clock.advance(20 * day)
	f.is(f.retain(keeping).Jobs, 1, "jobs removed")
	f.fails(second(f.s.ErasedJob(f.ctx, project, s.ID)), store.ErrNotFound)
}

// eraseAll does one whole pass over a project, and deletes its connections.
func (f *fixture) eraseAll(project string, limit int) (sum store.ProjectErasure) {
	f.Helper()
	p := store.EraseProjectParams{Project: project, Keep: keeping, Actor: "api:key", Limit: limit}
	for range 1000 {
		r, err := f.s.EraseProject(f.ctx, p)
		f.ok(err)
		sum.Jobs, sum.Events, sum.Connections = sum.Jobs+r.Jobs, sum.Events+r.Events, sum.Connections+r.Connections
		sum.APIKeys, sum.Logins, sum.Rest = sum.APIKeys+r.APIKeys, sum.Logins+r.Logins, r.Rest
		sum.Schedules, sum.Firings = sum.Schedules+r.Schedules, sum.Firings+r.Firings
		for _, id := range r.Live {
			f.revise(f.connection(id), store.ConnectionChange{Delete: true})
		}
		if p.After = r.Next; r.Done {
			return sum
		}
	}
	f.Fatal("the pass does not end")
	return sum
}

// owned fills a project, and returns its connections.
func (f *fixture) owned(project string, jobs int) []store.Connection {
	f.Helper()
	k := f.apiKey(project)
	var conns []store.Connection
	for range 2 {
		conn, _, err := f.s.CreateConnection(f.ctx, store.NewConnection{
			Connection: store.Connection{
				ID: f.id(), Project: project, Connector: "fake", Class: job.Keyed, AccountIdentity: "ann",
				Labels: map[string]string{"team": "red"},
			},
			Key: "connection-" + f.id().String(), Sealed: &store.Sealed{Version: 1, KeyID: "k", Data: []byte("sealed"), Fingerprint: "abcd"},
		})
		f.ok(err)
		conns = append(conns, conn)
	}
	for i := range jobs {
		n := f.new(on(conns[i%len(conns)]))
		n.Spec.Project = project
		f.apply(f.create(n)[0].Snapshot, job.CancelAsked{})
	}
	f.login(func(l *store.Login) { l.Project = project })
	_, err := f.s.RevokeAPIKey(f.ctx, k.ID)
	f.ok(err)
	return conns
}

// apiKey makes a live key of a project.
func (f *fixture) apiKey(project string) store.APIKey {
	f.Helper()
	id := f.id()
	hash := make([]byte, 32)
	copy(hash, id[:])
	k, err := f.s.CreateAPIKey(f.ctx, store.NewAPIKey{ID: id.String(), Project: project, NewProject: true, Name: id.String(), Hash: hash})
	f.ok(err)
	return k
}

func eraseProject(f *fixture) {
	here := f.ended(job.Failed)
	conns := f.owned("other", 3)
	stops := []store.Stop{
		f.stop(store.Stop{Scope: store.StopConnector, Connector: "fake", Project: "other", Note: "a name"}),
		f.stop(store.Stop{Scope: store.StopLabel, Label: "a", Value: "b", Project: project}),
	}
	f.clock.advance(store.LeastKept)
	f.is(f.eraseAll("other", 50), store.ProjectErasure{
		Jobs: 3, Events: 6, Connections: 2, APIKeys: 1, Logins: 1,
	}, "erased")
	for _, c := range conns {
		f.fails(second(f.s.Connection(f.ctx, store.Ref{ID: c.ID})), store.ErrNotFound)
	}
	projects, err := f.s.Projects(f.ctx, "oth", 0)
	f.ok(err)
	f.is(len(projects) == 1 && projects[0].Erased.Equal(f.clock.now()) && projects[0].ErasedBy != "", true, "the project: %v", projects)
	keys, err := f.s.ListAPIKeys(f.ctx, "other", "", 0)
	f.ok(err)
	f.is(len(keys), 0, "API keys")
	kept, err := f.s.ListStops(f.ctx, store.StopQuery{Ended: true})
	f.ok(err)
	f.is(kept.Stops, stops[1:], "stops")
	f.is(f.meta().Stops, int64(1), "open stops")
	h, err := f.s.Holdings(f.ctx, "other")
	f.ok(err)
	f.is(h, store.Holdings{}, "holdings")
	f.stores("other", 0, 0)
	log, err := f.s.Events(f.ctx, store.EventQuery{Project: "other"})
	f.ok(err)
	f.is(len(log.Events), 6, "events")
	for _, e := range log.Events {
		f.is(e.Actor+e.Reason+e.Detail, "", "words of an event")
	}
	left, err := f.s.ErasedJob(f.ctx, "other", log.Events[0].Job)
	f.ok(err)
	f.is([]any{left.State, left.Actor}, []any{job.Canceled, "api:key"}, "what stays of a job")
	f.is(f.eraseAll("other", 50), store.ProjectErasure{}, "erased twice")
	f.unchanged(here)
	f.is(f.last(here.ID).Actor, "tester", "actor in an event of another project")
	f.connection(f.conn.ID)
}

// eraseProjectSteps: each step is bounded, the keys stay bound, and nothing is left.
func eraseProjectSteps(f *fixture) {
	f.owned("other", 23)
	p, err := f.s.List(f.ctx, store.JobQuery{Project: "other"})
	f.ok(err)
	f.clock.advance(store.LeastKept)
	got := f.eraseAll("other", 3)
	f.is([]int{got.Jobs, got.Connections, got.Events}, []int{23, 2, 46}, "erased")
	for _, s := range p.Jobs {
		var removed *store.RemovedError
		err := second(f.s.Job(f.ctx, store.Ref{Project: "other", Key: s.Key}))
		f.is(errors.As(err, &removed), true, "the key is bound: %v", err)
	}
}

func eraseProjectRest(f *fixture) {
	old := f.ended(job.Failed)
	f.clock.advance(store.LeastKept)
	a, b := f.ended(job.Failed), f.ended(job.Succeeded)
	reply := f.submit(replying(b.ID), at(f.clock.now().Add(100*day)))
	f.clock.advance(time.Minute)
	f.is(f.eraseAll(project, 50), store.ProjectErasure{
		Jobs: 1, Rest: store.ProjectRest{Open: 1, Kept: 2, Wait: store.LeastKept - time.Minute},
	}, "erased")
	f.gone(old.ID)
	f.unchanged(a)
	f.clock.advance(store.LeastKept - time.Minute)
	f.is(f.eraseAll(project, 50), store.ProjectErasure{Jobs: 1, Rest: store.ProjectRest{Open: 1, Kept: 1}}, "erased")
	f.is(f.connection(f.conn.ID).Deleted.IsZero(), true, "the connection is there")
	f.is(f.last(b.ID).Actor != "", true, "an event that keeps its actor")
	f.apply(reply, job.CancelAsked{})
	f.clock.advance(store.LeastKept)
	got := f.eraseAll(project, 50)
	f.is([]any{got.Jobs, got.Connections, got.Rest}, []any{2, 1, store.ProjectRest{}}, "erased")
	// The project goes on.
	c := f.connect(store.Connection{})
	f.submit(on(c))
}

// eraseProjectReplies: one pass removes a reply and then what it replied to, once each.
func eraseProjectReplies(f *fixture) {
	for range 3 {
		a := f.submit()
		b := f.submit(replying(a.ID))
		for _, s := range []job.Snapshot{f.submit(replying(b.ID)), b, a} {
			f.apply(f.job(s.ID), job.CancelAsked{})
			f.clock.advance(time.Second)
		}
	}
	f.clock.advance(store.LeastKept)
	got := f.eraseAll(project, 50)
	f.is([]any{got.Jobs, got.Rest}, []any{9, store.ProjectRest{}}, "erased")
}

func eraseProjectLive(f *fixture) {
	s := f.ended(job.Failed)
	k := f.apiKey(project)
	f.clock.advance(store.LeastKept)
	erase := func() error {
		return second(f.s.EraseProject(f.ctx, store.EraseProjectParams{Project: project, Keep: keeping, Limit: 10}))
	}
	f.fails(erase(), store.ErrProjectLive)
	f.unchanged(s)
	_, err := f.s.RevokeAPIKey(f.ctx, k.ID)
	f.ok(err)
	f.eraseAll(project, 10)
	f.gone(s.ID)
}

func eraseProjectRefuses(f *fixture) {
	f.fails(second(f.s.EraseProject(f.ctx, store.EraseProjectParams{Project: "nowhere"})), store.ErrNotFound)
	after := []string{"elsewhere"}
	for _, place := range []store.ErasePlace{
		{Project: project, Phase: -1}, {Project: project, Phase: store.EraseDone}, {Project: project, Phase: 2, Position: -1},
		{Project: "other", Phase: 1}, {Phase: 1},
	} {
		after = append(after, place.String())
	}
	for _, text := range after {
		f.fails(second(f.s.EraseProject(f.ctx, store.EraseProjectParams{Project: project, After: text})), store.ErrIllegal)
	}
}
