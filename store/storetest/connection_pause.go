package storetest

import (
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

func changePause(f *fixture) {
	a := f.submit()
	paused := f.revise(f.conn, store.ConnectionChange{Pause: ptr("holiday")})
	b := f.submit()
	c := f.submit(holding("another account"))
	f.claimed()
	next, err := f.s.NextDue(f.ctx, time.Hour)
	f.ok(err)
	f.is(next, time.Hour, "next due of a paused connection")
	f.clock.advance(time.Minute)
	again := f.revise(f.conn, store.ConnectionChange{Pause: ptr("longer")})
	f.is([]any{again.PausedAt, again.PausedReason}, []any{paused.PausedAt, "longer"}, "a pause that is renewed")
	// No other connection is held.
	other := f.connect(store.Connection{})
	d := f.submit(on(other))
	f.claimed(d.ID)
	resumed := f.revise(f.conn, store.ConnectionChange{Resume: true})
	f.is([]any{resumed.PausedAt, resumed.PausedReason}, []any{time.Time{}, ""}, "pause")
	f.claimed(a.ID, b.ID, c.ID)
	f.is(len(f.events(b.ID)), 2, "events: submitted and claimed")
	// A window does not wait for the end of a pause.
	f.revise(f.conn, store.ConnectionChange{Pause: ptr("")})
	e := f.submit()
	f.clock.advance(3 * time.Hour)
	over, err := f.s.Overdue(f.ctx, 10)
	f.ok(err)
	f.is(slices.ContainsFunc(over, func(s job.Snapshot) bool { return s.ID == e.ID }), true, "its window is over")
}

func changePauseLeased(f *fixture) {
	f.submit()
	l := f.claim()
	f.sending()
	f.revise(f.conn, store.ConnectionChange{Pause: ptr("")})
	f.fails(f.armOne(f.intent(l)).Err, store.ErrHeld)
	held := f.apply(l.Snapshot, job.Deferred{Kind: job.FailHeld, Message: "paused", RetryAfter: time.Second}).Snapshot
	f.clock.advance(time.Minute)
	f.claimed()
	f.revise(f.conn, store.ConnectionChange{Resume: true})
	f.claimed(held.ID)
}

func changeResume(f *fixture) {
	f.submit(holding("refused"))
	f.holdIt(job.FailAuth, 0)
	f.submit(holding("limited"))
	f.holdIt(job.FailRateLimited, 0)
	f.revise(f.conn, store.ConnectionChange{Pause: ptr("")})
	got := f.revise(f.conn, store.ConnectionChange{Resume: true})
	f.is([]any{got.AuthHoldAt, got.RateLimitedUntil}, []any{start, start.Add(time.Minute)}, "holds after the pause")
	f.claimed()
}

// changePauseRace: new hold keys are added while the connection is paused and resumed. At the
// end, each is held exactly if the connection is.
func changePauseRace(f *fixture) {
	for round := range 12 {
		conn := f.connect(store.Connection{})
		change := store.ConnectionChange{Project: project, ID: conn.ID, Version: conn.Version, Pause: ptr("")}
		if round%2 == 1 {
			paused := f.revise(conn, store.ConnectionChange{Pause: ptr("")})
			change.Version, change.Pause, change.Resume = paused.Version, nil, true
		}
		together(crowd, func(i int) {
			if i == crowd/2 {
				if _, err := f.s.ChangeConnection(f.ctx, change); err != nil {
					f.Error(err)
				}
				return
			}
			out, err := f.s.Create(f.ctx, []store.NewJob{f.new(on(conn), holding(string(rune('a'+i))))})
			if err != nil || out[0].Err != nil {
				f.Errorf("create: %v, %v", err, out)
			}
		})
		want := 0
		if round%2 == 1 {
			want = crowd - 1
		}
		f.is(len(f.claimN(store.MaxBatch)), want, "claimed in round %d", round)
	}
}

func missedJobs(f *fixture) {
	missed := func() []job.ID {
		f.Helper()
		list, err := f.s.Missed(f.ctx, project, f.conn.ID, 0)
		f.ok(err)
		var ids []job.ID
		for _, s := range list {
			f.is(s.Now.IsZero(), false, "no time")
			s.Now = time.Time{}
			want := f.job(s.ID)
			want.Now = time.Time{}
			f.is(s, want, "snapshot")
			ids = append(ids, s.ID)
		}
		slices.SortFunc(ids, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) })
		return ids
	}
	f.submit() // was due before the pause
	f.clock.advance(time.Second)
	in := f.submit(at(start.Add(10 * time.Second)))
	f.is(len(missed()), 0, "missed of a connection that is not paused")
	f.revise(f.conn, store.ConnectionChange{Pause: ptr("")})
	other := f.submit(holding("other"), at(start.Add(20*time.Second)))
	f.submit(at(start.Add(time.Hour)))                                                                          // not due yet
	f.submit(at(start.Add(5*time.Second)), func(n *store.NewJob) { n.Spec.StartWindow = 10 * time.Second })     // its window is over
	f.submit(at(start.Add(5*time.Second)), replying(in.ID))                                                     // waits for another job
	f.submit(on(f.connect(store.Connection{PausedAt: start, PausedReason: "x"})), at(start.Add(5*time.Second))) // of another connection
	f.is(len(missed()), 0, "missed when nothing is due")
	f.clock.advance(time.Minute)
	f.is(missed(), []job.ID{in.ID, other.ID}, "missed")
	list, err := f.s.Missed(f.ctx, "other project", f.conn.ID, 0)
	f.ok(err)
	f.is(len(list), 0, "missed, of another project")
	got := f.apply(f.job(in.ID), job.Missed{Since: start.Add(time.Second)}).Snapshot
	f.is(got.State, job.Expired, "state")
	f.is(missed(), []job.ID{other.ID}, "missed, when one has expired")
	f.revise(f.conn, store.ConnectionChange{Resume: true})
	f.is(len(missed()), 0, "missed after the pause")
}

func missedBatches(f *fixture) {
	f.revise(f.conn, store.ConnectionChange{Pause: ptr("")})
	for i := range 7 {
		f.submit(holding([]string{"a", "b"}[i%2]))
	}
	total := 0
	for {
		list, err := f.s.Missed(f.ctx, project, f.conn.ID, 3)
		f.ok(err)
		if len(list) == 0 {
			break
		}
		f.is(len(list) <= 3, true, "%d of 3", len(list))
		for _, s := range list {
			f.apply(s, job.Missed{Since: start})
		}
		total += len(list)
	}
	f.is(total, 7, "missed in all")
}
