package storetest

import (
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var readTests = []test{
	{"a job by id and by key", readJob},
	{"names of jobs", readNames},
	{"what is known of attempts", readSnapshot},
	{"attempts", readAttempts},
	{"answers of attempts", readAnswers},
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

func readNames(f *fixture) {
	a := f.submit(func(j *store.NewJob) { j.Spec.Labels = map[string]string{"user": "42"} })
	b := f.submit()
	got, err := f.s.JobNames(f.ctx, project, []job.ID{a.ID, f.id(), b.ID})
	f.ok(err)
	f.is(got, map[job.ID]store.JobName{a.ID: {Key: a.Key, Labels: a.Labels}, b.ID: {Key: b.Key, Labels: b.Labels}}, "names")
	got, err = f.s.JobNames(f.ctx, "another project", []job.ID{a.ID})
	f.ok(err)
	f.is(len(got), 0, "names in another project")
	got, err = f.s.JobNames(f.ctx, project, nil)
	f.ok(err)
	f.is(len(got), 0, "names of nothing")
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
	f.is(got.RoundKey, f.attempts(got.ID)[0].EffectKey, "effect key of the round")
	f.is(got.Handle, "handle", "handle")
	done := f.apply(got, answer(got, job.ResultSucceeded)).Snapshot
	f.is(len(done.Open), 0, "open attempts after the end")
	f.is(done.Fence, start.Add(fence), "fence after the end")
}

// retried returns a job with n attempts that were proven unsent.
func (f *fixture) retried(n int) job.Snapshot {
	f.Helper()
	s := f.submit(func(j *store.NewJob) {
		j.Spec.Retry.KeepTrying, j.Spec.Retry.MaxAttempts = 100*time.Hour, n+2
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

// readAnswers: a kept answer stays with its attempt, whatever follows. Evidence without one
// does not remove it.
func readAnswers(f *fixture) {
	kept := &job.Answer{
		Status: 500, Headers: []job.AnswerHeader{{Name: "Request-Id", Value: "req \"1\""}, {Name: "X", Value: ""}},
		Body: strings.Repeat("é\n\U0001F600", 2<<10), Cut: true,
	}
	s := f.sending().Snapshot
	none := f.sending().Snapshot
	s = f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous, Answer: kept}).Snapshot
	f.is(f.attempts(s.ID)[0].Answer, kept, "answer with an unknown outcome")
	s = f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous, Handle: "h", Message: "more"}).Snapshot
	f.is(f.attempts(s.ID)[0].Answer, kept, "answer after evidence without one")
	late := &job.Answer{Status: 201, Omission: job.BodyBinary}
	s = f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, Answer: late}).Snapshot
	f.is(f.attempts(s.ID)[0].Answer, late, "answer after a later one")
	got, err := f.s.Attempts(f.ctx, store.Ref{Project: project, Key: s.Key}, 0, 10)
	f.ok(err)
	f.is(got[0].Answer, late, "answer by the job's key")
	plain := &job.Answer{Status: 200, Body: "ok"}
	none = f.apply(none, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, HTTPStatus: 200, Answer: plain}).Snapshot
	f.is(f.attempts(none.ID)[0].Answer, plain, "answer with a first success")
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
		o.Number = i + 1
		want = append([]job.Observation{o}, want...)
	}
	got, err := f.s.Observations(f.ctx, store.Ref{Project: project, ID: s.ID}, 0, 0)
	f.ok(err)
	f.is(got, want, "observations, newest first")
	got, err = f.s.Observations(f.ctx, store.Ref{Project: project, ID: s.ID}, 0, 2)
	f.ok(err)
	f.is(got, want[:2], "the newest two")
	for before, rest := range map[int][]job.Observation{9: want, 3: want[1:], 2: want[2:], 1: nil} {
		got, err = f.s.Observations(f.ctx, store.Ref{Project: project, Key: s.Key}, before, 5)
		f.ok(err)
		f.is(append([]job.Observation(nil), got...), rest, "before number %d", before)
	}
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
	_, err = f.s.Observations(f.ctx, ref, 0, 10)
	f.fails(err, store.ErrNotFound)
	_, err = f.s.Events(f.ctx, store.EventQuery{Project: "other", Job: s.ID})
	f.fails(err, store.ErrNotFound)
	_, err = f.s.Connection(f.ctx, store.Ref{Project: "other", ID: f.conn.ID})
	f.fails(err, store.ErrNotFound)
}
