package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var doubtfulTests = []test{
	{"by state", doubtfulStates},
	{"due, and in its window", doubtfulTimes},
	{"batch by batch", doubtfulBatches},
}

func (f *fixture) doubtful(since time.Time, limit int) []job.ID {
	f.Helper()
	got, err := f.s.Doubtful(f.ctx, since, limit)
	f.ok(err)
	return ids(got)
}

func doubtfulStates(f *fixture) {
	for _, state := range job.States {
		f := newFixture(f.T, f.open)
		s := f.inState(state)
		f.clock.advance(time.Hour)
		var want []job.ID
		if state.Runnable() || state == job.Claimed {
			want = []job.ID{s.ID}
		}
		f.is(f.doubtful(start, 10), want, "%s", state)
		f.unchanged(s)
	}
}

func doubtfulTimes(f *fixture) {
	s := f.submit(at(start.Add(time.Hour)))
	f.is(len(f.doubtful(start, 10)), 0, "before its time")
	f.clock.advance(time.Hour)
	f.is(f.doubtful(start, 10), []job.ID{s.ID}, "at its time")
	f.is(f.doubtful(time.Time{}, 10), []job.ID{s.ID}, "since the zero time")
	f.clock.advance(10 * time.Hour)
	over := start.Add(3 * time.Hour)
	f.is(f.doubtful(over.Add(-time.Microsecond), 10), []job.ID{s.ID}, "its window was open then")
	f.is(len(f.doubtful(over, 10)), 0, "its window was over then")

	// A lease under way proves that the job was due.
	fresh := f.submit()
	f.claimed(fresh.ID)
	f.is(f.doubtful(over, 10), []job.ID{fresh.ID}, "claimed")
	// It does not matter either what a job waits for: that may be over in the lost state.
	a := f.arm(f.claimedAgain(fresh.ID)).Snapshot
	reply := f.submit(replying(a.ID))
	f.is(f.doubtful(over, 10), []job.ID{reply.ID}, "waits for another job")
}

// claimedAgain returns a job to its queue and claims it again.
func (f *fixture) claimedAgain(id job.ID) store.Leased {
	f.Helper()
	f.apply(f.job(id), job.Deferred{Kind: job.FailHeld, Message: "shutdown"})
	return f.claimed(id)[0]
}

func doubtfulBatches(f *fixture) {
	other := f.connect(store.Connection{Project: "other"})
	want := make(map[job.ID]bool)
	for range 5 {
		want[f.submit().ID] = true
		want[f.submit(on(other), func(n *store.NewJob) { n.Spec.Project = "other" }).ID] = true
	}
	for range 4 {
		got, err := f.s.Doubtful(f.ctx, start, 3)
		f.ok(err)
		f.is(len(got) <= 3, true, "%d in a batch of 3", len(got))
		for _, s := range got {
			f.is(want[s.ID], true, "job %s, once, of any project", s.ID)
			delete(want, s.ID)
			s = f.apply(s, job.Restored{Since: start}).Snapshot
			f.is([]any{s.State, s.LastError.Kind}, []any{job.NeedsResolution, job.FailAmbiguous}, "state and error")
			p, err := f.s.Events(f.ctx, store.EventQuery{Project: s.Project, Job: s.ID})
			f.ok(err)
			f.is(p.Events[1].Cause, job.CauseRestored, "cause")
		}
	}
	f.is(len(want), 0, "jobs left out")
	f.is(len(f.doubtful(start, 3)), 0, "doubtful in the end")
}
