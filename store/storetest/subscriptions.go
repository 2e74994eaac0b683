package storetest

import (
	"fmt"
	"math"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var subscriptionTests = []test{
	{"create", subscriptionCreate},
	{"list", subscriptionList},
	{"change", subscriptionChange},
	{"due by events", subscriptionDueByEvents},
	{"due by time", subscriptionDueByTime},
	{"a notice is a job and a row", subscriptionNotice},
	{"one notice at a time", subscriptionOneOpen},
	{"a step is written once", subscriptionStale},
	{"a failed notice is sent again under its effect key", subscriptionAgain},
	{"a notice that needs a person ends for its subscription", subscriptionUnresolved},
	{"the connection is gone", subscriptionNoConnection},
	{"notices are kept in bounds", subscriptionKept},
	{"a deleted one", subscriptionDeleted},
	{"a quarantine", subscriptionQuarantined},
	{"one server makes notices", subscriptionLease},
	{"an erased project", subscriptionErased},
	{"steps of the clock", subscriptionClock},
}

// subscribe stores a subscription to the fixture's connection.
func (f *fixture) subscribe(edit ...func(*store.Subscription)) store.Subscription {
	f.Helper()
	s, created, err := f.s.CreateSubscription(f.ctx, f.newSubscription(edit...))
	f.ok(err)
	f.is(created, true, "created")
	return s
}

func (f *fixture) newSubscription(edit ...func(*store.Subscription)) store.NewSubscription {
	id := f.id()
	s := store.Subscription{ID: id, Project: project, Key: "to-" + id.String(), Connection: f.conn.ID, Spec: []byte("spec"), CreatedBy: "ann"}
	s.Fingerprint.Set("spec", []byte("spec"))
	for _, e := range edit {
		e(&s)
	}
	return store.NewSubscription{Subscription: s}
}

// dueSubscriptions returns the subscriptions with a step to make.
func (f *fixture) dueSubscriptions() []store.DueSubscription {
	f.Helper()
	out, _, err := f.s.DueSubscriptions(f.ctx, job.ID{}, 0, time.Hour)
	f.ok(err)
	return out
}

// due1 returns the only subscription with a step to make.
func (f *fixture) due1() store.DueSubscription {
	f.Helper()
	out := f.dueSubscriptions()
	f.is(len(out), 1, "subscriptions that are due")
	return out[0]
}

func (f *fixture) subscription(id job.ID) store.Subscription {
	f.Helper()
	s, err := f.s.Subscription(f.ctx, store.Ref{Project: project, ID: id})
	f.ok(err)
	return s
}

// step writes a step that must succeed.
func (f *fixture) step(s store.Subscription, edit ...func(*store.SubscriptionStep)) store.Subscription {
	f.Helper()
	out, err := f.tryStep(s, edit...)
	f.ok(err)
	f.is(f.subscription(s.ID), out, "the stored subscription")
	return out
}

func (f *fixture) tryStep(s store.Subscription, edit ...func(*store.SubscriptionStep)) (store.Subscription, error) {
	s.UpdatedBy = ""
	p := store.SubscriptionStep{Subscription: s}
	for _, e := range edit {
		e(&p)
	}
	return f.s.StepSubscription(f.ctx, p)
}

// noticeJob is the job of a notice.
func (f *fixture) noticeJob() *store.NewJob {
	n := f.new()
	n.Spec.Delivery = job.AtLeastOnce
	return &n
}

// telling makes a notice of what comes up to a position.
func (f *fixture) telling(to int64) func(*store.SubscriptionStep) {
	return func(p *store.SubscriptionStep) {
		p.Notice = &store.Notice{Kind: store.NoticeEvents, After: p.Subscription.Position, To: to, Events: 1}
		p.Subscription.Position, p.Job = to, f.noticeJob()
	}
}

func ending(s job.State) func(*store.SubscriptionStep) {
	return func(p *store.SubscriptionStep) { p.Ended = s }
}

// told makes a notice of all events so far.
func (f *fixture) told(s store.Subscription) store.Subscription {
	f.Helper()
	return f.step(s, f.telling(f.logEnd()))
}

func (f *fixture) logEnd() int64 {
	f.Helper()
	p, err := f.s.Events(f.ctx, store.EventQuery{Project: project, After: math.MaxInt64})
	f.ok(err)
	return p.End
}

// carry sends the job of the notice that is under way.
func (f *fixture) carry(s store.Subscription, result job.Result) job.Snapshot {
	f.Helper()
	return f.applied(f.sendingNotice(s), job.Outcome{Attempt: 1, Result: result, Kind: job.FailPermanent, Message: "no"})
}

// sendingNotice arms the job of the notice that is under way.
func (f *fixture) sendingNotice(s store.Subscription) job.Snapshot {
	f.Helper()
	for _, l := range f.claimN(store.MaxBatch) {
		if l.ID == s.OpenJob {
			return f.arm(l).Snapshot
		}
	}
	f.Fatal("the notice's job was not claimed")
	return job.Snapshot{}
}

// applied is apply for a job of another project than the fixture's.
func (f *fixture) applied(s job.Snapshot, e job.Evidence) job.Snapshot {
	f.Helper()
	out, err := f.s.Apply(f.ctx, []store.Change{{Job: s.ID, Version: s.Version, Decision: f.decide(s, e), Actor: "tester"}})
	f.ok(err)
	f.ok(out[0].Err)
	got, err := f.s.Job(f.ctx, store.Ref{ID: s.ID})
	f.ok(err)
	return got
}

func subscriptionCreate(f *fixture) {
	f.submit()
	n := f.newSubscription()
	s, created, err := f.s.CreateSubscription(f.ctx, n)
	f.ok(err)
	want := n.Subscription
	want.State, want.Version, want.Revision, want.Incarnation = store.SubscriptionActive, 1, 1, s.Incarnation
	want.Position, want.Created, want.Updated, want.UpdatedBy = f.logEnd(), start, start, "ann"
	f.is([]any{created, s}, []any{true, want}, "created")
	f.is(f.subscription(s.ID), want, "read by id")
	byKey, err := f.s.Subscription(f.ctx, store.Ref{Project: project, Key: s.Key})
	f.ok(err)
	f.is(byKey, want, "read by key")
	again := f.newSubscription(func(o *store.Subscription) { o.Key = s.Key })
	bound, created, err := f.s.CreateSubscription(f.ctx, again)
	f.ok(err)
	f.is([]any{created, bound}, []any{false, want}, "a bound key")
	full := f.newSubscription()
	full.Most = 1
	_, _, err = f.s.CreateSubscription(f.ctx, full)
	f.fails(err, store.ErrQuota)
	f.subscribe(func(s *store.Subscription) { s.Project = "other" })
	callbacks := f.subscribe(func(s *store.Subscription) { s.Callbacks = true })
	f.is(callbacks.Callbacks, true, "callbacks")
	again.Most = 1
	_, created, err = f.s.CreateSubscription(f.ctx, again)
	f.ok(err)
	f.is(created, false, "a bound key at the quota")
	for _, edit := range []func(*store.Subscription){
		func(s *store.Subscription) { s.ID = job.ID{} },
		func(s *store.Subscription) { s.Key = "" },
		func(s *store.Subscription) { s.Connection = job.ID{} },
		func(s *store.Subscription) { s.Spec = make([]byte, store.MaxSubscriptionSpec+1) },
		func(s *store.Subscription) { s.Memory = make([]byte, store.MaxMemory+1) },
	} {
		_, _, err := f.s.CreateSubscription(f.ctx, f.newSubscription(edit))
		f.fails(err, store.ErrIllegal)
	}
	for _, ref := range []store.Ref{{Project: project, ID: f.id()}, {Project: "other", ID: s.ID}, {Project: project, Key: "none"}} {
		_, err := f.s.Subscription(f.ctx, ref)
		f.fails(err, store.ErrNotFound)
	}
}

func subscriptionList(f *fixture) {
	var want []job.ID
	for range 5 {
		want = append([]job.ID{f.subscribe().ID}, want...)
		f.clock.advance(time.Second)
	}
	f.subscribe(func(s *store.Subscription) { s.Project = "other" })
	f.subscribe(func(s *store.Subscription) { s.Callbacks = true })
	gone := f.subscribe()
	f.step(gone, func(p *store.SubscriptionStep) { p.Subscription.State = store.SubscriptionDeleted })
	var got []job.ID
	var after job.ID
	for {
		page, err := f.s.ListSubscriptions(f.ctx, project, after, 2)
		f.ok(err)
		for _, s := range page {
			got, after = append(got, s.ID), s.ID
		}
		if len(page) < 2 {
			break
		}
	}
	f.is(got, want, "the list")
	_, err := f.s.ListSubscriptions(f.ctx, project, f.id(), 2)
	f.fails(err, store.ErrNotFound)
}

func subscriptionChange(f *fixture) {
	s := f.subscribe()
	f.clock.advance(time.Second)
	next := s
	next.Spec, next.DisplayName, next.UpdatedBy = []byte("new"), "new", "bob"
	got, err := f.s.ChangeSubscription(f.ctx, next)
	f.ok(err)
	want := next
	want.Version, want.Revision, want.Updated = 2, 2, start.Add(time.Second)
	f.is(got, want, "changed")
	f.is(f.subscription(s.ID), want, "stored")
	_, err = f.s.ChangeSubscription(f.ctx, next)
	f.fails(err, store.ErrStale)
	next = got
	next.State, next.PauseCause, next.Note, next.UpdatedBy = store.SubscriptionPaused, store.SubscriptionPausedByPerson, "lunch", "bob"
	paused, err := f.s.ChangeSubscription(f.ctx, next)
	f.ok(err)
	f.is([]any{paused.PausedAt, paused.Version, paused.Revision}, []any{start.Add(time.Second), int64(3), int64(3)}, "paused")
	f.submit()
	f.is(len(f.dueSubscriptions()), 0, "due while paused")
	next = paused
	next.State, next.PauseCause, next.Note, next.UpdatedBy = store.SubscriptionActive, 0, "", "bob"
	_, err = f.s.ChangeSubscription(f.ctx, next)
	f.ok(err)
	f.is(len(f.dueSubscriptions()), 1, "due after it")
	next.ID = f.id()
	_, err = f.s.ChangeSubscription(f.ctx, next)
	f.fails(err, store.ErrNotFound)
}

func subscriptionDueByEvents(f *fixture) {
	f.submit()
	s := f.subscribe()
	f.is(len(f.dueSubscriptions()), 0, "due without a later event")
	f.create(f.new(func(n *store.NewJob) {
		n.Spec.Project, n.Spec.Connection = "other", f.connect(store.Connection{Project: "other"}).ID
	}))
	f.is(len(f.dueSubscriptions()), 0, "due by another project's event")
	f.submit()
	d := f.due1()
	f.is([]any{d.Subscription, d.Connection.ID, d.Now, d.Job, d.Open}, []any{s, f.conn.ID, f.clock.now().UTC(), (*job.Snapshot)(nil), store.Notice{}}, "due")
	other := f.subscribe(func(s *store.Subscription) { s.Position = 0 })
	_, _, err := f.s.DueSubscriptions(f.ctx, other.ID, 1, 0)
	f.ok(err)
	f.step(s, func(p *store.SubscriptionStep) { p.Subscription.Position = f.logEnd() })
	f.is(len(f.dueSubscriptions()), 0, "due after the step")
}

func subscriptionDueByTime(f *fixture) {
	s := f.subscribe(func(s *store.Subscription) { s.Next, s.OnlyThen = start.Add(time.Minute), true })
	f.submit()
	out, wait, err := f.s.DueSubscriptions(f.ctx, job.ID{}, 0, time.Hour)
	f.ok(err)
	f.is([]any{len(out), wait}, []any{0, time.Minute}, "before its time")
	f.clock.advance(time.Minute)
	f.is(f.due1().Subscription, s, "at its time")
	s = f.step(s, func(p *store.SubscriptionStep) { p.Subscription.Next, p.Subscription.OnlyThen = time.Time{}, false })
	f.due1()
	f.step(s, func(p *store.SubscriptionStep) {
		p.Subscription.Position, p.Subscription.Asked = f.logEnd(), store.AskedTest
	})
	f.is(f.due1().Subscription.Asked, int64(store.AskedTest), "asked for a test")
}

func subscriptionNotice(f *fixture) {
	s := f.subscribe()
	f.submit()
	f.claimN(1)
	end := f.logEnd()
	told := f.told(s)
	f.is([]any{told.Number, told.Open, told.Position, told.Version, told.Revision}, []any{int64(1), int64(1), end, s.Version, s.Revision + 1}, "told")
	f.is(f.logEnd() >= end, true, "the log's end")
	carried, err := f.s.Job(f.ctx, store.Ref{Project: job.NoticeProject(project), ID: told.OpenJob})
	f.ok(err)
	f.is([]any{carried.Project, carried.Connection, carried.IsNotice(), carried.Owner()},
		[]any{job.NoticeProject(project), f.conn.ID, true, project}, "the notice's job")
	want := store.Notice{
		Subscription: s.ID, Number: 1, Kind: store.NoticeEvents, After: s.Position, To: end, Incarnation: s.Incarnation,
		Events: 1, Tries: 1, Job: carried.ID, Made: start,
	}
	f.is(f.notices(s.ID), []store.Notice{want}, "notices")
	f.submit()
	f.is(len(f.dueSubscriptions()), 0, "due while the notice is under way")
	f.clock.advance(time.Second)
	f.carry(told, job.ResultSucceeded)
	d := f.due1()
	f.is([]any{d.Open, d.Job.State}, []any{want, job.Succeeded}, "due after the notice")
	ended := f.step(told, ending(job.Succeeded))
	f.is([]any{ended.Open, ended.OpenJob, ended.Number}, []any{int64(0), job.ID{}, int64(1)}, "ended")
	want.Ended, want.Outcome = start.Add(time.Second), job.Succeeded
	f.is(f.notices(s.ID), []store.Notice{want}, "notices after the end")
	f.due1()
}

func (f *fixture) notices(id job.ID) []store.Notice {
	f.Helper()
	out, err := f.s.Notices(f.ctx, store.Ref{Project: project, ID: id}, 0, 0)
	f.ok(err)
	return out
}

func subscriptionOneOpen(f *fixture) {
	s := f.subscribe()
	f.submit()
	s = f.told(s)
	_, err := f.tryStep(s, f.telling(f.logEnd()))
	f.fails(err, store.ErrIllegal)
	f.is(len(f.notices(s.ID)), 1, "notices")
	other := f.subscribe()
	_, err = f.tryStep(other, ending(job.Succeeded))
	f.fails(err, store.ErrIllegal)
	// The end of one and the beginning of the next are one step.
	f.clock.advance(time.Second)
	f.carry(s, job.ResultSucceeded)
	s = f.step(s, ending(job.Succeeded), f.telling(f.logEnd()))
	f.is([]any{s.Open, s.Number}, []any{int64(2), int64(2)}, "the next one")
	got := f.notices(s.ID)
	f.is([]any{got[0].Number, got[0].Outcome, got[1].Number, got[1].Outcome}, []any{int64(2), job.State(0), int64(1), job.Succeeded}, "notices")
}

func subscriptionStale(f *fixture) {
	s := f.subscribe()
	f.submit()
	f.told(s)
	_, err := f.tryStep(s, f.telling(f.logEnd()))
	f.fails(err, store.ErrStale)
	f.is(len(f.notices(s.ID)), 1, "notices")
	p, err := f.s.List(f.ctx, store.JobQuery{Project: job.NoticeProject(project)})
	f.ok(err)
	f.is(len(p.Jobs), 1, "jobs of notices")
	s.Project = "other"
	_, err = f.tryStep(s)
	f.fails(err, store.ErrNotFound)
}

func subscriptionAgain(f *fixture) {
	s := f.subscribe()
	f.submit()
	s = f.told(s)
	first := f.carry(s, job.ResultRejected)
	f.is(first.State, job.Failed, "the first try")
	s = f.step(s, ending(job.Failed), func(p *store.SubscriptionStep) {
		p.Subscription.Failed, p.Subscription.Failures, p.Subscription.Failing = 1, 1, f.clock.now().UTC()
		p.Subscription.Next, p.Subscription.OnlyThen = f.clock.now().Add(time.Minute), true
	})
	f.is(len(f.dueSubscriptions()), 0, "due before the next try")
	f.clock.advance(time.Minute)
	d := f.due1()
	f.is([]any{d.Open.Number, d.Job.ID, string(d.Job.Payload)}, []any{int64(1), first.ID, "payload"}, "due again")
	again := func(p *store.SubscriptionStep) { p.Again, p.Job = 1, f.noticeJob() }
	s = f.step(s, again)
	f.is([]any{s.Open, s.Number}, []any{int64(1), int64(1)}, "sent again")
	second, err := f.s.Job(f.ctx, store.Ref{ID: s.OpenJob})
	f.ok(err)
	f.is([]any{second.EffectKey("n") == first.EffectKey("n"), second.Key == first.Key}, []any{true, false}, "one effect key, two keys")
	second.Round = 7
	f.is(second.EffectKey("n"), first.EffectKey("n"), "the effect key of a later round")
	n := f.notices(s.ID)
	f.is([]any{len(n), n[0].Tries, n[0].Job, n[0].Ended.IsZero(), n[0].Outcome}, []any{1, int64(2), second.ID, true, job.State(0)}, "the notice")
	_, err = f.tryStep(s, again)
	f.fails(err, store.ErrIllegal)
	f.clock.advance(time.Minute)
	f.carry(s, job.ResultSucceeded)
	s = f.step(s, ending(job.Succeeded), func(p *store.SubscriptionStep) {
		p.Subscription.Failed, p.Subscription.Failures, p.Subscription.Failing = 0, 0, time.Time{}
	})
	_, err = f.tryStep(s, func(p *store.SubscriptionStep) { p.Again, p.Job = 2, f.noticeJob() })
	f.fails(err, store.ErrIllegal)
	// A notice that was delivered can be sent once more.
	s = f.step(s, func(p *store.SubscriptionStep) { p.Subscription.Asked = 1 })
	f.is(f.due1().Open.Number, int64(1), "asked for")
	f.step(s, again, func(p *store.SubscriptionStep) { p.Subscription.Asked = 0 })
}

func subscriptionUnresolved(f *fixture) {
	s := f.subscribe()
	f.submit()
	s = f.told(s)
	carried, err := f.s.Job(f.ctx, store.Ref{ID: s.OpenJob})
	f.ok(err)
	f.is(len(f.dueSubscriptions()), 0, "due while it is under way")
	f.applied(carried, job.CancelAsked{})
	f.is(f.due1().Job.State, job.Canceled, "due after it was canceled")
}

func subscriptionNoConnection(f *fixture) {
	conn := f.connect(store.Connection{Class: job.Keyed, KeyWindow: time.Hour})
	s := f.subscribe(func(s *store.Subscription) { s.Connection = conn.ID })
	f.submit()
	f.revise(conn, store.ConnectionChange{Delete: true})
	_, err := f.tryStep(s, f.telling(f.logEnd()))
	f.fails(err, store.ErrNotFound)
	f.is(f.subscription(s.ID), s, "nothing was written")
	f.is(len(f.notices(s.ID)), 0, "notices")
	other := f.connect(store.Connection{Project: "other"})
	_, err = f.tryStep(s, f.telling(f.logEnd()), func(p *store.SubscriptionStep) { p.Subscription.Connection = other.ID })
	f.fails(err, store.ErrNotFound)
}

func subscriptionKept(f *fixture) {
	s := f.subscribe()
	const more = 3
	for i := range store.NoticesKept + more {
		f.submit()
		s = f.told(s)
		carried, err := f.s.Job(f.ctx, store.Ref{ID: s.OpenJob})
		f.ok(err)
		f.applied(carried, job.CancelAsked{})
		s = f.step(s, ending(job.Canceled))
		if i == 1 {
			page, err := f.s.Notices(f.ctx, store.Ref{Project: project, ID: s.ID}, 2, 0)
			f.ok(err)
			f.is([]any{len(page), page[0].Number}, []any{1, int64(1)}, "before the second")
		}
	}
	var numbers []int64
	for before := int64(0); ; {
		page, err := f.s.Notices(f.ctx, store.Ref{Project: project, ID: s.ID}, before, 0)
		f.ok(err)
		for _, n := range page {
			numbers, before = append(numbers, n.Number), n.Number
		}
		if len(page) == 0 {
			break
		}
	}
	f.is([]any{len(numbers), numbers[len(numbers)-1]}, []any{store.NoticesKept, int64(more + 1)}, "kept notices")
	_, err := f.s.Notices(f.ctx, store.Ref{Project: "other", ID: s.ID}, 0, 0)
	f.fails(err, store.ErrNotFound)
}

func subscriptionDeleted(f *fixture) {
	s := f.subscribe(func(s *store.Subscription) { s.Memory = []byte("memory") })
	f.submit()
	s = f.told(s)
	s = f.step(s, func(p *store.SubscriptionStep) { p.Subscription.State = store.SubscriptionDeleted })
	f.is([]any{s.Spec, s.Memory, s.Deleted.IsZero(), s.Open}, []any{[]byte(nil), []byte(nil), false, int64(1)}, "deleted")
	_, err := f.tryStep(s, func(p *store.SubscriptionStep) { p.Subscription.State = store.SubscriptionActive })
	f.fails(err, store.ErrIllegal)
	f.is(f.due1().Subscription, s, "due for the cancel of its notice")
	f.submit()
	sending := f.sendingNotice(s)
	due := f.due1()
	f.is([]any{due.Subscription, due.Job.State}, []any{s, job.Sending}, "due while its notice is sent")
	sending = f.applied(sending, job.CancelAsked{})
	f.is(len(f.dueSubscriptions()), 0, "due once the cancel is asked for")
	f.applied(sending, succeeded(sending, "object"))
	f.is(f.due1().Subscription, s, "due for the end of its notice")
	s = f.step(s, ending(job.Succeeded))
	f.is(len(f.dueSubscriptions()), 0, "due after that")
	f.is(f.notices(s.ID)[0].Outcome, job.Succeeded, "its notice's outcome")
}

func subscriptionQuarantined(f *fixture) {
	s := f.subscribe()
	f.submit()
	f.due1()
	f.ok(f.s.Quarantine(f.ctx, "a copy"))
	f.is(len(f.dueSubscriptions()), 0, "due in a quarantine")
	_, err := f.tryStep(s, f.telling(f.logEnd()))
	f.fails(err, store.ErrQuarantined)
	_, err = f.s.ChangeSubscription(f.ctx, s)
	f.fails(err, store.ErrQuarantined)
	f.is(f.subscription(s.ID), s, "nothing was written")
}

func subscriptionLease(f *fixture) {
	lease := func(worker string) bool {
		f.Helper()
		ok, err := f.s.LeaseNotices(f.ctx, worker, time.Minute)
		f.ok(err)
		return ok
	}
	f.ok(f.s.Enlist(f.ctx, store.Process{Worker: "a"}))
	f.ok(f.s.Enlist(f.ctx, store.Process{Worker: "b"}))
	f.is([]bool{lease("a"), lease("b"), lease("a")}, []bool{true, false, true}, "leases")
	f.clock.advance(time.Minute)
	f.is([]bool{lease("b"), lease("a")}, []bool{true, false}, "leases after the end")
	f.is(lease("gone"), false, "of another one")
}

func subscriptionErased(f *fixture) {
	k := f.apiKey("shop")
	conn := f.connect(store.Connection{Project: "shop", Class: job.Keyed, KeyWindow: time.Hour})
	s, _, err := f.s.CreateSubscription(f.ctx, f.newSubscription(func(s *store.Subscription) { s.Project, s.Connection = "shop", conn.ID }))
	f.ok(err)
	s = f.toldOf(s)
	_, err = f.s.RevokeAPIKey(f.ctx, k.ID)
	f.ok(err)
	f.is(f.eraseAll("shop", 10).Rest.Open, int64(1), "open jobs while a notice is under way")
	gone, err := f.s.Subscription(f.ctx, store.Ref{ID: s.ID})
	f.ok(err)
	f.is([]any{gone.State, gone.Spec}, []any{store.SubscriptionDeleted, []byte(nil)}, "the subscription meanwhile")
	carried := f.applied(*f.due1().Job, job.CancelAsked{})
	f.is(carried.State, job.Canceled, "its notice")
	_, err = f.tryStep(gone, ending(job.Canceled))
	f.ok(err)
	f.is(f.eraseAll("shop", 10).Rest.Open, int64(0), "open jobs after that")
	f.clock.advance(store.LeastKept + time.Second)
	rest := f.eraseAll("shop", 10)
	f.is([]any{rest.Rest, rest.Jobs}, []any{store.ProjectRest{}, 0}, "what is left, and what is counted")
	_, err = f.s.Subscription(f.ctx, store.Ref{ID: s.ID})
	f.fails(err, store.ErrNotFound)
	_, err = f.s.Job(f.ctx, store.Ref{ID: carried.ID})
	f.fails(err, store.ErrNotFound)
}

// toldOf makes a notice of a subscription of any project.
func (f *fixture) toldOf(s store.Subscription) store.Subscription {
	f.Helper()
	out, err := f.tryStep(s, f.telling(s.Position))
	f.ok(err)
	return out
}

func subscriptionClock(f *fixture) {
	s := f.subscribe(func(s *store.Subscription) { s.Next, s.OnlyThen = start.Add(time.Minute), true })
	for i := range 3 {
		f.clock.advance(10 * time.Second)
		s = f.step(s, func(p *store.SubscriptionStep) { p.Subscription.LastError = fmt.Sprint(i) })
	}
	_, wait, err := f.s.DueSubscriptions(f.ctx, job.ID{}, 0, time.Hour)
	f.ok(err)
	f.is(wait, 30*time.Second, "left of a wait")
}
