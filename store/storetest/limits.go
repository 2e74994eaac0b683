package storetest

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Bounds and guards under many concurrent callers. Nothing here assumes that they are served
// one after the other, or that a claim finds what another one is looking at.
var limitTests = []test{
	{"jobs under way", limitInFlight},
	{"claims per minute", limitPerMinute},
	{"a hold", limitHold},
	{"fair shares", limitFair},
	{"one intent per content", limitGate},
	{"one intent per lease", limitLease},
	{"batches in opposite orders", limitBatches},
}

const crowd = 8

// together runs fn in many goroutines concurrently.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			fn(i)
		})
	}
	close(begin)
	wg.Wait()
}

// tryClaim is claimN for goroutines, which must not end the test.
func (f *fixture) tryClaim(n int) []store.Leased {
	out, err := f.s.Claim(f.ctx, store.ClaimParams{Worker: "w", Lease: lease, Limit: n})
	if err != nil {
		f.Error(err)
	}
	return out
}

// limitInFlight: every worker counts the jobs that it holds. A job counts from when its claim
// has returned until just before its end is written, so the count is never above the true
// one.
func limitInFlight(f *fixture) {
	const bound, jobs = 3, 60
	conn := f.connect(store.Connection{MaxInFlight: bound})
	items := make([]store.NewJob, jobs)
	for i := range items {
		items[i] = f.new(on(conn), holding([]string{"a", "b", "c"}[i%3]))
	}
	f.create(items...)
	var busy, most, done atomic.Int64
	together(crowd, func(int) {
		for done.Load() < jobs && !f.Failed() {
			got := f.tryClaim(2)
			for now := busy.Add(int64(len(got))); ; {
				if top := most.Load(); now <= top || most.CompareAndSwap(top, now) {
					break
				}
			}
			runtime.Gosched()
			for _, l := range got {
				d, err := job.Decide(l.View(f.traits(l.Snapshot), 0), job.CancelAsked{})
				busy.Add(-1)
				if err == nil {
					_, err = f.s.Apply(f.ctx, []store.Change{{Job: l.ID, Version: l.Version, Decision: d}})
				}
				if err != nil {
					f.Error(err)
				}
				done.Add(1)
			}
		}
	})
	f.is(done.Load(), int64(jobs), "jobs done, each once")
	f.is(most.Load() <= bound, true, "%d jobs under way at once, of %d", most.Load(), bound)
	if most.Load() == 0 {
		f.Fatal("nothing was claimed")
	}
	f.claimed()
}

func limitPerMinute(f *fixture) {
	const perMinute = 20
	conn := f.connect(store.Connection{MaxPerMinute: perMinute, MaxInFlight: 1000})
	items := make([]store.NewJob, 5*perMinute)
	for i := range items {
		items[i] = f.new(on(conn), holding([]string{"a", "b"}[i%2]))
	}
	f.create(items...)
	const seconds = 150
	claims := make([]int64, seconds)
	for s := range seconds {
		var n atomic.Int64
		together(crowd, func(int) { n.Add(int64(len(f.tryClaim(10)))) })
		claims[s] = n.Load() + int64(len(f.claimN(10))) // what no claim got in the rush
		f.clock.advance(time.Second)
	}
	total := int64(0)
	for s := range claims {
		in := int64(0)
		for _, n := range claims[s:min(seconds, s+60)] {
			in += n
		}
		f.is(in <= perMinute, true, "%d claims in a minute, of %d", in, perMinute)
		total += claims[s]
	}
	f.is(total > 2*perMinute, true, "%d claims in %d s: the bucket fills again", total, seconds)
}

func limitHold(f *fixture) {
	f.submit(holding("held"))
	f.holdIt(job.FailAuth, 0)
	want := make(map[job.ID]bool)
	for range 30 {
		f.submit(holding("held"))
		want[f.submit(holding("free")).ID] = true
	}
	var mu sync.Mutex
	got := make(map[job.ID]int)
	take := func(list []store.Leased) {
		mu.Lock()
		defer mu.Unlock()
		for _, l := range list {
			got[l.ID]++
		}
	}
	together(crowd, func(int) {
		for range 5 {
			take(f.tryClaim(3))
		}
	})
	take(f.claimN(store.MaxBatch))
	for id, n := range got {
		f.is([]any{n, want[id]}, []any{1, true}, "claims of a job, and whether it is free")
	}
	f.is(len(got), len(want), "jobs claimed")
}

// limitFair: a backlog of one connection delays no other one, for every claimer.
func limitFair(f *fixture) {
	const conns = 5
	f.backlog(conns, 60)
	var mu sync.Mutex
	served := make(map[job.ID]int)
	take := func(list []store.Leased) {
		mu.Lock()
		defer mu.Unlock()
		for _, l := range list {
			served[l.Connection.ID]++
		}
	}
	together(crowd, func(int) { take(f.tryClaim(conns)) })
	take(f.claimN(conns))
	f.is(len(served), conns, "connections served")
}

// sameContent returns leases of jobs with the same content on one account.
func (f *fixture) sameContent(n int) []store.Leased {
	f.Helper()
	conn := f.connect(store.Connection{Class: job.Observable, AccountIdentity: "me"})
	items := make([]store.NewJob, n)
	for i := range items {
		items[i] = f.new(on(conn))
	}
	f.create(items...)
	got := f.claimN(n)
	f.is(len(got), n, "leases")
	return got
}

func limitGate(f *fixture) {
	got := f.sameContent(2 * crowd)
	verdicts := make([]store.Armed, len(got))
	arms := make([]store.Arm, len(got))
	for round := range 3 {
		for i, l := range got {
			arms[i] = f.intent(l, gate("hello"))
		}
		together(len(got), func(i int) {
			out, err := f.s.Arm(f.ctx, arms[i:i+1])
			if err != nil {
				f.Error(err)
				return
			}
			verdicts[i] = out[0]
		})
		winner := -1
		for i, v := range verdicts[:len(got)] {
			if v.Err == nil {
				f.is(winner, -1, "round %d: winners before job %d", round, i)
				winner = i
				continue
			}
			f.fails(v.Err, store.ErrGated)
			f.unchanged(got[i].Snapshot)
		}
		f.is(winner >= 0, true, "round %d: somebody got through", round)
		s := verdicts[winner].Snapshot
		f.apply(s, succeeded(s, ""))
		got = append(got[:winner:winner], got[winner+1:]...)
		arms, verdicts = arms[:len(got)], verdicts[:len(got)]
	}
}

func limitLease(f *fixture) {
	l := f.sameContent(1)[0]
	arms, verdicts := make([]store.Arm, crowd), make([]store.Armed, crowd)
	for i := range arms {
		arms[i] = f.intent(l, gate("hello"))
	}
	together(crowd, func(i int) {
		out, err := f.s.Arm(f.ctx, arms[i:i+1])
		if err != nil {
			f.Error(err)
			return
		}
		verdicts[i] = out[0]
	})
	won := 0
	for i, v := range verdicts {
		by, err := f.s.ArmedBy(f.ctx, l.ID, arms[i].Token)
		if v.Err == nil {
			won++
			f.ok(err)
			f.is(by.Attempt, v.Attempt, "attempt read back")
			continue
		}
		f.fails(v.Err, store.ErrStale)
		f.fails(err, store.ErrNotFound)
	}
	f.is([]int{won, len(f.attempts(l.ID)), f.job(l.ID).Attempt}, []int{1, 1, 1}, "winners, attempts, attempt")
}

// limitBatches: two batches with the same jobs in opposite orders wait for each other and
// then return their verdicts; neither ends in a deadlock.
func limitBatches(f *fixture) {
	const jobs = 20
	got := f.sameContent(jobs)
	batches := make([][]store.Arm, crowd)
	for i := range batches {
		for k := range got {
			if i%2 == 1 {
				k = jobs - 1 - k
			}
			batches[i] = append(batches[i], f.intent(got[k]))
		}
	}
	var won atomic.Int64
	together(crowd, func(i int) {
		out, err := f.s.Arm(f.ctx, batches[i])
		if err != nil {
			f.Error(err)
			return
		}
		for _, a := range out {
			if a.Err == nil {
				won.Add(1)
			}
		}
	})
	f.is(won.Load(), int64(jobs), "intents")
	won.Store(0)
	together(crowd, func(i int) {
		var changes []store.Change
		for _, a := range batches[i] {
			s, err := f.s.Job(f.ctx, store.Ref{ID: a.Job})
			if err != nil {
				f.Error(err)
				return
			}
			d, err := job.Decide(s.View(f.traits(s), 0), job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: s.ID.String()})
			if err != nil || d.Action != job.ActWrite {
				continue // another caller was faster
			}
			changes = append(changes, store.Change{Job: s.ID, Version: s.Version, Decision: d})
		}
		out, err := f.s.Apply(f.ctx, changes)
		if err != nil {
			f.Error(err)
			return
		}
		for _, a := range out {
			if a.Err == nil {
				won.Add(1)
			}
		}
	})
	f.is(won.Load(), int64(jobs), "successes")
}
