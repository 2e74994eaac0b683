package storetest

import (
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var statsTests = []test{
	{"nothing", statsEmpty},
	{"counts by state", statsCounts},
	{"the oldest due job", statsDue},
	{"the oldest unknown outcome", statsUnresolved},
	{"percentiles of the start lag", statsLag},
	{"a lag stays what it was", statsLagKept},
	{"recovered jobs", statsRecovered},
	{"one connection, one project", statsFilter},
}

func (f *fixture) stats(q store.StatsQuery) store.Stats {
	f.Helper()
	if q.Project == "" {
		q.Project = project
	}
	s, err := f.s.Stats(f.ctx, q)
	f.ok(err)
	return s
}

// counted leaves the states out that have no job.
func counted(s store.Stats) map[job.State]int64 {
	out := make(map[job.State]int64)
	for state, n := range s.Counts {
		if n != 0 {
			out[state] = n
		}
	}
	return out
}

func statsEmpty(f *fixture) {
	s := f.stats(store.StatsQuery{Window: time.Hour})
	f.is(counted(s), map[job.State]int64{}, "counts")
	s.Counts = nil
	f.is(s, store.Stats{Now: start}, "statistics")
}

// statsCounts: those that have ended count in their window only.
func statsCounts(f *fixture) {
	before := map[job.State]int64{job.Succeeded: 1, job.Failed: 2, job.Canceled: 1, job.Expired: 3}
	for state, n := range before {
		for range n {
			f.inState(state)
		}
	}
	f.clock.advance(time.Hour)
	recent, all := make(map[job.State]int64), make(map[job.State]int64)
	// SCHEDULED comes last: the others claim on their way.
	for i, state := range slices.Backward(job.States) {
		recent[state] = int64(i%3 + 1)
		all[state] = recent[state] + before[state]
		for range recent[state] {
			f.inState(state)
		}
	}
	f.is(counted(f.stats(store.StatsQuery{Window: 30 * time.Minute})), recent, "counts of half an hour")
	f.is(counted(f.stats(store.StatsQuery{Window: 2 * time.Hour})), all, "counts of two hours")
}

func statsDue(f *fixture) {
	due := func(want time.Duration, what string) {
		f.Helper()
		f.is(f.stats(store.StatsQuery{}).OldestDue, want, "%s", what)
	}
	f.submit(at(start.Add(time.Hour)))
	due(0, "before its time")
	f.clock.advance(time.Hour + time.Minute)
	due(time.Minute, "a due job")
	f.submit(holding("other"), at(start))
	due(61*time.Minute, "one that is due for longer")
	f.claimN(1)
	f.claimN(1)
	due(0, "all are claimed")

	f.submit(holding("held"))
	f.holdIt(job.FailAuth, 0)
	f.submit(on(f.connect(store.Connection{PausedAt: start})))
	f.clock.advance(time.Minute)
	due(0, "a hold and a pause")
	f.submit(holding("limited"))
	f.holdIt(job.FailRateLimited, 0)
	f.submit(holding("limited"))
	f.clock.advance(30 * time.Second)
	due(0, "a rate limit")
	f.clock.advance(40 * time.Second)
	due(70*time.Second, "after the rate limit")
	all := f.claimN(10)
	f.is(len(all), 2, "claimed")
	f.submit(replying(all[0].ID))
	f.clock.advance(time.Second)
	due(0, "a job that waits for another one")
}

func statsUnresolved(f *fixture) {
	oldest := func(want time.Duration, what string) {
		f.Helper()
		f.is(f.stats(store.StatsQuery{}).OldestUnresolved, want, "%s", what)
	}
	oldest(0, "nothing")
	a := f.sending().Snapshot // armed at the start
	f.clock.advance(10 * time.Second)
	oldest(0, "in mid-send")
	a = f.apply(a, answer(a, job.ResultUnknown)).Snapshot
	oldest(10*time.Second, "since its arm, not since its answer")
	s := f.submit(on(f.connect(store.Connection{})))
	f.clock.advance(20 * time.Second)
	restored := f.apply(s, job.Restored{Since: start}).Snapshot
	f.clock.advance(time.Second)
	oldest(31*time.Second, "the older one of two")
	again := f.arm(f.looks()[0]).Snapshot
	oldest(time.Second, "one that was never armed, since it changed")
	f.apply(restored, job.Resolved{Ruling: job.RuleCancel, Actor: "ann"})
	oldest(0, "in mid-send again")
	f.clock.advance(5 * time.Second)
	f.apply(again, answer(again, job.ResultUnknown))
	oldest(5*time.Second, "since the last arm")
	f.apply(f.job(a.ID), succeeded(again, "x"))
	oldest(0, "nothing is left")
}

// statsLag: ten starts, late by 1 to 10 s. By rank, the 50th percentile of ten
// is the fifth, the 99th the tenth.
func statsLag(f *fixture) {
	items := make([]store.NewJob, 10)
	for i := range items {
		items[i] = f.new()
	}
	f.create(items...)
	var armed []job.Snapshot
	for range items {
		f.clock.advance(time.Second)
		armed = append(armed, f.arm(f.claimN(1)[0]).Snapshot)
	}
	s := f.stats(store.StatsQuery{Window: time.Hour})
	f.is([]any{s.Started, s.StartLagP50, s.StartLagP99}, []any{int64(10), 5 * time.Second, 10 * time.Second}, "starts")
	// The window leaves out the first three: of seven, the fourth and the seventh.
	s = f.stats(store.StatsQuery{Window: 6500 * time.Millisecond})
	f.is([]any{s.Started, s.StartLagP50, s.StartLagP99}, []any{int64(7), 7 * time.Second, 10 * time.Second}, "starts of the window")
	// A second attempt is no start.
	f.apply(armed[0], job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient})
	f.clock.advance(50 * time.Second)
	f.is(f.arm(f.claim()).Attempt.Number, 2, "attempt")
	s = f.stats(store.StatsQuery{Window: 45 * time.Second})
	f.is([]any{s.Started, s.StartLagP50, s.StartLagP99}, []any{int64(0), time.Duration(0), time.Duration(0)}, "starts besides a second attempt")
}

// statsLagKept: a job that moves after its start was late, or in time, as it was.
func statsLagKept(f *fixture) {
	f.submit()
	f.clock.advance(3 * time.Second)
	s := f.arm(f.claim()).Snapshot
	s = f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient}).Snapshot
	f.apply(s, job.RescheduleAsked{At: start.Add(24 * time.Hour)})
	got := f.stats(store.StatsQuery{Window: time.Hour})
	f.is([]any{got.Started, got.StartLagP50, got.StartLagP99}, []any{int64(1), 3 * time.Second, 3 * time.Second}, "starts")
}

func statsRecovered(f *fixture) {
	conn := f.connect(store.Connection{Class: job.Observable, AccountIdentity: "me"})
	recovered := func(window time.Duration, want int64, what string) {
		f.Helper()
		f.is(f.stats(store.StatsQuery{Window: window}).Recovered, want, "%s", what)
	}
	a := f.sending().Snapshot
	f.apply(a, succeeded(a, "1"))
	u := f.sending().Snapshot
	u = f.apply(u, answer(u, job.ResultUnknown)).Snapshot
	f.apply(u, job.Resolved{Ruling: job.RuleSent, Actor: "ann", Override: true})
	recovered(time.Hour, 0, "an answer and a person's word")
	f.apply(f.observable(conn), saw("2"))
	recovered(time.Hour, 1, "a look")
	f.clock.advance(time.Hour)
	f.ambiguous()
	s := f.arm(f.looks()[0]).Snapshot
	s = f.apply(s, succeeded(s, "3")).Snapshot
	f.is(s.Effect.Proof, job.ProofKeyReplay, "proof")
	recovered(3*time.Hour, 2, "a look and a repeat")
	recovered(time.Minute, 1, "a repeat in the last minute")
}

// statsFilter returns the i-th of three connections i jobs to come, i recovered
// ones, and an unknown one.
func statsFilter(f *fixture) {
	conns := []store.Connection{
		f.connect(store.Connection{Class: job.Observable}), f.connect(store.Connection{Class: job.Observable}),
		f.connect(store.Connection{Class: job.Observable, Project: "other"}),
	}
	for i, c := range conns {
		in := func(n *store.NewJob) { n.Spec.Connection, n.Spec.Project = c.ID, c.Project }
		f.clock.advance(time.Second)
		for n := range i + 1 {
			f.submit(in, at(start.Add(time.Hour-time.Duration(i+1)*time.Minute)))
			s := f.sending(in).Snapshot
			s = f.apply(s, answer(s, job.ResultUnknown)).Snapshot
			f.apply(s, saw(string(rune('a'+n))))
		}
		s := f.sending(in).Snapshot
		f.apply(s, answer(s, job.ResultUnknown))
	}
	f.clock.advance(time.Hour - 3*time.Second)
	for _, tt := range []struct {
		name                                             string
		q                                                store.StatsQuery
		scheduled, succeeded, ambiguous, started, regain int64
		due, unresolved                                  time.Duration
	}{
		{"a project", store.StatsQuery{}, 3, 3, 2, 5, 3, 2 * time.Minute, time.Hour - time.Second},
		{"its first connection", store.StatsQuery{Connection: conns[0].ID}, 1, 1, 1, 2, 1, time.Minute, time.Hour - time.Second},
		{"its second connection", store.StatsQuery{Connection: conns[1].ID}, 2, 2, 1, 3, 2, 2 * time.Minute, time.Hour - 2*time.Second},
		{"another project", store.StatsQuery{Project: "other"}, 3, 3, 1, 4, 3, 3 * time.Minute, time.Hour - 3*time.Second},
		{"another project's connection", store.StatsQuery{Connection: conns[2].ID}, 0, 0, 0, 0, 0, 0, 0},
		{"a connection without jobs", store.StatsQuery{Connection: f.conn.ID}, 0, 0, 0, 0, 0, 0, 0},
	} {
		tt.q.Window = 2 * time.Hour
		s := f.stats(tt.q)
		f.is([]int64{s.Counts[job.Scheduled], s.Counts[job.Succeeded], s.Counts[job.Ambiguous], s.Started, s.Recovered},
			[]int64{tt.scheduled, tt.succeeded, tt.ambiguous, tt.started, tt.regain}, "%s: counts", tt.name)
		f.is([]time.Duration{s.OldestDue, s.OldestUnresolved}, []time.Duration{tt.due, tt.unresolved}, "%s: ages", tt.name)
	}
}
