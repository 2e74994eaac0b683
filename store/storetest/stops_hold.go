package storetest

import (
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var stopWindowTests = []test{
	{"a window that ends in a stop begins again", stopHolds},
	{"windows of every kind", stopHoldsKinds},
	{"a stop holds windows of what it covers", stopHoldsScopes},
	{"once more in the hour after it", stopHoldsAfter},
	{"when a stop holds no window", stopHoldsNot},
	{"the time to keep trying of an unknown outcome", stopHoldsLooks},
}

// within sets a job's start window.
func within(d time.Duration) func(*store.NewJob) {
	return func(n *store.NewJob) { n.Spec.StartWindow = d }
}

// windows returns the jobs that are overdue, and whether each one's window begins again.
func (f *fixture) windows() map[job.ID]bool {
	f.Helper()
	list, err := f.s.Overdue(f.ctx, 0)
	f.ok(err)
	out := make(map[job.ID]bool)
	for _, s := range list {
		out[s.ID] = s.WindowHeld
	}
	return out
}

// sweepWindow applies what a sweep decides about the one job that is overdue.
func (f *fixture) sweepWindow() job.Snapshot {
	f.Helper()
	list, err := f.s.Overdue(f.ctx, 0)
	f.ok(err)
	f.is(len(list), 1, "overdue")
	return f.apply(list[0], job.WindowOver{}).Snapshot
}

func stopHolds(f *fixture) {
	f.stop(store.Stop{Scope: store.StopEverything, HoldWindows: true})
	f.is(len(f.windows()), 0, "overdue")
	s := f.submit(within(30 * time.Minute))
	for range 3 {
		f.clock.advance(30*time.Minute - time.Microsecond)
		f.is(len(f.windows()), 0, "overdue early")
		f.clock.advance(time.Microsecond)
		was := f.job(s.ID)
		got := f.sweepWindow()
		f.is([]any{got.State, got.StartDeadline, got.Version}, []any{job.Scheduled, got.Now.Add(30 * time.Minute), was.Version + 1}, "begins again")
		f.is(got.LastError == nil, true, "no failure")
		f.is(f.job(s.ID).StartDeadline, got.StartDeadline, "stored")
		f.is(len(f.windows()), 0, "overdue afterwards")
	}
	f.claimed()
}

// stopHoldsKinds: start windows, wait windows and the time to keep trying; of jobs that wait, and
// that are claimed.
func stopHoldsKinds(f *fixture) {
	tried := f.arm(f.claimed(f.submit(trying(time.Hour)).ID)[0]).Snapshot
	tried = f.apply(tried, refuse(tried)).Snapshot
	claimed := f.claimed(f.submit(within(time.Hour)).ID)[0].Snapshot
	f.stop(store.Stop{Scope: store.StopProject, Project: project, HoldWindows: true})
	first := f.submit(within(48 * time.Hour))
	reply := f.submit(replying(first.ID), waitingFor(time.Hour))
	short := f.submit(within(time.Minute))
	f.clock.advance(time.Hour)
	got := f.windows()
	want := map[job.ID]bool{tried.ID: true, claimed.ID: true, reply.ID: true, short.ID: true}
	f.is(got, want, "held")
	list, err := f.s.Overdue(f.ctx, 0)
	f.ok(err)
	for _, was := range list {
		is := f.apply(was, job.WindowOver{}).Snapshot
		length, state := time.Hour, was.State
		switch was.ID {
		case short.ID:
			length = job.LeastAgain
		case claimed.ID:
			state = job.Scheduled
			f.is([]any{is.ClaimToken, is.Claims}, []any{job.ID{}, was.Claims}, "the lease")
		}
		f.is([]any{is.State, is.StartDeadline, is.KeepTrying}, []any{state, is.Now.Add(length), was.KeepTrying}, "%s of %s", was.State, was.ID)
	}
	f.is(len(f.windows()), 0, "overdue afterwards")
	f.fails(f.armOne(f.intent(store.Leased{Snapshot: claimed, Connection: f.conn})).Err, store.ErrStale)
}

func stopHoldsScopes(f *fixture) {
	other := f.bystander()
	for name, s := range f.everyScope() {
		f.clock.advance(3 * time.Hour) // past what the stop before held
		s.HoldWindows = true
		stop := f.stop(s)
		in := f.submit(within(time.Minute), ofTeam("red"))
		out := f.submit(within(time.Minute), ofTeam("blue"), on(other), holding("elsewhere"))
		f.clock.advance(time.Minute)
		wide := s.Scope == store.StopEverything || s.Scope == store.StopProject
		f.is(f.windows(), map[job.ID]bool{in.ID: true, out.ID: wide}, "%s", name)
		f.endStop(stop)
		f.is(f.windows(), map[job.ID]bool{in.ID: true, out.ID: wide}, "%s: after its end", name)
		for _, id := range []job.ID{in.ID, out.ID} {
			f.apply(f.job(id), job.CancelAsked{})
		}
	}
}

func stopHoldsAfter(f *fixture) {
	stop := f.stop(store.Stop{Scope: store.StopEverything, HoldWindows: true})
	brief, hour, late, long := f.submit(within(30*time.Minute)), f.submit(within(2*time.Hour)), f.submit(within(2*time.Hour+time.Microsecond)), f.submit(within(20*time.Minute))
	f.apply(long, job.CancelAsked{})
	f.clock.advance(30 * time.Minute)
	f.is(f.sweepWindow().ID, brief.ID, "in the stop") // until 1 h
	f.clock.advance(30 * time.Minute)
	f.endStop(stop)
	end := start.Add(time.Hour)
	after := f.submit(within(10 * time.Minute)) // of a window that began after the stop
	again := f.sweepWindow()
	f.is([]any{again.ID, again.StartDeadline}, []any{brief.ID, end.Add(30 * time.Minute)}, "as the stop ends")
	f.clock.advance(30 * time.Minute)
	f.is(f.windows(), map[job.ID]bool{after.ID: false, brief.ID: false}, "once")
	f.clock.advance(30*time.Minute + time.Microsecond)
	f.is(f.windows(), map[job.ID]bool{after.ID: false, brief.ID: false, hour.ID: true, late.ID: false}, "an hour after the stop")
	f.clock.advance(5 * 24 * time.Hour)
	f.is(f.windows()[hour.ID], true, "a sweep that comes late")
	f.is(f.apply(f.job(late.ID), job.WindowOver{}).Snapshot.State, job.Expired, "not held")
}

// stopHoldsNot: a stop counts from its creation and its begin, if it was in force at all.
func stopHoldsNot(f *fixture) {
	over := f.submit(within(time.Minute))
	f.clock.advance(time.Minute)
	for name, s := range map[string]store.Stop{
		"made as the window ended": {HoldWindows: true},
		"made later, to begin before": {
			HoldWindows: true, Begin: start.Add(-time.Hour), End: start.Add(time.Hour),
		},
		"announced":            {HoldWindows: true, Begin: start.Add(time.Hour)},
		"of the other kind":    {},
		"of another connector": {Scope: store.StopConnector, Connector: "other", HoldWindows: true},
	} {
		if s.Scope == 0 {
			s.Scope = store.StopEverything
		}
		stop := f.stop(s)
		f.is(f.windows(), map[job.ID]bool{over.ID: false}, "%s", name)
		f.endStop(stop)
		f.is(f.windows(), map[job.ID]bool{over.ID: false}, "%s, and ended", name)
	}
	f.apply(f.job(over.ID), job.CancelAsked{})
	taken := f.stop(store.Stop{Scope: store.StopEverything, HoldWindows: true, Begin: f.job(over.ID).Now.Add(5 * time.Minute)})
	s := f.submit(within(10 * time.Minute))
	f.clock.advance(time.Minute)
	f.endStop(taken)
	f.clock.advance(9 * time.Minute)
	f.is(f.windows(), map[job.ID]bool{s.ID: false}, "announced, and taken back")
}

func stopHoldsLooks(f *fixture) {
	unknown := f.ambiguous(trying(time.Hour))
	free := f.ambiguous(trying(time.Hour), ofTeam("blue"), holding("elsewhere"))
	stop := f.stop(store.Stop{Scope: store.StopDestination, Destination: holdKey, HoldWindows: true})
	f.clock.advance(2 * time.Hour)
	f.is(len(f.windows()), 0, "an unknown outcome is not overdue")
	looks := f.looks()
	f.is(len(looks), 2, "looks")
	slices.SortFunc(looks, func(a, b store.Leased) int { return -a.StartDeadline.Compare(b.StartDeadline) })
	l := looks[0]
	f.is([]any{l.ID, l.StartDeadline, l.KeepTrying, l.Version, l.WindowHeld},
		[]any{unknown.ID, l.Now.Add(time.Hour), time.Hour, unknown.Version, false}, "begins again with the lease")
	f.is(f.job(unknown.ID).StartDeadline, l.StartDeadline, "stored")
	f.is([]any{looks[1].ID, looks[1].StartDeadline}, []any{free.ID, free.StartDeadline}, "of another destination")
	repeat := f.intent(l, func(a *store.Arm) { a.EffectKey, a.Digest, a.KeepTrying = l.RoundKey, []byte("digest"), time.Hour })
	f.fails(f.armOne(repeat).Err, store.ErrStopped)
	f.endStop(stop)
	armed := f.armOne(repeat)
	f.ok(armed.Err)
	f.is(armed.Snapshot.StartDeadline, l.StartDeadline, "tried until")
}
