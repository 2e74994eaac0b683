package storetest

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var breakerTests = []test{
	{"a breaker opens, once", breakerOpens},
	{"nothing but the probe is armed", breakerArms},
	{"a claim lets one job through", breakerClaims},
	{"a probe that fails doubles the wait", breakerFails},
	{"a probe that may cost a person has the next one wait for long", breakerAsks},
	{"the probe may take more time", breakerHeld},
	{"a probe that says nothing costs no patience", breakerUndecided},
	{"a probe that succeeds closes it", breakerCloses},
	{"a person closes it", breakerEnded},
	{"a probe whose server died is followed by another", breakerDied},
	{"a repeat is the probe before a first attempt", breakerRepeats},
	{"looks, results and late evidence go on", breakerEvidence},
	{"a stop of another cause is stronger", breakerStopped},
	{"it covers its connection alone", breakerConnection},
	{"its end lets other breakers be", breakerOthers},
	{"breakers leave room for stops of persons", breakerRoom},
	{"a first attempt is every second probe", breakerAlternates},
	{"it holds notices, and one may be the probe", breakerNotices},
	{"jobs and notices take turns as its probe", breakerTurns},
	{"while its project is paused, a notice is its probe", breakerPaused},
	{"it ends by itself if no probe is found", breakerForgotten},
	{"one that opens again soon is as patient as before", breakerAgain},
	{"many ask to be the probe", breakerRace},
}

// breakerOf is a breaker of a connection of the fixture's project.
func breakerOf(conn job.ID) store.Stop {
	return store.Stop{
		Scope: store.StopDestination, Project: project, Connection: conn, Destination: holdKey,
		Cause: store.StoppedByBreaker, Note: "refused", CreatedBy: "worker",
	}
}

// breaker opens the breaker of the fixture's destination.
func (f *fixture) breaker() store.Stop {
	f.Helper()
	return f.stop(breakerOf(f.conn.ID))
}

const probeFor = 2 * time.Minute

func (f *fixture) takeProbe(b store.Stop, l store.Leased) bool {
	f.Helper()
	took, err := f.s.TakeProbe(f.ctx, store.Probe{Breaker: b.ID, Token: l.ClaimToken, For: probeFor})
	f.ok(err)
	return took
}

func (f *fixture) endProbe(b store.Stop, l store.Leased, v store.ProbeVerdict) (store.Stop, bool) {
	f.Helper()
	out, counts, err := f.s.EndProbe(f.ctx, store.ProbeResult{Breaker: b.ID, Token: l.ClaimToken, Verdict: v, Note: "still refused", Actor: "worker"})
	f.ok(err)
	return out, counts
}

// probe lets a job through, as the probe that is due.
func (f *fixture) probe(b store.Stop) store.Leased {
	f.Helper()
	l := f.claim()
	f.is(l.Stopped != nil && l.Stopped.ID == b.ID, true, "the breaker of a job that was let through")
	f.is(f.takeProbe(b, l), true, "is the probe")
	return l
}

// giveBack returns a lease under a breaker.
func (f *fixture) giveBack(l store.Leased) {
	f.Helper()
	f.apply(l.Snapshot, job.Deferred{Kind: job.FailHeld, RetryAfter: time.Second, Message: job.Stopped})
}

func breakerOpens(f *fixture) {
	b := f.breaker()
	now := f.job(f.submit().ID).Now
	f.is([]any{b.Begin, b.ProbeAt, b.End, b.Planned, b.Probes}, []any{now, now.Add(10 * time.Second), now.Add(10*time.Second + store.BreakerKept), false, 0}, "opened")
	same := breakerOf(f.conn.ID)
	same.Note = "another"
	again, created, err := f.tryStop(same)
	f.ok(err)
	f.is(created, false, "opened again")
	f.is(again, b, "opened again")
	f.claimed()
	page, err := f.s.ListStops(f.ctx, store.StopQuery{Project: project})
	f.ok(err)
	f.is(page.Stops, []store.Stop{b}, "listed")
}

func breakerArms(f *fixture) {
	f.submit()
	f.submit()
	leased := f.claimN(2)
	b := f.breaker()
	f.fails(f.armOne(f.intent(leased[0])).Err, store.ErrStopped)
	f.is(f.takeProbe(b, leased[0]), false, "a probe before its time")
	f.clock.advance(10 * time.Second)
	f.fails(f.armOne(f.intent(leased[0])).Err, store.ErrStopped)
	f.is(f.takeProbe(b, leased[0]), true, "a probe that is due")
	f.is(f.takeProbe(b, leased[1]), false, "a second probe")
	f.fails(f.armOne(f.intent(leased[1])).Err, store.ErrStopped)
	f.ok(f.armOne(f.intent(leased[0])).Err)
}

func breakerClaims(f *fixture) {
	b := f.breaker()
	other := f.bystander()
	f.submit()
	f.submit()
	free := f.submit(on(other))
	f.claimed(free.ID)
	f.clock.advance(10 * time.Second)
	f.claimed()
	f.clock.advance(store.StopHeadStart)
	l := f.probe(b)
	f.is(len(f.claimN(10)), 0, "let through beside the probe")
	f.clock.advance(store.StopHeadStart)
	f.is(len(f.claimN(10)), 0, "let through beside the probe, later")
	next, err := f.s.NextDue(f.ctx, time.Hour)
	f.ok(err)
	f.is(next > 0, true, "next due: %v", next)
	f.ok(f.armOne(f.intent(l)).Err)
	// A job that was let through and did not become the probe leaves the next one to later.
	b, _ = f.endProbe(b, l, store.ProbeIll)
	f.clock.advance(20 * time.Second)
	f.giveBack(f.claim())
	f.is(len(f.claimN(10)), 0, "let through at once again")
	f.clock.advance(store.StopHeadStart)
	f.probe(b)
}

// breakerFails: probes fail, until the wait is the longest one.
func breakerFails(f *fixture) {
	b := f.breaker()
	one := f.submit().ID
	f.submit()
	wait := 10 * time.Second
	for n := 1; n <= 5; n++ {
		f.clock.advance(b.Rows().Sub(f.job(one).Now) - time.Microsecond)
		f.claimed()
		f.clock.advance(time.Microsecond)
		l := f.probe(b)
		var counts bool
		b, counts = f.endProbe(b, l, store.ProbeIll)
		f.is(counts, true, "counts")
		wait = min(2*wait, time.Minute)
		now := f.job(l.ID).Now
		f.is([]any{b.ProbeAt, b.End, b.Probes, b.Note, b.Prober}, []any{now.Add(wait), now.Add(wait + store.BreakerKept), n, "still refused", job.ID{}}, "after probe %d", n)
		_, counts = f.endProbe(b, l, store.ProbeWell)
		f.is(counts, false, "a result that counts twice")
		f.fails(f.armOne(f.intent(l)).Err, store.ErrStopped)
		f.giveBack(l)
	}
	f.is(f.meta().Stops, int64(1), "stops")
}

// breakerAsks: the first probe whose outcome is unknown has the next one wait for long, whatever it
// says of the destination, and the one after it is as patient as usual.
func breakerAsks(f *fixture) {
	b := f.breaker()
	one := f.submit().ID
	for n, c := range []struct {
		verdict store.ProbeVerdict
		asks    bool
		wait    time.Duration
	}{
		{store.ProbeIll, true, store.ProbeAsksWait},
		{store.ProbeUndecided, true, store.ProbeAsksWait},
		{store.ProbeIll, false, 40 * time.Second},
	} {
		f.clock.advance(b.Rows().Sub(f.job(one).Now))
		l := f.probe(b)
		var counts bool
		var err error
		b, counts, err = f.s.EndProbe(f.ctx, store.ProbeResult{Breaker: b.ID, Token: l.ClaimToken, Verdict: c.verdict, Asks: c.asks, Note: "still refused", Actor: "worker"})
		f.ok(err)
		now := f.job(l.ID).Now
		f.is([]any{counts, b.ProbeAt, b.End}, []any{true, now.Add(c.wait), now.Add(c.wait + store.BreakerKept)}, "after probe %d", n+1)
		f.giveBack(l)
	}
}

func breakerHeld(f *fixture) {
	f.submit()
	f.submit()
	leased := f.claimN(2)
	b := f.breaker()
	f.clock.advance(10 * time.Second)
	const span = 5 * time.Second
	take := func(l store.Leased) bool {
		took, err := f.s.TakeProbe(f.ctx, store.Probe{Breaker: b.ID, Token: l.ClaimToken, For: span})
		f.ok(err)
		return took
	}
	f.is(take(leased[0]), true, "a probe that is due")
	f.clock.advance(span - time.Second)
	f.is(take(leased[1]), false, "another one's")
	f.is(take(leased[0]), true, "for longer")
	f.clock.advance(span - time.Second)
	f.is(take(leased[1]), false, "another one's, after its first time")
	f.ok(f.armOne(f.intent(leased[0])).Err)
	f.clock.advance(time.Second)
	f.is(take(leased[1]), true, "another one's, after its time")
	f.is(take(leased[0]), false, "that of a probe that was given up")
}

func breakerUndecided(f *fixture) {
	b := f.breaker()
	f.submit()
	f.clock.advance(10*time.Second + store.StopHeadStart)
	l := f.probe(b)
	b, counts := f.endProbe(b, l, store.ProbeUndecided)
	f.is([]any{counts, b.ProbeAt, b.Probes, b.Note}, []any{true, f.job(l.ID).Now.Add(10 * time.Second), 0, "refused"}, "after a probe that said nothing")
}

func breakerCloses(f *fixture) {
	b := f.breaker()
	first, second, third := f.submit(), f.submit(), f.submit()
	f.clock.advance(10*time.Second + store.StopHeadStart)
	l := f.probe(b)
	f.is(l.ID, first.ID, "the probe")
	f.clock.advance(store.StopHeadStart)
	f.claimed()
	work, end := f.s.Watch(store.WatchWork)
	defer end()
	f.apply(f.arm(l).Snapshot, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, Message: "done"})
	b, counts := f.endProbe(b, l, store.ProbeWell)
	f.is([]any{counts, b.Ended, b.EndedBy}, []any{true, f.job(l.ID).Now, "worker"}, "closed")
	f.is(token(work), true, "hint")
	f.is(f.meta().Stops, int64(0), "stops")
	f.claimed(second.ID, third.ID)
}

func breakerEnded(f *fixture) {
	b := f.breaker()
	a, other := f.submit(), f.submit()
	f.clock.advance(10*time.Second + store.StopHeadStart)
	l := f.probe(b)
	f.is(f.endStop(b).EndedBy, "api:bob/2", "closed")
	f.claimed(other.ID)
	_, counts := f.endProbe(b, l, store.ProbeIll)
	f.is(counts, false, "the result of a probe whose breaker was closed")
	f.ok(f.armOne(f.intent(l)).Err)
	f.is(f.job(a.ID).State, job.Sending, "the probe")
	_, _, err := f.s.EndProbe(f.ctx, store.ProbeResult{Breaker: f.id(), Token: l.ClaimToken})
	f.fails(err, store.ErrNotFound)
}

func breakerDied(f *fixture) {
	b := f.breaker()
	f.submit()
	f.submit()
	f.clock.advance(10*time.Second + store.StopHeadStart)
	dead := f.probe(b)
	f.clock.advance(probeFor)
	f.claimed()
	f.fails(f.armOne(f.intent(dead)).Err, store.ErrStale)
	f.clock.advance(store.StopHeadStart)
	next := f.probe(b)
	_, counts := f.endProbe(b, dead, store.ProbeWell)
	f.is(counts, false, "the result of a probe that was given up")
	f.ok(f.armOne(f.intent(next)).Err)
}

func breakerRepeats(f *fixture) {
	unknown := f.ambiguous()
	b := f.breaker()
	f.submit()
	f.clock.advance(10 * time.Second)
	looks := f.looks()
	f.is(len(looks) == 1 && looks[0].ID == unknown.ID && looks[0].Stopped != nil, true, "a look that knows the breaker: %v", looks)
	repeat := f.intent(looks[0], func(a *store.Arm) { a.EffectKey, a.Digest = looks[0].RoundKey, []byte("digest") })
	f.fails(f.armOne(repeat).Err, store.ErrStopped)
	f.is(f.takeProbe(b, looks[0]), true, "is the probe")
	f.clock.advance(store.StopHeadStart)
	f.claimed()
	// It fails, and is put off for long. The next probe is its again.
	f.apply(looks[0].Snapshot, job.Deferred{Kind: job.FailHeld, RetryAfter: time.Hour, Message: job.Stopped})
	b, _ = f.endProbe(b, looks[0], store.ProbeIll)
	f.is(f.job(unknown.ID).NextAt, b.ProbeAt.Add(store.StopHeadStart), "the repeat's next time")
	f.clock.advance(20*time.Second + store.StopHeadStart)
	looks = f.looks()
	f.is(f.takeProbe(b, looks[0]), true, "is the probe again")
	repeat = f.intent(looks[0], func(a *store.Arm) { a.EffectKey, a.Digest = looks[0].RoundKey, []byte("digest") })
	f.ok(f.armOne(repeat).Err)
}

func breakerEvidence(f *fixture) {
	done, late := f.sending(), f.sending()
	f.breaker()
	got := f.apply(done.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, Message: "done"})
	f.is(got.Snapshot.State, job.Succeeded, "a result")
	f.clock.advance(2 * fence)
	over, err := f.s.Overdue(f.ctx, 10)
	f.ok(err)
	unknown := f.apply(over[0], job.FenceOver{}).Snapshot
	f.is([]any{unknown.ID, unknown.State}, []any{late.Snapshot.ID, job.Ambiguous}, "an unknown outcome")
	got = f.apply(unknown, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, Message: "late"})
	f.is(got.Snapshot.State, job.Succeeded, "a late answer")
}

func breakerStopped(f *fixture) {
	b := f.breaker()
	f.submit()
	f.clock.advance(10*time.Second + store.StopHeadStart)
	l := f.probe(b)
	stop := f.stop(store.Stop{Scope: store.StopDestination, Project: project, Destination: holdKey, End: start.Add(20 * time.Second)})
	err := f.armOne(f.intent(l)).Err
	stopped, ok := errors.AsType[*store.StoppedError](err)
	f.is(ok && stopped.By.ID == stop.ID, true, "the stop in the refusal: %v", err)
	f.endStop(stop)
	f.ok(f.armOne(f.intent(l)).Err)
}

// breakerConnection: the hold key of an account is the same for every connection.
func breakerConnection(f *fixture) {
	f.breaker()
	f.submit()
	other := f.submit(on(f.connect(store.Connection{})))
	elsewhere := f.submit(holding("elsewhere"))
	f.claimed(other.ID, elsewhere.ID)
}

func breakerOthers(f *fixture) {
	b := f.breaker()
	conn := f.connect(store.Connection{})
	other := f.stop(breakerOf(conn.ID))
	mine, theirs := f.submit(), f.submit(on(conn))
	f.claimed()
	f.endStop(b)
	f.claimed(mine.ID)
	f.clock.advance(10*time.Second + store.StopHeadStart)
	f.is(f.probe(other).ID, theirs.ID, "the other one's probe")
}

func breakerRoom(f *fixture) {
	b := f.breaker()
	stop := f.stop(store.Stop{Scope: store.StopConnection, Project: project, Connection: f.conn.ID})
	f.is([]int64{b.MostOpen(), stop.MostOpen()}, []int64{store.MaxBreakers, store.MaxNarrowStops}, "bounds")
	f.is(f.meta().Stops, int64(2), "stops")
}

// breakerAlternates: a job that its receiver cannot bear, and that waits to be repeated, does not keep
// a breaker open: a first attempt is the next probe.
func breakerAlternates(f *fixture) {
	unknown := f.ambiguous()
	b := f.breaker()
	first := f.submit()
	f.clock.advance(10 * time.Second)
	look := f.looks()[0]
	f.is([]any{look.ID, look.Stopped.LetsRepeat(look.Now), f.takeProbe(b, look)}, []any{unknown.ID, true, true}, "a repeat is the probe")
	f.apply(look.Snapshot, job.Deferred{Kind: job.FailHeld, RetryAfter: time.Hour, Message: job.Stopped})
	b, _ = f.endProbe(b, look, store.ProbeIll)
	f.clock.advance(20 * time.Second)
	f.is(len(f.looks()), 0, "repeats at the time of a first attempt")
	l := f.probe(b)
	f.is(l.ID, first.ID, "the second probe")
	f.giveBack(l)
	b, _ = f.endProbe(b, l, store.ProbeIll)
	f.clock.advance(b.ProbeAt.Sub(f.job(first.ID).Now))
	f.claimed()
	f.is(f.looks()[0].ID, unknown.ID, "the third probe")
}

// breakerNotices: a breaker holds the notices of its connection, as every stop does.
func breakerNotices(f *fixture) {
	l := f.leasedNotice()
	stop := breakerOf(l.Connection.ID)
	stop.Destination = l.HoldKey
	b := f.stop(stop)
	f.fails(f.armOne(f.intent(l)).Err, store.ErrStopped)
	f.clock.advance(10 * time.Second)
	f.is(f.takeProbe(b, l), true, "a notice is the probe")
	f.ok(f.armOne(f.intent(l)).Err)
}

// breakerTurns: what has waited longest is the next probe, so that a notice that fails keeps no job from
// being one, and no job a notice.
func breakerTurns(f *fixture) {
	b := f.breaker()
	s := f.subscribe()
	first := f.submit()
	f.clock.advance(time.Millisecond)
	s = f.step(s, f.telling(f.logEnd()))
	f.clock.advance(time.Millisecond)
	second := f.submit()
	for n, want := range []job.ID{first.ID, s.OpenJob, second.ID, first.ID, s.OpenJob, second.ID} {
		f.clock.advance(b.Rows().Sub(f.clock.now()))
		l := f.probe(b)
		f.is(l.ID, want, "probe %d", n+1)
		f.applied(l.Snapshot, job.Deferred{Kind: job.FailHeld, RetryAfter: time.Second, Message: job.Stopped})
		b, _ = f.endProbe(b, l, store.ProbeIll)
	}
}

// breakerPaused: no job passes the pause. Notices do, and wait for the breaker alone: one of them is let
// through as its probe, whether it was made before or after the claim that set the row aside.
func breakerPaused(f *fixture) {
	one, other := f.subscribe(), f.subscribe()
	waits := f.submit()
	pause := f.stop(store.Stop{Scope: store.StopProject, Project: project})
	b := f.breaker()
	f.claimed()
	f.clock.advance(b.Rows().Sub(f.clock.now()))
	f.claimed() // a probe is due, and there is no notice
	one = f.step(one, f.telling(f.logEnd()))
	l := f.probe(b)
	f.is(l.ID, one.OpenJob, "the probe")
	other = f.step(other, f.telling(f.logEnd()))
	f.claimed()
	f.clock.advance(store.StopHeadStart)
	f.claimed()
	sent := f.arm(l)
	f.applied(sent.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient})
	b, _ = f.endProbe(b, l, store.ProbeIll)
	f.clock.advance(b.ProbeAt.Sub(f.clock.now()) - time.Microsecond)
	f.claimed()
	f.clock.advance(b.Rows().Sub(f.clock.now()))
	l = f.probe(b)
	f.is(l.ID, other.OpenJob, "the second probe")
	sent = f.arm(l)
	f.applied(sent.Snapshot, succeeded(sent.Snapshot, "object"))
	b, _ = f.endProbe(b, l, store.ProbeWell)
	f.is(b.Ended.IsZero(), false, "closed")
	f.clock.advance(time.Hour)
	f.claimed(one.OpenJob)
	f.endStop(pause)
	f.clock.advance(store.StopHeadStart)
	f.claimed(waits.ID)
}

func breakerForgotten(f *fixture) {
	b := f.breaker()
	f.clock.advance(10*time.Second + store.BreakerKept)
	s := f.submit()
	f.is(f.claimed(s.ID)[0].Stopped == nil, true, "stopped by a breaker that has ended")
	f.is(f.meta().Stops, int64(0), "stops")
	next := f.breaker()
	f.is([]any{next.ID == b.ID, next.Probes}, []any{false, 1}, "another breaker")
}

func breakerAgain(f *fixture) {
	f.submit()
	f.submit()
	b := f.breaker()
	f.clock.advance(10*time.Second + store.StopHeadStart)
	l := f.probe(b)
	b, _ = f.endProbe(b, l, store.ProbeIll)
	f.giveBack(l)
	f.endStop(b)
	f.clock.advance(store.BreakerRemembered - time.Second)
	b = f.breaker()
	f.is([]any{b.Probes, b.ProbeAt.Sub(b.Begin)}, []any{2, 40 * time.Second}, "opened again soon")
	page, err := f.s.ListStops(f.ctx, store.StopQuery{Ended: true})
	f.ok(err)
	f.is(page.Stops, []store.Stop{b}, "one breaker of a destination is kept")
	f.endStop(b)
	f.clock.advance(store.BreakerRemembered)
	f.is(f.breaker().Probes, 0, "opened again later")
}

// breakerRace has many leases ask to be the probe, and arms them.
func breakerRace(f *fixture) {
	const workers = 4
	for range 4 * workers {
		f.submit()
	}
	leased := f.claimN(4 * workers)
	b := f.breaker()
	f.clock.advance(10 * time.Second)
	var took, armed atomic.Int64
	together(workers, func(i int) {
		for n := i; n < len(leased); n += workers {
			ok, err := f.s.TakeProbe(f.ctx, store.Probe{Breaker: b.ID, Token: leased[n].ClaimToken, For: probeFor})
			if err != nil {
				f.Error(err)
			}
			if ok {
				took.Add(1)
			}
			out, err := f.s.Arm(f.ctx, []store.Arm{f.intent(leased[n])})
			if err == nil && out[0].Err == nil {
				armed.Add(1)
			}
		}
	})
	f.is([]int64{took.Load(), armed.Load()}, []int64{1, 1}, "probes, and arms")
}
