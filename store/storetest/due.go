package storetest

import (
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var dueTests = []test{
	{"what is overdue", dueOverdue},
	{"held jobs expire too", dueHeld},
	{"bounded", dueBounded},
	{"the next due time", dueNext},
	{"hints", dueWatch},
	{"no hints after the end", dueWatchEnd},
}

func (f *fixture) overdue() []job.ID {
	f.Helper()
	got, err := f.s.Overdue(f.ctx, 0)
	f.ok(err)
	return ids(got)
}

func dueOverdue(f *fixture) {
	for _, tt := range []struct {
		state job.State
		after time.Duration // 0: never
	}{
		{job.Scheduled, 12 * time.Hour}, {job.Retrying, job.DefaultKeepTrying},
		{job.Claimed, lease}, {job.Sending, fence},
		{job.Accepted, 0}, {job.Ambiguous, 0}, {job.NeedsResolution, 0},
		{job.Succeeded, 0}, {job.Failed, 0}, {job.Canceled, 0}, {job.Expired, 0},
	} {
		f := newFixture(f.T, f.open)
		s := f.inState(tt.state)
		if tt.after == 0 {
			f.clock.advance(1000 * time.Hour)
			f.is(len(f.overdue()), 0, "%s overdue", tt.state)
			continue
		}
		f.clock.advance(tt.after - time.Microsecond)
		f.is(len(f.overdue()), 0, "%s overdue early", tt.state)
		f.clock.advance(time.Microsecond)
		f.is(f.overdue(), []job.ID{s.ID}, "%s overdue", tt.state)
		f.is(f.overdue(), []job.ID{s.ID}, "reading changes nothing for %s", tt.state)
		f.unchanged(s)
	}
	// A claimed job whose window ends before its lease.
	f.submit(func(n *store.NewJob) { n.Spec.StartWindow = time.Second })
	l := f.claim()
	f.clock.advance(time.Second)
	f.is(f.overdue(), []job.ID{l.ID}, "claimed past its window")
	f.clock.advance(lease)
	f.is(f.overdue(), []job.ID{l.ID}, "past window and lease, once")
}

func dueHeld(f *fixture) {
	s := f.submit()
	f.holdIt(job.FailAuth, 0)
	f.clock.advance(2 * time.Hour)
	f.is(f.overdue(), []job.ID{s.ID}, "overdue")
}

func dueBounded(f *fixture) {
	for range 5 {
		f.submit()
	}
	f.claimN(3)
	f.clock.advance(3 * time.Hour)
	for _, limit := range []int{1, 2, 4} {
		got, err := f.s.Overdue(f.ctx, limit)
		f.ok(err)
		f.is(len(got), limit, "overdue")
	}
	all := f.overdue()
	slices.SortFunc(all, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) })
	f.is(len(slices.Compact(all)), 5, "different jobs")
}

func dueNext(f *fixture) {
	next := func(want time.Duration, what string) {
		f.Helper()
		got, err := f.s.NextDue(f.ctx, 24*time.Hour)
		f.ok(err)
		f.is(got, want, "%s", what)
	}
	next(24*time.Hour, "an empty store")
	s := f.submit(at(start.Add(time.Hour)))
	next(time.Hour, "a scheduled job")
	f.clock.advance(90 * time.Minute)
	next(0, "a due job")
	l := f.claim()
	next(lease, "a lease")
	f.clock.advance(time.Second)
	a := f.arm(l)
	next(fence, "a fence")
	u := f.apply(a.Snapshot, answer(a.Snapshot, job.ResultUnknown)).Snapshot
	next(u.NextAt.Sub(f.clock.now()), "a look")
	f.apply(u, job.Outcome{Attempt: 1, Result: job.ResultSucceeded})
	next(24*time.Hour, "an ended job")
	f.is(f.job(s.ID).State, job.Succeeded, "state")
	got, err := f.s.NextDue(f.ctx, time.Second)
	f.ok(err)
	f.is(got, time.Second, "at most the limit")
}

// token takes a hint if there is one.
func token(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func dueWatch(f *fixture) {
	work, endWork := f.s.Watch(store.WatchWork)
	defer endWork()
	events, endEvents := f.s.Watch(store.WatchEvents)
	defer endEvents()
	f.is(token(work) || token(events), false, "hint before any write")
	f.submit()
	f.submit()
	f.is(token(work), true, "work hint")
	f.is(token(work), false, "hints that nobody took are dropped")
	f.is(token(events), true, "event hint")
	l := f.claimN(1)[0]
	f.is(token(events), true, "event hint of a claim")
	a := f.arm(l)
	token(work)
	f.apply(a.Snapshot, answer(a.Snapshot, job.ResultUnknown))
	f.is(token(work), true, "work hint of a look to come")
	token(events)
	_, err := f.s.Job(f.ctx, store.Ref{ID: l.ID})
	f.ok(err)
	f.is(token(events), false, "hint of a read")
	in := func(d time.Duration) func(*store.NewJob) {
		return func(n *store.NewJob) { n.ScheduleTime = f.clock.now().Add(d) }
	}
	token(work)
	f.submit(in(store.HintAhead - time.Microsecond))
	f.is(token(work), true, "work hint of a job that is due soon")
	f.submit(in(store.HintAhead))
	f.is(token(work), false, "work hint of a job that is due later")
	f.is(token(events), true, "event hint of a job that is due later")
}

func dueWatchEnd(f *fixture) {
	work, end := f.s.Watch(store.WatchWork)
	other, endOther := f.s.Watch(store.WatchWork)
	defer endOther()
	end()
	end()
	f.submit()
	f.is(token(work), false, "hint after the end")
	f.is(token(other), true, "hint of another watcher")
}
