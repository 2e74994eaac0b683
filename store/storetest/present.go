package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Jobs that end without an attempt if their content is there.
var presentTests = []test{
	{"it is kept", presentKept},
	{"bounds", presentBounds},
	{"what was seen ends the job", presentEnds},
	{"what was seen is nobody's", presentOwned},
	{"no claim arms", presentIntend},
}

// skipping makes a job look for its content first.
func skipping(age time.Duration) func(*store.NewJob) {
	return func(n *store.NewJob) { n.Spec.SkipIfPresent = age }
}

func presentKept(f *fixture) {
	s := f.submit(skipping(time.Hour))
	f.is(s.SkipIfPresent, time.Hour, "as it is stored")
	f.is(f.job(s.ID).SkipIfPresent, time.Hour, "as it is read")
	p, err := f.s.List(f.ctx, store.JobQuery{Project: project, Limit: 10})
	f.ok(err)
	f.is(p.Jobs[0].SkipIfPresent, time.Hour, "as it is listed")
	f.is(f.claim().SkipIfPresent, time.Hour, "as it is claimed")
	f.is(f.submit().SkipIfPresent, time.Duration(0), "of another job")
}

func presentBounds(f *fixture) {
	f.submit(skipping(job.MaxPresentAge))
	for _, d := range []time.Duration{-time.Microsecond, job.MaxPresentAge + time.Microsecond} {
		out, err := f.s.Create(f.ctx, []store.NewJob{f.new(skipping(d))})
		if err == nil {
			err = out[0].Err
		}
		f.fails(err, store.ErrIllegal)
	}
}

func presentEnds(f *fixture) {
	f.submit(skipping(time.Hour))
	l := f.claim()
	f.clock.advance(time.Second)
	seen := job.Observation{ExternalID: "post-1", ExternalURL: "https://example.com/1", Detail: "found as post-1", BegunAt: start, EndedAt: start.Add(time.Second)}
	s := f.apply(l.Snapshot, job.AlreadyPresent{Observation: seen}).Snapshot
	f.is([]any{s.State, s.Attempt, s.Failures, s.Effect}, []any{job.Canceled, 0, 0, (*job.Effect)(nil)}, "state, attempt, failures, effect")
	f.is([]any{s.LastError.Kind, s.Ended}, []any{job.FailAlreadyPresent, start.Add(time.Second)}, "kind of the error, end")
	f.is(len(f.attempts(l.ID)), 0, "attempts")
	e := f.last(l.ID)
	f.is([]any{e.From, e.To, e.Cause, e.Attempt}, []any{job.Claimed, job.Canceled, job.CauseAlreadyPresent, 0}, "event")
	looks, err := f.s.Observations(f.ctx, store.Ref{ID: l.ID}, 0, 10)
	f.ok(err)
	want := seen
	want.Number, want.Verdict = 1, job.SawPresent
	f.is(looks, []job.Observation{want}, "looks")
	p, err := f.s.List(f.ctx, store.JobQuery{Project: project, ErrorKinds: []job.FailureKind{job.FailAlreadyPresent}, Limit: 10})
	f.ok(err)
	f.is(len(p.Jobs), 1, "jobs with this error")
}

// A job that made the object owns it, and another one that makes it later takes it over.
func presentOwned(f *fixture) {
	conn := f.connect(store.Connection{Class: job.Observable})
	f.submit(on(conn), skipping(time.Hour))
	l := f.claim()
	f.apply(l.Snapshot, job.AlreadyPresent{Observation: job.Observation{ExternalID: "post-1"}})
	a := f.sending(on(conn))
	s := f.apply(a.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultUnknown}).Snapshot
	owners, err := f.s.Owners(f.ctx, s.ID, 1, []string{"post-1"})
	f.ok(err)
	f.is(len(owners), 0, "owners")
	f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "post-1"})
	f.is(f.job(s.ID).Effect.SharedWith, job.ID{}, "shared with")
}

func presentIntend(f *fixture) {
	f.submit(skipping(time.Hour))
	n := f.new(skipping(time.Hour), holding("another account"))
	n.Start = &store.ClaimParams{Worker: "worker", Lease: lease, Intent: func(l store.Leased) *store.Arm {
		a := f.intent(l)
		return &a
	}}
	made := f.create(n)[0]
	f.is(made.Started == nil || made.Started.Armed == nil, true, "not armed as it was stored")
	f.is(f.job(n.Spec.ID).SkipIfPresent, time.Hour, "as it is stored")
	out, _ := f.claimArming()
	for _, l := range out {
		f.is(l.Armed == nil, true, "not armed as it was claimed")
	}
}
