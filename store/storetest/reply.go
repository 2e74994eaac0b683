package storetest

import (
	"errors"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var replyTests = []test{
	{"waits for its predecessor", replyWaits},
	{"not for one that has succeeded", replyAtOnce},
	{"to a job that does not exist", replyUnknown},
	{"success of any kind lets go", replyCauses},
	{"an end without success leaves them behind", replyLeft},
	{"to a job that has ended without success", replyLeftAtOnce},
	{"left behind, and its predecessor goes on", replyNotLeft},
	{"left behind, and taken up again", replyRetried},
	{"left behind in a chain", replyLeftChain},
	{"a chain", replyChain},
	{"many replies to one job", replyMany},
	{"no more wait for one job than the limit", replyLimit},
	{"the limit within a batch, and what replies to a refused reply", replyLimitBatch},
	{"the wait window", replyWait},
	{"the start window counts from the predecessor's end", replyWindow},
	{"the start window counts from the reply's own time", replyOwnTime},
	{"an ended reply gets no window", replyWindowEnded},
	{"a reply whose wait is over gets no window", replyWaitOver},
	{"a request cannot overtake", replyRequests},
	{"looks know the predecessor too", replyLook},
}

// replying makes a job answer another one.
func replying(to job.ID) func(*store.NewJob) {
	return func(n *store.NewJob) { n.Spec.ReplyTo = to }
}

// succeeded is an answer with an id of the platform's.
func succeeded(s job.Snapshot, id string) job.Outcome {
	return job.Outcome{Attempt: s.Attempt, Result: job.ResultSucceeded, ExternalID: id}
}

// claimed claims all due jobs, and expects just these.
func (f *fixture) claimed(want ...job.ID) []store.Leased {
	f.Helper()
	out := f.claimN(store.MaxBatch)
	got := make(map[job.ID]bool)
	for _, l := range out {
		got[l.ID] = true
	}
	all := make(map[job.ID]bool)
	for _, id := range want {
		all[id] = true
	}
	f.is(got, all, "jobs claimed")
	return out
}

func replyWaits(f *fixture) {
	a := f.submit()
	b := f.submit(replying(a.ID))
	f.is([]job.ID{b.ReplyTo, b.WaitsFor}, []job.ID{a.ID, a.ID}, "reply to and waits for")
	f.is(f.job(b.ID), b, "stored job")
	l := f.claimed(a.ID)[0]
	f.is(l.ReplyTo, "", "reply to of a job that answers none")
	next, err := f.s.NextDue(f.ctx, time.Hour)
	f.ok(err)
	f.is(next, lease, "next due")
	s := f.arm(l).Snapshot
	f.claimed()
	work, end := f.s.Watch(store.WatchWork)
	defer end()
	f.apply(s, succeeded(s, "x"))
	f.is(token(work), true, "hint")
	free := f.job(b.ID)
	f.is(free.WaitsFor, job.ID{}, "waits for")
	f.is(free.ReplyTo, a.ID, "reply to")
	f.is(free.Version, b.Version, "version: it is no change of its own")
	f.is(len(f.events(b.ID)), 1, "events")
	next, err = f.s.NextDue(f.ctx, time.Hour)
	f.ok(err)
	f.is(next, time.Duration(0), "next due")
	l = f.claimed(b.ID)[0]
	f.is(l.ReplyTo, "x", "effect to reply to")
}

func replyAtOnce(f *fixture) {
	s := f.sending().Snapshot
	f.apply(s, succeeded(s, "x"))
	b := f.submit(replying(s.ID))
	f.is(b.WaitsFor, job.ID{}, "waits for")
	f.is(f.claimed(b.ID)[0].ReplyTo, "x", "effect to reply to")
}

func replyUnknown(f *fixture) {
	foreign := f.submit(on(f.connect(store.Connection{Project: "other"})), func(n *store.NewJob) { n.Spec.Project = "other" })
	items := []store.NewJob{f.new(replying(f.id())), f.new(replying(foreign.ID)), f.new(), f.new()}
	items[2].Spec.ReplyTo = items[2].Spec.ID
	out, err := f.s.Create(f.ctx, items)
	f.ok(err)
	for i, c := range out[:3] {
		f.fails(c.Err, store.ErrReplyTo)
		_, err := f.s.Job(f.ctx, store.Ref{Project: project, Key: items[i].Spec.Key})
		f.fails(err, store.ErrNotFound)
	}
	f.ok(out[3].Err)
	// A bound key returns its job, whatever the repeat has.
	again := f.new(replying(f.id()))
	again.Spec.Key = items[3].Spec.Key
	f.is(f.create(again)[0].Snapshot.ID, items[3].Spec.ID, "job of the key")
}

// replyCauses: the predecessor succeeds by an answer, late evidence, a look, a
// poll, a person and a policy, from every state that can.
func replyCauses(f *fixture) {
	for _, tt := range []struct {
		name string
		end  func(f *fixture, a job.Snapshot) job.Snapshot
		want string
	}{
		{"answer", func(f *fixture, a job.Snapshot) job.Snapshot {
			return f.apply(a, succeeded(a, "x")).Snapshot
		}, "x"},
		{"late, from FAILED", func(f *fixture, a job.Snapshot) job.Snapshot {
			a = f.apply(a, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent}).Snapshot
			return f.apply(a, succeeded(a, "x")).Snapshot
		}, "x"},
		{"late, from CANCELED", func(f *fixture, a job.Snapshot) job.Snapshot {
			a = f.apply(a, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient}).Snapshot
			a = f.apply(a, job.CancelAsked{}).Snapshot
			return f.apply(a, succeeded(a, "x")).Snapshot
		}, "x"},
		{"late, while unknown", func(f *fixture, a job.Snapshot) job.Snapshot {
			a = f.apply(a, answer(a, job.ResultUnknown)).Snapshot
			return f.apply(a, succeeded(a, "x")).Snapshot
		}, "x"},
		{"a look", func(f *fixture, a job.Snapshot) job.Snapshot {
			a = f.apply(a, answer(a, job.ResultUnknown)).Snapshot
			return f.apply(a, saw("x")).Snapshot
		}, "x"},
		{"a poll", func(f *fixture, a job.Snapshot) job.Snapshot {
			a = f.apply(a, job.Outcome{Attempt: 1, Result: job.ResultAccepted, Handle: "h"}).Snapshot
			return f.apply(a, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "x", Polled: true}).Snapshot
		}, "x"},
		{"a person", func(f *fixture, a job.Snapshot) job.Snapshot {
			a = f.apply(a, answer(a, job.ResultUnknown)).Snapshot
			return f.apply(a, job.Resolved{Ruling: job.RuleSent, Actor: "ann", ExternalID: "x", Override: true}).Snapshot
		}, "x"},
		{"AT_MOST_ONCE, without an id", func(f *fixture, a job.Snapshot) job.Snapshot {
			a = f.apply(a, answer(a, job.ResultUnknown)).Snapshot
			return f.apply(a, job.LookDue{}).Snapshot
		}, ""},
	} {
		f := newFixture(f.T, f.open)
		conn := f.connect(store.Connection{Class: job.Opaque})
		a := f.sending(on(conn), func(n *store.NewJob) { n.Spec.Delivery = job.AtMostOnce }).Snapshot
		b := f.submit(replying(a.ID))
		f.claimed()
		f.is(tt.end(f, a).State, job.Succeeded, "%s: state", tt.name)
		f.is(f.claimed(b.ID)[0].ReplyTo, tt.want, "%s: effect to reply to", tt.name)
	}
}

// failed ends a job that is being sent without success.
func (f *fixture) failed(s job.Snapshot) job.Snapshot {
	f.Helper()
	return f.apply(s, job.Outcome{Attempt: s.Attempt, Result: job.ResultRejected, Kind: job.FailPermanent}).Snapshot
}

// left ends a reply whose predecessor has ended.
func (f *fixture) left(id job.ID) job.Snapshot {
	f.Helper()
	return f.apply(f.job(id), job.PredecessorEnded{}).Snapshot
}

// replyLeft: after every end of a job without success, a sweep finds its replies immediately,
// and a reply that has ended by then records it.
func replyLeft(f *fixture) {
	for _, tt := range []struct {
		want job.State
		end  func(f *fixture) job.Snapshot
		by   job.Evidence
	}{
		{job.Failed, func(f *fixture) job.Snapshot { return f.sending().Snapshot },
			job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent}},
		{job.Canceled, func(f *fixture) job.Snapshot { return f.submit(at(start.Add(time.Hour))) }, job.CancelAsked{}},
		{job.Expired, func(f *fixture) job.Snapshot { return f.submit(at(start.Add(-3 * time.Hour))) }, job.WindowOver{}},
	} {
		f := newFixture(f.T, f.open)
		a := tt.end(f)
		b, ended := f.submit(replying(a.ID)), f.submit(replying(a.ID))
		f.apply(ended, job.CancelAsked{})
		f.is(b.PredecessorEnd, job.State(0), "%v: known before", tt.want)
		work, end := f.s.Watch(store.WatchWork)
		a = f.apply(a, tt.by).Snapshot
		f.is(a.State, tt.want, "state of the predecessor")
		f.is(token(work), true, "%v: hint", tt.want)
		end()
		next, err := f.s.NextDue(f.ctx, time.Hour)
		f.ok(err)
		f.is(next, time.Duration(0), "%v: next due", tt.want)
		f.claimed()
		f.is(f.overdue(), []job.ID{b.ID}, "%v: overdue", tt.want)
		known := f.job(b.ID)
		f.is([]any{known.WaitsFor, known.PredecessorEnd, known.Version}, []any{a.ID, tt.want, b.Version}, "%v: known", tt.want)
		f.is(f.job(ended.ID).PredecessorEnd, tt.want, "%v: known to a reply that has ended", tt.want)
		b = f.left(b.ID)
		f.is([]any{b.State, b.LastError.Kind}, []any{job.Canceled, job.FailPredecessorEnded}, "%v: state and error", tt.want)
		f.is(strings.Contains(b.LastError.Message, a.ID.String()+", which it replies to, ended as "+tt.want.String()), true,
			"the error says which: %s", b.LastError.Message)
		events := f.events(b.ID)
		f.is(events[len(events)-1].Cause, job.CausePredecessorEnded, "%v: cause", tt.want)
		f.is(f.overdue(), []job.ID(nil), "%v: overdue afterwards", tt.want)
	}
}

func replyLeftAtOnce(f *fixture) {
	a := f.failed(f.sending().Snapshot)
	b := f.submit(replying(a.ID))
	f.is([]any{b.WaitsFor, b.PredecessorEnd}, []any{a.ID, job.Failed}, "waits for, and its end")
	f.is(f.job(b.ID), b, "stored job")
	f.is(f.overdue(), []job.ID{b.ID}, "overdue")
	f.is(f.left(b.ID).State, job.Canceled, "state")
}

// replyNotLeft: a predecessor that goes on before the sweep came leaves no reply behind.
func replyNotLeft(f *fixture) {
	a := f.sending().Snapshot
	b := f.submit(replying(a.ID))
	a = f.failed(a)
	seen := f.job(b.ID)
	a = f.apply(a, job.RetryAsked{}).Snapshot
	f.is(f.job(b.ID), b, "reply")
	f.is(f.overdue(), []job.ID(nil), "overdue")
	d, err := job.Decide(seen.View(job.Traits{Class: seen.Class}, 0), job.PredecessorEnded{})
	f.ok(err)
	out, err := f.s.Apply(f.ctx, []store.Change{{Job: b.ID, Version: seen.Version, Decision: d}})
	f.ok(err)
	f.fails(out[0].Err, store.ErrStale)
	s := f.arm(f.claimed(a.ID)[0]).Snapshot
	f.apply(s, succeeded(s, "second"))
	f.is(f.claimed(b.ID)[0].ReplyTo, "second", "effect to reply to")
}

// replyRetried: RetryJob restarts a reply that was left behind, once its predecessor goes on;
// a reply that its client canceled does not change.
func replyRetried(f *fixture) {
	a := f.sending().Snapshot
	b, unwanted, late := f.submit(replying(a.ID)), f.submit(replying(a.ID)), f.submit(replying(a.ID))
	f.apply(unwanted, job.CancelAsked{})
	a = f.failed(a)
	b = f.left(b.ID)
	late = f.apply(f.left(late.ID), job.CancelAsked{}).Snapshot
	f.is([]any{late.State, late.CancelAsked, late.Ended}, []any{job.Canceled, start, start}, "one that is canceled after its end")
	refused := func(id job.ID, what string) {
		f.Helper()
		_, err := job.Decide(f.job(id).View(job.Traits{Class: job.Keyed}, 0), job.RetryAsked{})
		var state *job.StateError
		f.is(errors.As(err, &state), true, "retry of %s: %v", what, err)
	}
	refused(b.ID, "a reply whose predecessor is ended")
	f.clock.advance(100 * time.Hour)
	a = f.apply(a, job.RetryAsked{}).Snapshot
	f.is([]any{f.job(b.ID).State, f.job(b.ID).PredecessorEnd}, []any{job.Canceled, job.State(0)}, "reply: nobody has retried it")
	refused(unwanted.ID, "a reply that its client cancelled")
	refused(late.ID, "a reply that its client cancelled after its end")
	b = f.apply(f.job(b.ID), job.RetryAsked{}).Snapshot
	now := start.Add(100 * time.Hour)
	f.is([]any{b.State, b.WaitsFor, b.StartDeadline, b.Ended}, []any{job.Retrying, a.ID, now.Add(job.DefaultWaitWindow), time.Time{}}, "reply")
	s := f.arm(f.claimed(a.ID)[0]).Snapshot
	f.apply(s, succeeded(s, "second"))
	f.is(f.claimed(b.ID)[0].ReplyTo, "second", "effect to reply to")
}

func replyLeftChain(f *fixture) {
	a := f.sending().Snapshot
	b := f.submit(replying(a.ID))
	c := f.submit(replying(b.ID))
	a = f.failed(a)
	f.is(f.overdue(), []job.ID{b.ID}, "overdue: one after the other")
	b = f.left(b.ID)
	f.is(f.overdue(), []job.ID{c.ID}, "overdue")
	c = f.left(c.ID)
	f.apply(a, succeeded(a, "late"))
	b = f.apply(f.job(b.ID), job.RetryAsked{}).Snapshot
	f.is(b.WaitsFor, job.ID{}, "waits for one that has succeeded late")
	f.is(b.StartDeadline, start.Add(2*time.Hour), "its deadline")
	c = f.apply(f.job(c.ID), job.RetryAsked{}).Snapshot
	f.is(c.WaitsFor, b.ID, "waits for")
	s := f.arm(f.claimed(b.ID)[0]).Snapshot
	f.apply(s, succeeded(s, "y"))
	f.is(f.claimed(c.ID)[0].ReplyTo, "y", "effect to reply to")
}

func replyChain(f *fixture) {
	thread := []job.Snapshot{f.submit()}
	for i := range 4 {
		thread = append(thread, f.submit(replying(thread[i].ID)))
	}
	for i, s := range thread {
		l := f.claimed(s.ID)[0]
		want := ""
		if i > 0 {
			want = thread[i-1].ID.String()
		}
		f.is(l.ReplyTo, want, "effect that job %d replies to", i)
		sent := f.arm(l).Snapshot
		f.apply(sent, succeeded(sent, s.ID.String()))
	}
	f.claimed()
}

func replyMany(f *fixture) {
	other := f.connect(store.Connection{})
	a := f.sending().Snapshot
	later := f.submit(replying(a.ID), at(start.Add(time.Hour)))
	want := []job.ID{
		f.submit(replying(a.ID)).ID, f.submit(replying(a.ID), holding("key-2")).ID,
		f.submit(replying(a.ID), on(other)).ID, f.submit(replying(a.ID), on(other)).ID,
	}
	f.apply(f.submit(replying(a.ID)), job.CancelAsked{})
	next, err := f.s.NextDue(f.ctx, time.Hour)
	f.ok(err)
	f.is(next, fence, "next due: the predecessor's fence, and nothing of those that wait")
	f.apply(a, succeeded(a, "x"))
	f.claimed(want...)
	f.clock.advance(time.Hour)
	f.claimed(later.ID)
}

func replyLimit(f *fixture) {
	a := f.sending().Snapshot
	items := make([]store.NewJob, store.MaxReplies)
	for i := range items {
		items[i] = f.new(replying(a.ID))
	}
	f.create(items...)
	f.apply(f.job(items[0].Spec.ID), job.CancelAsked{}) // it is updated like the others
	more := f.new(replying(a.ID))
	refused := func() {
		f.Helper()
		out, err := f.s.Create(f.ctx, []store.NewJob{more})
		f.ok(err)
		f.fails(out[0].Err, store.ErrManyReplies)
		_, err = f.s.Job(f.ctx, store.Ref{Project: project, Key: more.Spec.Key})
		f.fails(err, store.ErrNotFound)
	}
	refused()
	for _, c := range f.create(items...) {
		f.is(c.Created, false, "a repeat is created")
	}
	f.submit(replying(items[0].Spec.ID)) // the limit is that job's
	f.apply(a, succeeded(a, "x"))
	f.is(f.create(more)[0].Created, true, "created, to a job that has succeeded")
}

func replyLimitBatch(f *fixture) {
	a := f.sending().Snapshot
	stored := f.submit(replying(a.ID))
	again := f.new(replying(a.ID))
	again.Spec.Key = stored.Key
	items := []store.NewJob{again}
	for range store.MaxReplies {
		items = append(items, f.new(replying(a.ID)))
	}
	last := items[store.MaxReplies]
	chained, plain := f.new(replying(last.Spec.ID)), f.new()
	items = append(items, chained, plain)
	out, err := f.s.Create(f.ctx, items)
	f.ok(err)
	f.is(out[0].Snapshot.ID, stored.ID, "the repeat")
	for i := 1; i < store.MaxReplies; i++ {
		f.is([]any{out[i].Err, out[i].Created}, []any{nil, true}, "reply %d", i)
	}
	f.fails(out[store.MaxReplies].Err, store.ErrManyReplies)
	f.fails(out[store.MaxReplies+1].Err, store.ErrReplyTo)
	f.is(out[store.MaxReplies+2].Created, true, "what does not reply")
	for _, n := range []store.NewJob{last, chained} {
		_, err = f.s.Job(f.ctx, store.Ref{Project: project, Key: n.Spec.Key})
		f.fails(err, store.ErrNotFound)
	}
}

// waitingFor sets how long a reply waits.
func waitingFor(d time.Duration) func(*store.NewJob) {
	return func(n *store.NewJob) { n.Spec.WaitWindow = d }
}

// replyWait: a reply waits from its own time on, and ends when that is over.
func replyWait(f *fixture) {
	a := f.sending().Snapshot
	a = f.apply(a, answer(a, job.ResultUnknown)).Snapshot
	unset := f.submit(replying(a.ID), at(start.Add(time.Hour)))
	f.is(unset.StartDeadline, start.Add(73*time.Hour), "end of the default wait")
	b := f.submit(replying(a.ID), at(start.Add(time.Hour)), waitingFor(4*time.Hour))
	f.is(b.StartDeadline, start.Add(5*time.Hour), "end of the wait")
	moved := f.apply(f.submit(replying(a.ID), waitingFor(4*time.Hour)), job.RescheduleAsked{At: start.Add(24 * time.Hour)}).Snapshot
	f.is(moved.StartDeadline, start.Add(28*time.Hour), "end of the wait of one that was moved")
	f.clock.advance(5*time.Hour - time.Microsecond)
	f.is(f.overdue(), []job.ID(nil), "overdue before")
	f.clock.advance(time.Microsecond)
	f.is(f.overdue(), []job.ID{b.ID}, "overdue")
	expired := f.apply(f.job(b.ID), job.WindowOver{}).Snapshot
	f.is(expired.State, job.Expired, "state")
	f.is(strings.Contains(expired.LastError.Message, a.ID.String()), true, "the error says for whom: %s", expired.LastError.Message)
	// RetryJob begins a new wait; it does not replace the predecessor's success.
	retried := f.apply(expired, job.RetryAsked{}).Snapshot
	f.is([]any{retried.State, retried.WaitsFor}, []any{job.Retrying, a.ID}, "state and waits for")
	f.is(retried.StartDeadline, start.Add(9*time.Hour), "end of the new wait")
	f.claimed()
	f.apply(a, succeeded(a, "x"))
	for _, l := range f.claimed(b.ID, unset.ID) {
		f.is([]any{l.ReplyTo, l.StartDeadline}, []any{"x", start.Add(7 * time.Hour)}, "effect to reply to, and deadline")
		f.is(l.WaitWindow, f.job(l.ID).WaitWindow, "wait window of a lease")
	}
}

// replyWindow: the predecessor takes longer than the reply's start window.
func replyWindow(f *fixture) {
	a := f.sending().Snapshot
	b := f.submit(replying(a.ID), func(n *store.NewJob) { n.Spec.StartWindow = time.Minute })
	unset := f.submit(replying(a.ID), func(n *store.NewJob) { n.Spec.StartWindow = 0 })
	f.clock.advance(10 * time.Hour)
	a = f.job(a.ID)
	f.apply(a, succeeded(a, "x"))
	now := start.Add(10 * time.Hour)
	free := f.job(b.ID)
	f.is([]any{free.StartDeadline, free.Version}, []any{now.Add(time.Minute), b.Version}, "deadline and version")
	f.is(f.job(unset.ID).StartDeadline, now.Add(job.DefaultWindow), "deadline of the default window")
	f.claimed(b.ID, unset.ID)
	late := f.submit(replying(a.ID))
	f.is(late.StartDeadline, now.Add(2*time.Hour), "deadline of a reply that comes later")
}

func replyOwnTime(f *fixture) {
	a := f.sending().Snapshot
	b := f.submit(replying(a.ID), at(start.Add(24*time.Hour)), waitingFor(time.Minute))
	now := f.apply(f.submit(replying(a.ID), at(start.Add(24*time.Hour))), job.RunNowAsked{}).Snapshot
	f.apply(a, succeeded(a, "x"))
	f.is(f.job(b.ID).StartDeadline, start.Add(26*time.Hour), "deadline")
	// RunJobNow leaves the end of the window where it was.
	f.is(f.job(now.ID).StartDeadline, start.Add(26*time.Hour), "deadline of one that runs now")
	f.claimed(now.ID)
	f.clock.advance(24 * time.Hour)
	f.claimed(b.ID)
}

func replyWindowEnded(f *fixture) {
	a := f.sending().Snapshot
	b := f.submit(replying(a.ID))
	f.apply(b, job.CancelAsked{})
	f.clock.advance(time.Hour)
	f.apply(a, succeeded(a, "x"))
	s := f.job(b.ID)
	f.is([]any{s.StartDeadline, s.WaitsFor}, []any{b.StartDeadline, job.ID{}}, "deadline and waits for")
}

// replyWaitOver: a wait that is over when the predecessor succeeds ends the reply, even if a
// sweep decided that before and writes it after.
func replyWaitOver(f *fixture) {
	for _, decidedFirst := range []bool{true, false} {
		f := newFixture(f.T, f.open)
		a := f.sending().Snapshot
		b := f.submit(replying(a.ID), waitingFor(time.Hour))
		f.clock.advance(time.Hour)
		seen := f.job(b.ID)
		if !decidedFirst {
			f.apply(a, succeeded(a, "x"))
			seen = f.job(b.ID)
			f.is([]any{seen.StartDeadline, seen.WaitsFor}, []any{b.StartDeadline, job.ID{}}, "deadline and waits for")
			f.claimed()
			f.is(f.overdue(), []job.ID{b.ID}, "overdue")
		}
		d := f.decide(seen, job.WindowOver{})
		if decidedFirst {
			f.apply(a, succeeded(a, "x"))
			f.is(f.job(b.ID).StartDeadline, b.StartDeadline, "deadline")
		}
		out, err := f.s.Apply(f.ctx, []store.Change{{Job: b.ID, Version: seen.Version, Decision: d}})
		f.ok(err)
		f.ok(out[0].Err)
		f.is(f.job(b.ID).State, job.Expired, "state, decided first: %v", decidedFirst)
	}
}

func replyRequests(f *fixture) {
	a := f.sending().Snapshot
	b := f.submit(replying(a.ID), at(start.Add(time.Hour)))
	b = f.apply(b, job.RunNowAsked{}).Snapshot
	f.claimed()
	b = f.apply(b, job.RescheduleAsked{At: start.Add(time.Minute)}).Snapshot
	f.clock.advance(time.Minute)
	b = f.update(b, store.Content{Payload: []byte("new"), HoldKey: "key-2"})
	f.claimed()
	next, err := f.s.NextDue(f.ctx, 24*time.Hour)
	f.ok(err)
	f.is(next, time.Duration(0), "the predecessor's fence")
	f.is(b.WaitsFor, a.ID, "waits for")
	f.apply(a, succeeded(a, "x"))
	f.claimed(b.ID)
}

func replyLook(f *fixture) {
	a := f.sending().Snapshot
	f.apply(a, succeeded(a, "x"))
	f.submit(replying(a.ID))
	s := f.arm(f.claim()).Snapshot
	s = f.apply(s, answer(s, job.ResultUnknown)).Snapshot
	f.clock.advance(time.Minute)
	looks := f.looks()
	f.is([]any{len(looks), looks[0].ID, looks[0].ReplyTo}, []any{1, s.ID, "x"}, "look")
}
