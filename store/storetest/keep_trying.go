package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var keepTryingTests = []test{
	{"the start window ends with the first attempt", keepTryingArm},
	{"a claim that arms begins a job too", keepTryingClaimArmed},
	{"a start that failed begins a job", keepTryingFailedStart},
	{"the time to keep trying is over", keepTryingOver},
	{"a longer time reaches a repeat", keepTryingLonger},
	{"a new time or a retry begins again", keepTryingAnew},
}

// trying sets how long a job is tried.
func trying(d time.Duration) func(*store.NewJob) {
	return func(n *store.NewJob) { n.Spec.Retry.KeepTrying = d }
}

// tries checks until when a job that has begun is tried.
func (f *fixture) tries(s job.Snapshot, keep time.Duration, until time.Time) {
	f.Helper()
	f.is([]any{s.KeepTrying, s.StartDeadline}, []any{keep, until}, "time to keep trying, and its end")
	f.is(f.job(s.ID), s, "stored job")
}

func refuse(s job.Snapshot) job.Outcome {
	return job.Outcome{Attempt: s.Attempt, Result: job.ResultRejected, Kind: job.FailTransient, HTTPStatus: 404, Message: "404 Not Found"}
}

func keepTryingArm(f *fixture) {
	f.submit(trying(9 * time.Hour))
	f.clock.advance(time.Hour)
	s := f.arm(f.claim()).Snapshot
	began := start.Add(time.Hour)
	f.tries(s, 9*time.Hour, began.Add(9*time.Hour))
	s = f.apply(s, refuse(s)).Snapshot
	f.tries(s, 9*time.Hour, began.Add(9*time.Hour))
	f.clock.advance(8 * time.Hour) // long after the start window
	s = f.arm(f.claim(), func(a *store.Arm) { a.KeepTrying = 20 * time.Hour }).Snapshot
	f.tries(s, 20*time.Hour, began.Add(20*time.Hour))
	s = f.apply(s, answer(s, job.ResultSucceeded)).Snapshot
	f.is(s.State, job.Succeeded, "state")
}

func keepTryingClaimArmed(f *fixture) {
	f.submit(trying(9 * time.Hour))
	f.clock.advance(time.Minute)
	out, _ := f.claimArming()
	f.is(out[0].Armed != nil, true, "armed")
	f.tries(out[0].Armed.Snapshot, 9*time.Hour, start.Add(time.Minute+9*time.Hour))
	s := f.apply(out[0].Armed.Snapshot, answer(out[0].Armed.Snapshot, job.ResultSucceeded)).Snapshot
	f.tries(s, 9*time.Hour, start.Add(time.Minute+9*time.Hour))
}

func keepTryingFailedStart(f *fixture) {
	f.submit(trying(9 * time.Hour))
	s := f.apply(f.claim().Snapshot, job.Deferred{Kind: job.FailHeld}).Snapshot
	f.is([]any{s.KeepTrying, s.StartDeadline}, []any{time.Duration(0), start.Add(2 * time.Hour)}, "a held job has not begun")
	f.clock.advance(time.Hour)
	s = f.apply(f.claim().Snapshot, job.Deferred{Kind: job.FailTransient, Message: "refused"}).Snapshot
	f.is(s.State, job.Retrying, "state")
	f.tries(s, 9*time.Hour, start.Add(10*time.Hour))
	f.clock.advance(8 * time.Hour)
	f.is(f.claim().ID, s.ID, "claimed after its start window")
}

func keepTryingOver(f *fixture) {
	f.submit(trying(time.Hour))
	s := f.arm(f.claim()).Snapshot
	s = f.apply(s, refuse(s)).Snapshot
	f.clock.advance(time.Hour - time.Microsecond)
	f.is(len(f.overdue()), 0, "overdue early")
	f.clock.advance(time.Microsecond)
	f.is(f.overdue(), []job.ID{s.ID}, "overdue")
	f.is(len(f.claimN(10)), 0, "claimed")
	s = f.apply(f.job(s.ID), job.WindowOver{}).Snapshot
	f.is([]any{s.State, s.LastError.Kind, s.LastError.HTTPStatus}, []any{job.Failed, job.FailExhausted, 404}, "state and error")
}

func keepTryingLonger(f *fixture) {
	f.submit(trying(time.Hour))
	s := f.arm(f.claim()).Snapshot
	f.apply(s, answer(s, job.ResultUnknown))
	f.clock.advance(2 * time.Hour)
	f.is(len(f.overdue()), 0, "a job whose outcome is unknown is not overdue")
	l := f.looks()[0]
	f.is(f.armOne(f.intent(l)).Err, store.ErrWindowOver, "the policy as it was")
	again := f.armOne(f.intent(l, func(a *store.Arm) { a.KeepTrying = 5 * time.Hour }))
	f.ok(again.Err)
	f.tries(again.Snapshot, 5*time.Hour, start.Add(5*time.Hour))
}

func keepTryingAnew(f *fixture) {
	f.submit(trying(9 * time.Hour))
	s := f.arm(f.claim()).Snapshot
	s = f.apply(s, refuse(s)).Snapshot
	when := start.Add(30 * time.Hour)
	s = f.apply(s, job.RescheduleAsked{At: when}).Snapshot
	f.is([]any{s.KeepTrying, s.StartDeadline}, []any{time.Duration(0), when.Add(2 * time.Hour)}, "moved")
	f.clock.advance(32 * time.Hour)
	s = f.apply(f.job(s.ID), job.WindowOver{}).Snapshot
	f.is(s.State, job.Expired, "it has not begun again")
	s = f.apply(s, job.RetryAsked{}).Snapshot
	f.is([]any{s.KeepTrying, s.StartDeadline}, []any{time.Duration(0), start.Add(34 * time.Hour)}, "retried")
	s = f.arm(f.claim()).Snapshot
	f.tries(s, 9*time.Hour, start.Add(41*time.Hour))
}
