package storetest

import (
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
	{"an end without success does not", replyEnds},
	{"a chain", replyChain},
	{"many replies to one job", replyMany},
	{"the window runs meanwhile", replyWindow},
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

// claimed takes all that is due, and wants just these jobs.
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
	// A bound key gives its job, whatever the repeat says.
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
		{"ASSUME_SENT, without an id", func(f *fixture, a job.Snapshot) job.Snapshot {
			a = f.apply(a, answer(a, job.ResultUnknown)).Snapshot
			return f.apply(a, job.LookDue{}).Snapshot
		}, ""},
	} {
		f := newFixture(f.T, f.open)
		conn := f.connect(store.Connection{Class: job.Opaque})
		a := f.sending(on(conn), func(n *store.NewJob) { n.Spec.Policy = job.AssumeSent }).Snapshot
		b := f.submit(replying(a.ID))
		f.claimed()
		f.is(tt.end(f, a).State, job.Succeeded, "%s: state", tt.name)
		f.is(f.claimed(b.ID)[0].ReplyTo, tt.want, "%s: effect to reply to", tt.name)
	}
}

// replyEnds: a predecessor that ends otherwise may be tried again.
func replyEnds(f *fixture) {
	a := f.sending().Snapshot
	b := f.submit(replying(a.ID))
	a = f.apply(a, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent}).Snapshot
	f.claimed()
	f.is(f.job(b.ID).WaitsFor, a.ID, "waits for a failed job")
	late := f.submit(replying(a.ID))
	f.is(late.WaitsFor, a.ID, "waits for a job that had failed")
	f.apply(a, job.RetryAsked{})
	s := f.arm(f.claimed(a.ID)[0]).Snapshot
	f.apply(s, succeeded(s, "second"))
	for _, l := range f.claimed(b.ID, late.ID) {
		f.is(l.ReplyTo, "second", "effect to reply to")
	}
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

func replyWindow(f *fixture) {
	a := f.sending().Snapshot
	a = f.apply(a, answer(a, job.ResultUnknown)).Snapshot
	b := f.submit(replying(a.ID))
	f.clock.advance(2 * time.Hour)
	f.is(f.overdue(), []job.ID{b.ID}, "overdue")
	expired := f.apply(f.job(b.ID), job.WindowOver{}).Snapshot
	f.is(expired.State, job.Expired, "state")
	f.is(strings.Contains(expired.LastError.Message, a.ID.String()), true, "the error says for whom: %s", expired.LastError.Message)
	// RetryJob brings a new window, not the predecessor's success.
	retried := f.apply(expired, job.RetryAsked{}).Snapshot
	f.is([]any{retried.State, retried.WaitsFor}, []any{job.Retrying, a.ID}, "state and waits for")
	f.claimed()
	f.apply(a, succeeded(a, "x"))
	f.is(f.claimed(b.ID)[0].ReplyTo, "x", "effect to reply to")
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
