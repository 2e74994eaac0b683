package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var readTests = []test{
	{"a job by id and by key", readJob},
	{"what is known of attempts", readSnapshot},
	{"attempts", readAttempts},
	{"observations", readObservations},
	{"another project's job is not found", readOtherProject},
}

func readJob(f *fixture) {
	want := f.submit()
	got, err := f.s.Job(f.ctx, store.Ref{Project: project, Key: want.Key})
	f.ok(err)
	f.is(got, want, "by key")
	got, err = f.s.Job(f.ctx, store.Ref{ID: want.ID})
	f.ok(err)
	f.is(got, want, "by id, any project")
	_, err = f.s.Job(f.ctx, store.Ref{Project: project, ID: f.id()})
	f.fails(err, store.ErrNotFound)
	_, err = f.s.Job(f.ctx, store.Ref{Project: project, Key: "no such key"})
	f.fails(err, store.ErrNotFound)
}

func readSnapshot(f *fixture) {
	a := f.sending()
	f.ok(f.s.SaveHandle(f.ctx, a.Snapshot.ID, 1, "handle"))
	f.clock.advance(time.Second)
	got := f.job(a.Snapshot.ID)
	f.is(got.Now, start.Add(time.Second), "now")
	f.is(got.Open, []int{1}, "open attempts")
	f.is(got.Fence, start.Add(fence), "fence")
	f.is(got.RoundArmed, start, "first arm of the round")
	f.is(got.Handle, "handle", "handle")
	done := f.apply(got, answer(got, job.ResultSucceeded)).Snapshot
	f.is(len(done.Open), 0, "open attempts after the end")
	f.is(done.Fence, start.Add(fence), "fence after the end")
}

// retried gives a job with n attempts that were proven unsent.
func (f *fixture) retried(n int) job.Snapshot {
	f.Helper()
	s := f.submit(func(j *store.NewJob) {
		j.Spec.StartWindow, j.Spec.Retry.MaxAttempts = 100*time.Hour, n+2
	})
	for range n {
		a := f.arm(f.claim())
		s = f.apply(a.Snapshot, job.Outcome{Attempt: a.Attempt.Number, Result: job.ResultNotSent, Kind: job.FailTransient, Message: "refused"}).Snapshot
		f.clock.advance(2 * time.Hour)
	}
	return s
}

func readAttempts(f *fixture) {
	s := f.retried(4)
	all := f.attempts(s.ID)
	f.is(len(all), 4, "attempts")
	for i, a := range all {
		f.is(a.Number, i+1, "number")
		f.is(a.Result, job.ResultNotSent, "result")
		f.is(a.Kind, job.FailTransient, "kind")
		f.is(a.Message, "refused", "message")
		f.is(a.EndedAt, a.ArmedAt, "end")
	}
	got, err := f.s.Attempts(f.ctx, store.Ref{Project: project, ID: s.ID}, 1, 2)
	f.ok(err)
	f.is(got, all[1:3], "page")
	got, err = f.s.Attempts(f.ctx, store.Ref{Project: project, Key: s.Key}, 4, 2)
	f.ok(err)
	f.is(len(got), 0, "attempts after the last")
}

func readObservations(f *fixture) {
	a := f.sending(on(f.connect(store.Connection{Class: job.Observable})))
	s := f.apply(a.Snapshot, answer(a.Snapshot, job.ResultUnknown)).Snapshot
	var want []job.Observation
	for i := range 3 {
		o := job.Observation{
			Attempt: 1, Verdict: job.SawInconclusive, Detail: "no luck", ExternalID: string(rune('a' + i)),
			BegunAt: start.Add(time.Duration(i) * time.Minute), EndedAt: start.Add(time.Duration(i) * time.Hour),
		}
		s = f.apply(s, job.Looked{Observation: o}).Snapshot
		want = append([]job.Observation{o}, want...)
	}
	got, err := f.s.Observations(f.ctx, store.Ref{Project: project, ID: s.ID}, 0)
	f.ok(err)
	f.is(got, want, "observations, newest first")
	got, err = f.s.Observations(f.ctx, store.Ref{Project: project, ID: s.ID}, 2)
	f.ok(err)
	f.is(got, want[:2], "the newest two")
}

func readOtherProject(f *fixture) {
	s := f.submit()
	ref := store.Ref{Project: "other", ID: s.ID}
	_, err := f.s.Job(f.ctx, ref)
	f.fails(err, store.ErrNotFound)
	_, err = f.s.Job(f.ctx, store.Ref{Project: "other", Key: s.Key})
	f.fails(err, store.ErrNotFound)
	_, err = f.s.Attempts(f.ctx, ref, 0, 10)
	f.fails(err, store.ErrNotFound)
	_, err = f.s.Observations(f.ctx, ref, 10)
	f.fails(err, store.ErrNotFound)
	_, err = f.s.Events(f.ctx, store.EventQuery{Project: "other", Job: s.ID})
	f.fails(err, store.ErrNotFound)
	_, err = f.s.Connection(f.ctx, "other", f.conn.ID)
	f.fails(err, store.ErrNotFound)
}
