package storetest

import (
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var retentionTests = []test{
	{"ended jobs go, living ones stay", retainJobs},
	{"what is kept for ever", retainForEver},
	{"the time counts from the end", retainFromEnd},
	{"keys outlive their jobs", retainKeys},
	{"keys that are kept for ever", retainKeysForEver},
	{"keys outlive their jobs by the key window", retainKeyWindow},
	{"keys that targets never forget", retainEndlessKeys},
	{"the log's beginning", retainLog},
	{"events that are not counted", retainUncounted},
	{"events of removed jobs", retainEvents},
	{"the newest event stays", retainNewest},
	{"threads", retainThreads},
	{"objects that looks may meet", retainObjects},
	{"an answer takes an object of a removed job over", retainTakeOver},
	{"objects that no look meets", retainNoObjects},
	{"many, in short steps", retainMany},
	{"not under a quarantine", retainQuarantined},
	{"what it refuses", retainRefuses},
}

const day = 24 * time.Hour

// keeping is the default of the tests.
var keeping = store.Keep{Jobs: 10 * day, Events: 10 * day, Keys: 30 * day}

// retain does one whole pass.
func (f *fixture) retain(k store.Keep) store.Retained {
	f.Helper()
	var sum store.Retained
	p := store.RetainParams{Keep: k, Owner: job.ID{1}, Lease: time.Minute, Limit: 50}
	for range 10_000 {
		r, err := f.s.Retain(f.ctx, p)
		f.ok(err)
		f.is(r.Busy, false, "busy")
		sum.Jobs, sum.Events = sum.Jobs+r.Jobs, sum.Events+r.Events
		sum.Keys, sum.Objects = sum.Keys+r.Keys, sum.Objects+r.Objects
		if p.After = r.Next; r.Done {
			return sum
		}
	}
	f.Fatal("the pass does not end")
	return sum
}

// gone checks that no call returns a job any more.
func (f *fixture) gone(id job.ID) {
	f.Helper()
	f.fails(second(f.s.Job(f.ctx, store.Ref{ID: id})), store.ErrNotFound)
	f.fails(second(f.s.Attempts(f.ctx, store.Ref{ID: id}, 0, 0)), store.ErrNotFound)
	f.fails(second(f.s.Observations(f.ctx, store.Ref{ID: id}, 0, 0)), store.ErrNotFound)
	f.fails(second(f.s.Events(f.ctx, store.EventQuery{Job: id})), store.ErrNotFound)
}

func second[T any](_ T, err error) error { return err }

// ended returns a job in a terminal state, with all the history that one can have.
func (f *fixture) ended(state job.State, edit ...func(*store.NewJob)) job.Snapshot {
	f.Helper()
	s := f.sending(edit...).Snapshot
	switch state {
	case job.Succeeded:
		s = f.apply(s, answer(s, job.ResultUnknown)).Snapshot
		return f.apply(s, job.Resolved{Ruling: job.RuleSent, Actor: "ann", ExternalID: s.ID.String(), Override: true}).Snapshot
	case job.Failed:
		return f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent}).Snapshot
	default:
		s = f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient}).Snapshot
		return f.apply(s, job.CancelAsked{}).Snapshot
	}
}

func (f *fixture) list() []job.ID {
	f.Helper()
	p, err := f.s.List(f.ctx, store.JobQuery{Project: project, Order: store.ByScheduledAsc})
	f.ok(err)
	return ids(p.Jobs)
}

func retainJobs(f *fixture) {
	var old []job.ID
	for _, state := range []job.State{job.Succeeded, job.Failed, job.Canceled} {
		s := f.ended(state)
		f.is(s.State, state, "state")
		old = append(old, s.ID)
	}
	short := f.submit(func(n *store.NewJob) { n.Spec.StartWindow = time.Minute })
	f.clock.advance(2 * time.Minute)
	old = append(old, f.apply(f.job(short.ID), job.WindowOver{}).Snapshot.ID)
	long := func(n *store.NewJob) { n.Spec.StartWindow = 100 * day }
	retried := f.ended(job.Failed, long)
	sending := f.sending(long).Snapshot
	unknown := f.sending(long).Snapshot
	unknown = f.apply(unknown, answer(unknown, job.ResultUnknown)).Snapshot
	waits := f.submit(long, at(start.Add(90*day)))
	retried = f.apply(retried, job.RetryAsked{}).Snapshot
	f.clock.advance(10*day - 3*time.Minute)
	f.is(f.retain(keeping).Jobs, 0, "jobs removed before their time")
	f.clock.advance(4 * time.Minute)
	f.is(f.retain(keeping).Jobs, len(old), "jobs removed")
	for _, id := range old {
		f.gone(id)
	}
	for _, s := range []job.Snapshot{retried, sending, unknown, waits} {
		f.unchanged(s)
	}
	f.is(len(f.list()), 4, "jobs that are listed")
	st, err := f.s.Stats(f.ctx, store.StatsQuery{Project: project, Window: 1000 * day})
	f.ok(err)
	f.is([]int64{st.Counts[job.Succeeded], st.Counts[job.Sending], st.Started}, []int64{0, 1, 6}, "counts")
	for _, id := range old {
		out, err := f.s.Apply(f.ctx, []store.Change{{
			Job: id, Version: 1, Decision: job.Decision{Action: job.ActWrite, To: job.Succeeded},
		}})
		f.ok(err)
		f.fails(out[0].Err, store.ErrNotFound)
	}
	f.is(f.retain(keeping).Jobs, 0, "jobs removed twice")
}

func retainForEver(f *fixture) {
	s := f.ended(job.Succeeded)
	f.clock.advance(10_000 * day)
	f.is(f.retain(store.Keep{}), store.Retained{}, "removed")
	f.unchanged(s)
	p, err := f.s.Events(f.ctx, store.EventQuery{Project: project})
	f.ok(err)
	f.is([]int64{int64(len(p.Events)), p.Begin}, []int64{s.Version, 0}, "events, and the log's beginning")
}

// retainFromEnd: a job that was made long ago and has just ended stays.
func retainFromEnd(f *fixture) {
	s := f.submit(func(n *store.NewJob) { n.Spec.StartWindow = 100 * day })
	f.clock.advance(20 * day)
	s = f.apply(f.job(s.ID), job.CancelAsked{}).Snapshot
	f.retain(keeping)
	f.unchanged(s)
	f.clock.advance(10 * day)
	f.retain(keeping)
	f.gone(s.ID)
}

func retainKeys(f *fixture) {
	n := f.new()
	s := f.create(n)[0].Snapshot
	f.apply(s, job.CancelAsked{})
	again := func() store.Created {
		f.Helper()
		n.Spec.ID = f.id()
		out, err := f.s.Create(f.ctx, []store.NewJob{n, f.new()})
		f.ok(err)
		f.ok(out[1].Err)
		return out[0]
	}
	f.clock.advance(10 * day)
	f.is(f.retain(keeping).Jobs, 1, "jobs removed")
	removed := func(err error) {
		f.Helper()
		f.fails(err, store.ErrNotFound)
		var r *store.RemovedError
		f.is(errors.As(err, &r) && r.Job == s.ID, true, "names the removed job: %v", err)
	}
	removed(again().Err)
	removed(second(f.s.Job(f.ctx, store.Ref{Project: project, Key: n.Spec.Key})))
	f.fails(second(f.s.Job(f.ctx, store.Ref{Project: "other", Key: n.Spec.Key})), store.ErrNotFound)
	f.clock.advance(20*day - time.Microsecond)
	f.retain(keeping)
	removed(again().Err)
	f.clock.advance(time.Microsecond)
	f.is(f.retain(keeping).Keys, 1, "keys forgotten")
	var r *store.RemovedError
	err := second(f.s.Job(f.ctx, store.Ref{Project: project, Key: n.Spec.Key}))
	f.fails(err, store.ErrNotFound)
	f.is(errors.As(err, &r), false, "a free key: %v", err)
	got := again()
	f.ok(got.Err)
	f.is([]any{got.Created, got.Snapshot.ID}, []any{true, n.Spec.ID}, "a new job under the free key")
	// It is removed with its job, if its time is over by then.
	f.apply(got.Snapshot, job.CancelAsked{})
	f.clock.advance(40 * day)
	f.retain(store.Keep{Jobs: 35 * day, Keys: 30 * day})
	f.is(again().Created, true, "created again")
}

func retainKeysForEver(f *fixture) {
	n := f.new()
	f.apply(f.create(n)[0].Snapshot, job.CancelAsked{})
	f.clock.advance(10_000 * day)
	f.retain(store.Keep{Jobs: day})
	f.clock.advance(10_000 * day)
	f.retain(store.Keep{Jobs: day})
	out, err := f.s.Create(f.ctx, []store.NewJob{n})
	f.ok(err)
	var r *store.RemovedError
	f.is(errors.As(out[0].Err, &r), true, "the key is bound: %v", out[0].Err)
}

// removedAt is a job that ended and was removed after ten days, at a connection.
func (f *fixture) removedAt(c store.Connection) store.NewJob {
	f.Helper()
	n := f.new(func(n *store.NewJob) { n.Spec.Connection = c.ID })
	f.apply(f.create(n)[0].Snapshot, job.CancelAsked{})
	f.clock.advance(10 * day)
	f.is(f.retain(keeping).Jobs, 1, "jobs removed")
	return n
}

// bound reports whether a removed job's key is still bound.
func (f *fixture) bound(n store.NewJob) bool {
	f.Helper()
	var r *store.RemovedError
	err := second(f.s.Job(f.ctx, store.Ref{Project: project, Key: n.Spec.Key}))
	f.fails(err, store.ErrNotFound)
	return errors.As(err, &r) && r.Job == n.Spec.ID
}

func retainKeyWindow(f *fixture) {
	n := f.removedAt(f.connect(store.Connection{Class: job.Keyed, KeyWindow: 40 * day}))
	f.clock.advance(30*day - time.Microsecond)
	f.is(f.retain(keeping).Keys, 0, "keys forgotten inside the key window")
	f.is(f.bound(n), true, "bound inside the key window")
	f.clock.advance(time.Microsecond)
	f.is(f.retain(keeping).Keys, 1, "keys forgotten")
	f.is(f.bound(n), false, "bound after the key window")
}

func retainEndlessKeys(f *fixture) {
	conn := f.connect(store.Connection{Class: job.Keyed, KeyWindow: day, Connector: "endless"})
	k := keeping
	k.EndlessKeys = []string{"another", conn.Connector}
	n := f.new(func(n *store.NewJob) { n.Spec.Connection = conn.ID })
	f.apply(f.create(n)[0].Snapshot, job.CancelAsked{})
	f.clock.advance(10_000 * day)
	f.is(f.retain(k).Jobs, 1, "jobs removed")
	f.clock.advance(10_000 * day)
	f.is(f.retain(k).Keys, 0, "keys forgotten")
	f.is(f.bound(n), true, "bound for ever")
}

func retainLog(f *fixture) {
	a := f.submit(func(n *store.NewJob) { n.Spec.StartWindow = 100 * day })
	f.clock.advance(5 * day)
	b := f.submit(func(n *store.NewJob) { n.Spec.StartWindow = 100 * day })
	c := f.submit(func(n *store.NewJob) { n.Spec.StartWindow = 100 * day })
	all, err := f.s.Events(f.ctx, store.EventQuery{Project: project})
	f.ok(err)
	f.is(len(all.Events), 3, "events")
	f.is(f.roll(), 3, "events counted")
	f.clock.advance(5 * day)
	f.retain(keeping)
	p, err := f.s.Events(f.ctx, store.EventQuery{Project: project})
	f.ok(err)
	f.is([]any{p.Begin, len(p.Events)}, []any{int64(0), 3}, "the log before its time")
	f.clock.advance(store.EventSlack)
	f.retain(keeping)
	f.fails(second(f.s.Events(f.ctx, store.EventQuery{Project: project})), store.ErrCursorExpired)
	first := all.Events[0].Position
	f.fails(second(f.s.Events(f.ctx, store.EventQuery{Project: project, After: first - 1})), store.ErrCursorExpired)
	p, err = f.s.Events(f.ctx, store.EventQuery{Project: project, After: first})
	f.ok(err)
	f.is(p.Begin, first, "the log's beginning")
	f.is([]job.ID{p.Events[0].Job, p.Events[1].Job}, []job.ID{b.ID, c.ID}, "events that are left")
	// A job's own history is whole for as long as the job is there.
	f.is(len(f.events(a.ID)), 1, "events of the first job")
	f.clock.advance(10 * day)
	f.retain(keeping)
	a = f.apply(f.job(a.ID), job.CancelAsked{}).Snapshot
	got := f.events(a.ID)
	f.is([]int64{got[0].Sequence, got[1].Sequence}, []int64{1, 2}, "sequences of the first job")
	p, err = f.s.Events(f.ctx, store.EventQuery{Project: project, After: all.End})
	f.ok(err)
	f.is([]any{len(p.Events), p.Events[0].Job}, []any{1, a.ID}, "events after it")
}

// retainUncounted: the log keeps what is not counted yet, but not forever.
func retainUncounted(f *fixture) {
	one := func() job.Snapshot { return f.submit(func(n *store.NewJob) { n.Spec.StartWindow = 100 * day }) }
	whole := func() error {
		return second(f.s.Events(f.ctx, store.EventQuery{Project: project}))
	}
	one()
	one()
	f.clock.advance(keeping.Events + store.EventSlack + store.UncountedKeep - time.Microsecond)
	f.retain(keeping)
	f.ok(whole())
	f.is(f.roll(), 2, "events counted")
	f.retain(keeping)
	f.fails(whole(), store.ErrCursorExpired)

	last := one()
	f.clock.advance(keeping.Events + store.EventSlack)
	newest := f.last(one().ID).Position
	begin := func() int64 {
		f.retain(keeping)
		p, err := f.s.Events(f.ctx, store.EventQuery{Project: project, After: newest})
		f.ok(err)
		return p.Begin
	}
	f.is(begin() < f.last(last.ID).Position, true, "the log begins before what is not counted")
	f.clock.advance(store.UncountedKeep)
	f.is(begin(), f.last(last.ID).Position, "the log's beginning where the counter fails")
}

// retainEvents: events outlive their job in the log, or the log's beginning, as long as
// either needs them, and no longer.
func retainEvents(f *fixture) {
	s := f.ended(job.Failed)
	other := f.submit(func(n *store.NewJob) { n.Spec.StartWindow = 1000 * day })
	f.clock.advance(20 * day)
	r := f.retain(store.Keep{Jobs: 10 * day, Events: 30 * day})
	f.is([]int{r.Jobs, r.Events}, []int{1, 0}, "jobs and events removed")
	p, err := f.s.Events(f.ctx, store.EventQuery{Project: project})
	f.ok(err)
	f.is(int64(len(p.Events)), s.Version+1, "events in the log")
	f.clock.advance(20 * day)
	f.apply(other, job.CancelAsked{})
	f.roll()
	f.is(int64(f.retain(store.Keep{Events: 30 * day}).Events), s.Version+1, "events dropped with the log")
	f.is(len(f.events(other.ID)), 2, "events of the job that is there")
	f.clock.advance(20 * day)
	f.submit()
	r = f.retain(store.Keep{Jobs: 10 * day, Events: 10 * day})
	f.is([]int{r.Jobs, r.Events}, []int{1, 1}, "jobs and events removed together")
}

func retainNewest(f *fixture) {
	s := f.ended(job.Failed)
	f.clock.advance(20 * day)
	for range 2 {
		f.retain(keeping)
	}
	f.gone(s.ID)
	p, err := f.s.Events(f.ctx, store.EventQuery{Project: project, After: 1 << 62})
	f.ok(err)
	p, err = f.s.Events(f.ctx, store.EventQuery{Project: project, After: p.Begin})
	f.ok(err)
	f.is(len(p.Events), 1, "events")
	f.is([]any{p.Events[0].Job, p.Events[0].Position}, []any{s.ID, p.End}, "the newest event")
	n := f.submit()
	next, err := f.s.Events(f.ctx, store.EventQuery{Project: project, After: p.End})
	f.ok(err)
	f.is(next.Events[0].Job, n.ID, "job of the next event")
}

// retainThreads: a job stays for those that reply to it, which need its effect.
func retainThreads(f *fixture) {
	long := func(n *store.NewJob) { n.Spec.StartWindow = 1000 * day }
	a := f.ended(job.Succeeded)
	b := f.submit(replying(a.ID), long, at(start.Add(50*day)))
	f.clock.advance(20 * day)
	f.is(f.retain(keeping).Jobs, 0, "jobs removed")
	f.unchanged(a)
	f.clock.advance(40 * day)
	l := f.claimed(b.ID)[0]
	f.is(l.ReplyTo, a.ID.String(), "effect to reply to")
	b = f.arm(l).Snapshot
	b = f.apply(b, succeeded(b, "y")).Snapshot
	c := f.submit(replying(b.ID))
	f.apply(c, job.CancelAsked{})
	f.clock.advance(20 * day)
	for range 3 {
		f.retain(keeping)
	}
	for _, id := range []job.ID{a.ID, b.ID, c.ID} {
		f.gone(id)
	}
	out, err := f.s.Create(f.ctx, []store.NewJob{f.new(replying(a.ID))})
	f.ok(err)
	f.fails(out[0].Err, store.ErrReplyTo)
}

// twins returns two jobs with attempts of the same time; the first one has ended, with the
// object x by the given proof, and is removed.
func (f *fixture) twins(byPerson bool) (removed job.ID, left job.Snapshot) {
	f.Helper()
	conn := f.connect(store.Connection{Class: job.Observable, AccountIdentity: "me"})
	long := func(n *store.NewJob) { n.Spec.StartWindow = 1000 * day }
	a, b := f.sending(on(conn), long).Snapshot, f.sending(on(conn), long).Snapshot
	b = f.apply(b, answer(b, job.ResultUnknown)).Snapshot
	if byPerson {
		a = f.apply(a, answer(a, job.ResultUnknown)).Snapshot
		f.apply(a, job.Resolved{Ruling: job.RuleSent, Actor: "ann", ExternalID: "x", Override: true})
	} else {
		f.apply(a, succeeded(a, "x"))
	}
	f.clock.advance(20 * day)
	r := f.retain(keeping)
	f.is([]int{r.Jobs, r.Objects}, []int{1, 0}, "jobs and objects removed")
	f.gone(a.ID)
	return a.ID, f.job(b.ID)
}

func retainObjects(f *fixture) {
	a, b := f.twins(false)
	f.is(f.owners(b, "x"), map[string]job.ID{"x": a}, "owner of the object")
	got := f.apply(b, saw("x"))
	f.is(got.Snapshot.State, job.NeedsResolution, "the other job, which saw it")
	b = f.apply(got.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "x"}).Snapshot
	f.is(f.owners(f.sending(on(f.connect(store.Connection{AccountIdentity: "me"}))).Snapshot, "x"),
		map[string]job.ID{"x": a}, "owner after an answer that names it, too")
	f.is(b.Effect.ExternalID, "x", "effect")
	seen, err := f.s.Observations(f.ctx, store.Ref{ID: b.ID}, 0, 0)
	f.ok(err)
	f.is(len(seen), 1, "looks")
	f.clock.advance(20 * day)
	f.is(f.retain(keeping).Jobs, 1, "jobs removed, with their looks")
	f.gone(b.ID)
}

func retainTakeOver(f *fixture) {
	a, b := f.twins(true)
	f.is(f.owners(b, "x"), map[string]job.ID{"x": a}, "owner of the object")
	got := f.apply(b, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "x"})
	f.is([]any{got.Snapshot.State, got.Owner}, []any{job.Succeeded, job.ID{}}, "state, and the job that lost the object")
	other := f.sending(on(f.connect(store.Connection{AccountIdentity: "me"}))).Snapshot
	f.is(f.owners(other, "x"), map[string]job.ID{"x": b.ID}, "owner now")
}

// retainNoObjects: an object is forgotten once every stored job was armed long after it, and
// immediately where no job looks.
func retainNoObjects(f *fixture) {
	_, b := f.twins(false)
	f.apply(b, job.Resolved{Ruling: job.RuleNotSent, Actor: "ann", Override: true})
	f.clock.advance(20 * day)
	late := f.sending(on(f.connect(store.Connection{Class: job.Observable, AccountIdentity: "me"}))).Snapshot
	r := f.retain(keeping)
	f.is([]int{r.Jobs, r.Objects}, []int{1, 1}, "jobs and objects removed")
	f.is(len(f.owners(late, "x")), 0, "owners")

	s := f.sending().Snapshot // KEYED
	f.apply(s, succeeded(s, "y"))
	f.clock.advance(20 * day)
	f.is(f.retain(keeping).Jobs, 1, "jobs removed")
	f.submit(at(f.clock.now()))
	f.is(len(f.owners(f.arm(f.claim()).Snapshot, "y")), 0, "owners of a target that nobody looks at")
}

// retainMany: each step is bounded, and jobs that must stay do not delay the ones behind
// them.
func retainMany(f *fixture) {
	other := f.connect(store.Connection{Project: "other"})
	var keep []job.ID
	total := 0
	for i := range 12 {
		items := make([]store.NewJob, 20)
		for k := range items {
			items[k] = f.new()
			if i%2 == 1 {
				items[k].Spec.Project, items[k].Spec.Connection = "other", other.ID
			}
		}
		for k, c := range f.create(items...) {
			f.apply(c.Snapshot, job.CancelAsked{})
			if k < 3 { // another job waits for it
				n := f.new(replying(c.Snapshot.ID), at(start.Add(1000*day)))
				n.Spec.Project, n.Spec.Connection = items[k].Spec.Project, items[k].Spec.Connection
				f.create(n)
				keep = append(keep, c.Snapshot.ID)
				continue
			}
			total++
		}
		f.clock.advance(time.Second)
	}
	f.clock.advance(20 * day)
	p := store.RetainParams{Keep: keeping, Owner: job.ID{1}, Lease: time.Minute, Limit: 7}
	got, done := 0, false
	for range 1000 {
		r, err := f.s.Retain(f.ctx, p)
		f.ok(err)
		got += r.Jobs
		if p.After = r.Next; r.Done {
			done = true
			break
		}
	}
	f.is([]any{done, got}, []any{true, total}, "the pass ends, and jobs removed")
	for _, id := range keep {
		_, err := f.s.Job(f.ctx, store.Ref{ID: id})
		f.ok(err)
	}
}

func retainQuarantined(f *fixture) {
	s := f.ended(job.Failed)
	f.clock.advance(20 * day)
	f.ok(f.s.Quarantine(f.ctx, "why"))
	f.fails(second(f.s.Retain(f.ctx, store.RetainParams{Keep: keeping, Owner: job.ID{1}, Lease: time.Minute})), store.ErrQuarantined)
	f.unchanged(s)
	f.ok(f.s.Release(f.ctx))
	f.is(f.retain(keeping).Jobs, 1, "jobs removed after the release")
}

func retainRefuses(f *fixture) {
	for _, p := range []store.RetainParams{
		{Keep: store.Keep{Jobs: store.LeastKept - 1}},
		{Keep: store.Keep{Events: store.LeastKept - 1}},
		{Keep: store.Keep{Jobs: -time.Hour}},
		{Keep: store.Keep{Keys: -time.Hour}},
		{After: "elsewhere"},
		{After: `{"Phase":-1}`},
		{After: `{"Phase":5}`},
	} {
		p.Owner, p.Lease = job.ID{1}, time.Minute
		f.fails(second(f.s.Retain(f.ctx, p)), store.ErrIllegal)
	}
}
