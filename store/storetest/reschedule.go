package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var rescheduleTests = []test{
	{"to a later time", rescheduleLater},
	{"to now", rescheduleNow},
	{"with another window", rescheduleWindow},
	{"a job that waits for its next attempt", rescheduleRetrying},
	{"not before the delay, not before the time", rescheduleDelay},
	{"run now", runNow},
	{"run now does not bypass a hold", runNowHeld},
	{"retry at a time", retryAt},
}

func rescheduleLater(f *fixture) {
	s := f.submit()
	when := start.Add(5*time.Hour + 7*time.Microsecond)
	got := f.apply(s, job.RescheduleAsked{At: when.Add(999 * time.Nanosecond)}).Snapshot
	f.is([]time.Time{got.ScheduleTime, got.NextAt}, []time.Time{when, when}, "scheduled for and due, in whole microseconds")
	f.is(got.StartDeadline, when.Add(2*time.Hour), "deadline: the window from its time")
	f.is([]any{got.StartWindow, got.Version, got.State}, []any{s.StartWindow, s.Version + 1, job.Scheduled}, "window, version, state")
	f.is(f.last(s.ID).Cause, job.CauseRescheduled, "cause")
	f.is(f.job(s.ID), got, "stored job")
	f.claimed()
	f.clock.advance(5 * time.Hour)
	f.claimed()
	f.clock.advance(7 * time.Microsecond)
	f.claimed(s.ID)
	// The key still returns the job, with its new time.
	p, err := f.s.List(f.ctx, store.JobQuery{Project: project, ScheduleTimeFrom: when})
	f.ok(err)
	f.is(ids(p.Jobs), []job.ID{s.ID}, "listed by the new time")
}

func rescheduleNow(f *fixture) {
	s := f.submit(at(start.Add(5 * time.Hour)))
	f.clock.advance(time.Minute)
	now := start.Add(time.Minute)
	got := f.apply(s, job.RescheduleAsked{}).Snapshot
	f.is([]time.Time{got.ScheduleTime, got.NextAt, got.StartDeadline}, []time.Time{now, now, now.Add(2 * time.Hour)}, "times")
	f.claimed(s.ID)
}

func rescheduleWindow(f *fixture) {
	s := f.submit()
	when := start.Add(time.Hour)
	got := f.apply(s, job.RescheduleAsked{At: when, Window: 10 * time.Minute}).Snapshot
	f.is([]any{got.StartWindow, got.StartDeadline}, []any{10 * time.Minute, when.Add(10 * time.Minute)}, "window and deadline")
	f.is(f.job(s.ID), got, "stored job")
	f.clock.advance(70 * time.Minute)
	f.claimed()
	f.is(f.overdue(), []job.ID{s.ID}, "overdue")
	// A later window has the new length too.
	got = f.apply(f.apply(f.job(s.ID), job.WindowOver{}).Snapshot, job.RetryAsked{}).Snapshot
	f.is(got.StartDeadline, start.Add(80*time.Minute), "deadline after RetryJob")
}

func rescheduleRetrying(f *fixture) {
	s := f.inState(job.Retrying)
	when := start.Add(time.Hour)
	got := f.apply(s, job.RescheduleAsked{At: when}).Snapshot
	f.is([]any{got.State, got.ScheduleTime, got.NextAt}, []any{job.Retrying, when, when}, "state, scheduled for, due")
	f.is([]int{got.Attempt, got.Failures}, []int{s.Attempt, s.Failures}, "counters")
	f.clock.advance(time.Hour)
	f.claimed(s.ID)
}

// rescheduleDelay: due is the later of the delay's end and the time asked for,
// and a new window counts from there.
func rescheduleDelay(f *fixture) {
	for _, tt := range []struct {
		at    time.Time
		delay time.Duration
		want  time.Duration
	}{
		{start.Add(time.Hour), 0, time.Hour},
		{start.Add(time.Hour), 2 * time.Hour, 2 * time.Hour},
		{start.Add(3 * time.Hour), 2 * time.Hour, 3 * time.Hour},
		{start.Add(-time.Hour), 0, 0},
		{time.Time{}, time.Minute, time.Minute},
	} {
		for _, moves := range []bool{false, true} {
			s := f.submit()
			got := f.change(s, job.Decision{
				To: job.Scheduled, Cause: job.CauseRescheduled, Round: 1, Delay: tt.delay, StartAt: tt.at,
				NewWindow: true, Reschedule: moves,
			})
			f.ok(got.Err)
			due, scheduled := start.Add(tt.want), start
			if moves {
				scheduled = due
			}
			g := got.Snapshot
			f.is([]time.Time{g.NextAt, g.StartDeadline, g.ScheduleTime}, []time.Time{due, due.Add(2 * time.Hour), scheduled},
				"at %v, delay %v: due, deadline, scheduled for", tt.at, tt.delay)
		}
	}
}

func runNow(f *fixture) {
	for _, s := range []job.Snapshot{f.submit(at(start.Add(time.Hour))), f.inState(job.Retrying)} {
		got := f.apply(s, job.RunNowAsked{}).Snapshot
		f.is(got.NextAt, start, "due")
		f.is([]any{got.State, got.ScheduleTime, got.StartDeadline}, []any{s.State, s.ScheduleTime, s.StartDeadline}, "all else")
		f.is(f.last(s.ID).Cause, job.CauseRunNow, "cause")
		f.claimed(s.ID)
	}
}

func runNowHeld(f *fixture) {
	f.submit()
	f.holdIt(job.FailAuth, 0)
	s := f.submit(at(start.Add(time.Hour)))
	f.apply(s, job.RunNowAsked{})
	f.claimed()
	next, err := f.s.NextDue(f.ctx, time.Minute)
	f.ok(err)
	f.is(next, time.Minute, "next due")
}

func retryAt(f *fixture) {
	s := f.inState(job.Failed)
	when := start.Add(3 * time.Hour)
	got := f.apply(s, job.RetryAsked{At: when}).Snapshot
	f.is([]any{got.State, got.NextAt, got.StartDeadline}, []any{job.Retrying, when, when.Add(12 * time.Hour)}, "state, due, deadline")
	f.is(got.ScheduleTime, s.ScheduleTime, "canonical time")
	f.clock.advance(3*time.Hour - time.Microsecond)
	f.claimed()
	f.clock.advance(time.Microsecond)
	f.claimed(s.ID)
}
