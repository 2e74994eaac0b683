package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var claimTests = []test{
	{"a lease", claimLease},
	{"nothing before its time", claimNotDue},
	{"nothing after its window", claimWindow},
	{"only SCHEDULED and RETRYING", claimStates},
	{"each job once", claimConcurrent},
	{"the limit", claimLimit},
	{"fair shares", claimFair},
	{"turns for small claims", claimTurns},
	{"a hold costs nothing and hides nobody", claimHold},
	{"each hold key says why a credential holds it", claimHoldCauses},
	{"a refusal that does not say why holds as a refusal", claimHoldWithoutCause},
	{"a rate limit ends by itself", claimRateLimit},
	{"a refused credential that was replaced holds nothing", claimStaleAuth},
	{"jobs under way are bounded", claimInFlight},
	{"claims per minute are bounded", claimPerMinute},
	{"a worker without room leaves jobs to others", claimRoom},
	{"a paused connection", claimPaused},
}

func claimLease(f *fixture) {
	n := f.new()
	f.create(n)
	f.clock.advance(time.Second)
	l := f.claim()
	f.is(l.ID, n.Spec.ID, "job")
	f.is(l.State, job.Claimed, "state")
	f.is(l.Version, int64(2), "version")
	f.is(l.ClaimToken.IsZero(), false, "no token")
	f.is(l.NextAt, start.Add(time.Second+lease), "end of the lease")
	f.is(l.Worker, "worker", "worker")
	f.is(l.Payload, n.Spec.Payload, "payload")
	f.is(l.Connection, f.conn, "connection")
	f.is(f.job(l.ID), l.Snapshot, "stored job")
	f.is(len(f.claimN(10)), 0, "claimed again")
}

func claimNotDue(f *fixture) {
	s := f.submit(at(start.Add(time.Hour)))
	f.is(len(f.claimN(10)), 0, "claimed before its time")
	f.clock.advance(time.Hour - time.Microsecond)
	f.is(len(f.claimN(10)), 0, "claimed a microsecond before its time")
	f.clock.advance(time.Microsecond)
	f.is(f.claim().ID, s.ID, "claimed at its time")
}

func claimWindow(f *fixture) {
	f.submit()
	f.clock.advance(2 * time.Hour)
	f.is(len(f.claimN(10)), 0, "claimed at its deadline")
	fresh := f.submit()
	f.is(f.claim().ID, fresh.ID, "claimed behind a job whose window is over")
}

func claimStates(f *fixture) {
	for _, state := range job.States {
		f := newFixture(f.T, f.open)
		s := f.inState(state)
		// All due times pass, no window ends.
		f.clock.advance(time.Hour)
		got := f.claimN(10)
		f.is(len(got) == 1, state.Runnable(), "%s claimed", state)
		if state.Runnable() {
			f.is(got[0].Version, s.Version+1, "version")
			f.is(f.last(s.ID).From, state, "event's from")
		}
	}
}

func claimConcurrent(f *fixture) {
	const jobs, workers = 200, 8
	items := make([]store.NewJob, jobs)
	for i := range items {
		items[i] = f.new()
	}
	f.create(items...)
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen, tokens := make(map[job.ID]int), make(map[job.ID]bool)
	for range workers {
		wg.Go(func() {
			for {
				got, err := f.s.Claim(f.ctx, store.ClaimParams{Worker: "w", Lease: lease, Limit: 7})
				if err != nil {
					f.Error(err)
					return
				}
				if len(got) == 0 {
					return
				}
				mu.Lock()
				for _, l := range got {
					seen[l.ID]++
					tokens[l.ClaimToken] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// The connection states no bound of its own, so the engine's default holds.
	for id, n := range seen {
		f.is(n, 1, "claims of %s", id)
	}
	f.is(len(tokens), len(seen), "tokens")
	if len(seen) == 0 {
		f.Fatal("nothing was claimed")
	}
}

func claimLimit(f *fixture) {
	for range 5 {
		f.submit()
	}
	f.is(len(f.claimN(2)), 2, "claimed")
	f.is(len(f.claimN(2)), 2, "claimed")
	f.is(len(f.claimN(2)), 1, "claimed")
}

// backlog returns n connections: the first has many due jobs, the others one
// each, due later.
func (f *fixture) backlog(n, jobs int) {
	conns := make([]store.Connection, n)
	for i := range conns {
		conns[i] = f.connect(store.Connection{})
	}
	items := make([]store.NewJob, jobs)
	for i := range items {
		items[i] = f.new(on(conns[0]))
	}
	f.create(items...)
	f.clock.advance(time.Second)
	for _, c := range conns[1:] {
		f.submit(on(c))
	}
	f.clock.advance(time.Second)
}

func claimFair(f *fixture) {
	f.backlog(5, 60)
	got := make(map[job.ID]int)
	for _, l := range f.claimN(10) {
		got[l.Connection.ID]++
	}
	f.is(len(got), 5, "connections served by one claim")
	total := 0
	for _, n := range got {
		total += n
	}
	f.is(total, 10, "claimed: what others do not need goes to the backlog")
}

func claimTurns(f *fixture) {
	const conns = 4
	f.backlog(conns, 60)
	served := make(map[job.ID]bool)
	for range conns {
		for _, l := range f.claimN(1) {
			served[l.Connection.ID] = true
		}
	}
	f.is(len(served), conns, "connections served by as many single claims")
}

// holdIt claims a job and returns it with a hold.
func (f *fixture) holdIt(kind job.FailureKind, credential int) {
	f.Helper()
	f.holdFor(kind, credential, 0)
}

func (f *fixture) holdFor(kind job.FailureKind, credential int, auth job.AuthCause) {
	f.Helper()
	l := f.claimN(1)[0]
	f.apply(l.Snapshot, job.Deferred{
		Kind: kind, Message: "held", RetryAfter: time.Minute, CredentialVersion: credential, Auth: auth,
	})
}

func (f *fixture) hold(key string) store.Hold {
	f.Helper()
	h, err := f.s.Hold(f.ctx, f.conn.ID, key)
	f.ok(err)
	return h
}

// claimHoldCauses: each hold key has its own cause, and the connection has the oldest one.
func claimHoldCauses(f *fixture) {
	at := start
	for cause := job.AuthRefused; cause <= job.AuthOtherAccount; cause++ {
		key := cause.String()
		f.submit(holding(key))
		f.holdFor(job.FailAuth, 0, cause)
		f.is(f.hold(key), store.Hold{AuthAt: at, Auth: cause, Reason: "held"}, "hold of %s", key)
		f.is(f.connection(f.conn.ID).AuthHoldCause, job.AuthRefused, "the connection's cause beside %s", key)
		f.clock.advance(time.Second)
		at = at.Add(time.Second)
	}
	f.is(f.hold("nobody knows it"), store.Hold{}, "hold of a key without jobs")
	f.submit(holding("slow"))
	f.holdIt(job.FailRateLimited, 0)
	f.is(f.hold("slow"), store.Hold{LimitedUntil: at.Add(time.Minute)}, "a limit")
}

// claimHoldWithoutCause: only what holds has a cause.
func claimHoldWithoutCause(f *fixture) {
	f.submit()
	f.holdIt(job.FailAuth, 0)
	f.is(f.hold(holdKey), store.Hold{AuthAt: start, Auth: job.AuthRefused, Reason: "held"}, "hold")
	f.submit(holding("free"))
	f.is(f.hold("free"), store.Hold{}, "hold of a key beside it")
}

func claimHold(f *fixture) {
	f.submit(holding("held"))
	f.holdIt(job.FailAuth, 0)
	for range 20 {
		f.submit(holding("held"))
	}
	f.clock.advance(time.Minute)
	free := f.submit(holding("free"))
	f.is(f.claim().ID, free.ID, "the only job that is not held")
	next, err := f.s.NextDue(f.ctx, time.Minute)
	f.ok(err)
	f.is(next, time.Minute, "held jobs are not due")
	c, err := f.s.Connection(f.ctx, store.Ref{Project: project, ID: f.conn.ID})
	f.ok(err)
	f.is(c.AuthHoldAt, start, "hold")
	f.is(c.AuthHoldReason, "held", "reason of the hold")
}

func claimRateLimit(f *fixture) {
	s := f.submit()
	f.holdIt(job.FailRateLimited, 0)
	other := f.submit()
	f.is(len(f.claimN(10)), 0, "claimed under a rate limit")
	c, err := f.s.Connection(f.ctx, store.Ref{Project: project, ID: f.conn.ID})
	f.ok(err)
	f.is(c.RateLimitedUntil, start.Add(time.Minute), "rate limit")
	next, err := f.s.NextDue(f.ctx, time.Hour)
	f.ok(err)
	f.is(next, time.Minute, "next due")
	f.clock.advance(time.Minute)
	f.is(len(f.claimN(10)), 2, "claimed after the rate limit")
	f.is(f.job(s.ID).State, job.Claimed, "state")
	f.is(f.job(other.ID).State, job.Claimed, "state")
}

func claimStaleAuth(f *fixture) {
	s := f.submit()
	f.holdIt(job.FailAuth, 7) // the connection's credential is version 0
	f.is(f.claim().ID, s.ID, "claimed again")
}

func claimInFlight(f *fixture) {
	conn := f.connect(store.Connection{MaxInFlight: 2})
	for i := range 5 {
		f.submit(on(conn), holding([]string{"a", "b"}[i%2]))
	}
	got := f.claimN(10)
	f.is(len(got), 2, "claimed of a connection that takes two")
	f.is(len(f.claimN(10)), 0, "claimed above the bound")
	next, err := f.s.NextDue(f.ctx, time.Second)
	f.ok(err)
	f.is(next, time.Second, "a connection at its bound has nothing due")
	a := f.arm(got[0])
	f.is(len(f.claimN(10)), 0, "claimed while one is sent")
	f.apply(a.Snapshot, answer(a.Snapshot, job.ResultSucceeded))
	f.is(len(f.claimN(10)), 1, "claimed after one ended")
	f.apply(got[1].Snapshot, job.CancelAsked{})
	f.is(len(f.claimN(10)), 1, "claimed after one was cancelled")
	f.is(len(f.claimN(10)), 0, "claimed above the bound")
}

func claimPerMinute(f *fixture) {
	const perMinute = 20
	conn := f.connect(store.Connection{MaxPerMinute: perMinute, MaxInFlight: 1000})
	items := make([]store.NewJob, 4*perMinute)
	for i := range items {
		items[i] = f.new(on(conn))
		items[i].Spec.StartWindow = 24 * time.Hour
	}
	f.create(items...)
	var times []time.Time
	for range 240 {
		for range f.claimN(100) {
			times = append(times, f.clock.now())
		}
		f.clock.advance(time.Second)
	}
	f.is(len(times) > 2*perMinute, true, "%d claims in four minutes", len(times))
	for i := range times {
		in := 0
		for _, other := range times[i:] {
			if other.Sub(times[i]) < time.Minute {
				in++
			}
		}
		f.is(in <= perMinute, true, "%d claims in a minute, of %d", in, perMinute)
	}
}

func claimPaused(f *fixture) {
	conn := f.connect(store.Connection{PausedAt: start, PausedReason: "holiday"})
	f.submit(on(conn))
	f.is(len(f.claimN(10)), 0, "claimed of a paused connection")
	f.is(conn.PausedReason, "holiday", "reason")
}

// claimRoom: a claim takes no more of a connection or a project than its worker has room for, and
// finds the jobs of others behind as many due rows without room as it reads at most.
func claimRoom(f *fixture) {
	wide := f.connect(store.Connection{MaxInFlight: 1000})
	for i := range 40 {
		f.submit(on(wide), holding(fmt.Sprint("host ", i)))
	}
	f.clock.advance(time.Second)
	claim := func(n int, room *store.Room) []store.Leased {
		out, err := f.s.Claim(f.ctx, store.ClaimParams{Worker: "worker", Lease: lease, Limit: n, Room: room})
		f.ok(err)
		return out
	}
	room := store.Room{Connection: 3, Project: 5}
	f.is(len(claim(10, &room)), 3, "jobs of a connection")
	room.Connections = map[job.ID]int{wide.ID: 1}
	f.is(len(claim(10, &room)), 1, "jobs of a connection with one place left")
	other := f.connect(store.Connection{})
	f.submit(on(other))
	f.clock.advance(time.Second)
	full := store.Room{Connection: 3, Project: 5, Connections: map[job.ID]int{wide.ID: 0}}
	got := claim(4, &full)
	f.is(len(got), 1, "jobs beside a connection without room")
	f.is(got[0].Spec.Connection, other.ID, "its connection")
	f.submit(on(other))
	apart := f.connect(store.Connection{Project: "apart"})
	f.submit(on(apart), func(n *store.NewJob) { n.Spec.Project = "apart" })
	f.clock.advance(time.Second)
	full = store.Room{Connection: 3, Project: 5, Projects: map[string]int{project: 0}}
	got = claim(4, &full)
	f.is(len(got), 1, "jobs beside a project without room")
	f.is(got[0].Spec.Connection, apart.ID, "its connection")
	f.is(len(f.claimN(100)), 37, "jobs for a worker with room")
}
