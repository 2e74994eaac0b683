package storetest

import (
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Jobs that are armed by their claim (ClaimParams.Intent).
var claimArmedTests = []test{
	{"an intent with the lease", claimArmedBoth},
	{"none is only a lease", claimArmedNone},
	{"what is shown is the lease", claimArmedShown},
	{"guards leave a lease", claimArmedGuards},
	{"a token is used once", claimArmedToken},
	{"a frozen class", claimArmedClass},
	{"a held key, a pause and a quarantine ask nobody", claimArmedHeld},
	{"after an earlier attempt", claimArmedAgain},
	{"one bad intent fails no other", claimArmedBatch},
	{"bounds count it as one", claimArmedBounds},
	{"reading back", claimArmedReadBack},
	{"settling", claimArmedSettled},
	{"a reply", claimArmedReply},
	{"a look is not asked about", claimArmedLook},
}

// claimArming claims with intents, as edit changes them.
func (f *fixture) claimArming(edit ...func(*store.Arm)) (leased []store.Leased, given []store.Arm) {
	f.Helper()
	return f.intendingBy(10, func(l store.Leased) *store.Arm {
		a := f.intent(l, edit...)
		return &a
	})
}

func (f *fixture) intendingBy(n int, intend func(store.Leased) *store.Arm) (leased []store.Leased, given []store.Arm) {
	f.Helper()
	last := make(map[job.ID]*store.Arm)
	leased, err := f.s.Claim(f.ctx, store.ClaimParams{
		Worker: "worker", Lease: lease, Limit: n,
		Intent: func(l store.Leased) *store.Arm {
			last[l.ID] = intend(l)
			return last[l.ID]
		},
	})
	f.ok(err)
	for i, l := range leased {
		if l.Armed != nil {
			leased[i].Armed = &store.Armed{Snapshot: f.whole(l.Armed.Snapshot), Attempt: l.Armed.Attempt}
		}
		a, asked := last[l.ID]
		f.is(asked, true, "asked about %s", l.ID)
		if a != nil {
			given = append(given, *a)
		}
	}
	return leased, given
}

func claimArmedBoth(f *fixture) {
	f.submit()
	f.clock.advance(time.Second)
	now := start.Add(time.Second)
	out, given := f.claimArming(func(a *store.Arm) { a.AccountIdentity = "me" })
	f.is(len(out), 1, "leased")
	l, in := out[0], given[0]
	f.is(l.Armed != nil, true, "armed")
	f.is([]any{l.State, l.Version, l.Attempt}, []any{job.Claimed, int64(2), 0}, "state, version, attempt of the lease")
	s := l.Armed.Snapshot
	f.is([]any{s.State, s.Version, s.Attempt}, []any{job.Sending, int64(3), 1}, "state, version, attempt")
	f.is([]any{s.NextAt, s.Fence, s.RoundArmed}, []any{now.Add(fence), now.Add(fence), now}, "due, fence, the round's first arm")
	f.is([]any{s.ClaimToken.IsZero(), s.Worker, s.Open}, []any{true, "worker", []int{1}}, "token, worker, open attempts")
	f.is(f.job(l.ID), s, "stored job")
	want := job.Attempt{
		Number: 1, Round: 1, ArmToken: in.Token, Worker: "worker", ClaimedAt: now, ArmedAt: now,
		SendDeadline: now.Add(in.SendBy), AnswerDeadline: now.Add(in.AnswerBy),
		EffectKey: in.EffectKey, RequestDigest: in.Digest, Frozen: in.Frozen,
		CredentialVersion: 1, AccountIdentity: "me", Watermark: "watermark",
	}
	f.is(l.Armed.Attempt, want, "attempt")
	f.is(f.attempts(l.ID), []job.Attempt{want}, "stored attempts")
	events := f.events(l.ID)
	f.is(len(events), 3, "events")
	for i, want := range []job.Event{
		{Sequence: 2, From: job.Scheduled, To: job.Claimed, Cause: job.CauseClaimed},
		{Sequence: 3, From: job.Claimed, To: job.Sending, Cause: job.CauseArmed, Attempt: 1},
	} {
		e := events[i+1]
		f.is(e.At, now, "time of an event")
		f.is([]any{e.Sequence, e.From, e.To, e.Cause, e.Attempt}, []any{want.Sequence, want.From, want.To, want.Cause, want.Attempt}, "event")
	}
	f.is(events[1].Position < events[2].Position, true, "the order of the log")
	f.is(len(f.claimN(10)), 0, "claimed again")
}

func claimArmedNone(f *fixture) {
	f.submit()
	f.clock.advance(time.Second)
	out, given := f.intendingBy(10, func(store.Leased) *store.Arm { return nil })
	f.is([]int{len(out), len(given)}, []int{1, 0}, "leased, given")
	f.is(out[0].Armed == nil, true, "not armed")
	f.is(f.job(out[0].ID), out[0].Snapshot, "stored job")
	f.arm(out[0])
}

func claimArmedShown(f *fixture) {
	n := f.new()
	f.create(n)
	var shown store.Leased
	out, _ := f.intendingBy(10, func(l store.Leased) *store.Arm {
		shown = l
		a := f.intent(l)
		return &a
	})
	f.is(shown.Payload, n.Spec.Payload, "payload")
	f.is(shown.Connection, f.conn, "connection")
	f.is(shown.Armed == nil, true, "armed before it is")
	got := out[0]
	got.Armed = nil
	f.is(got, shown, "what was shown and what was given")
}

// leasedOnly checks that a claim left a job as Claim alone does.
func (f *fixture) leasedOnly(out []store.Leased, what string) {
	f.Helper()
	f.is(len(out), 1, "%s: leased", what)
	f.is(out[0].Armed == nil, true, "%s: not armed", what)
	f.is(f.job(out[0].ID), out[0].Snapshot, "%s: stored job", what)
	f.is(out[0].State, job.Claimed, "%s: state", what)
	f.is(len(f.attempts(out[0].ID)), out[0].Attempt, "%s: attempts", what)
	f.is(f.last(out[0].ID).Cause, job.CauseClaimed, "%s: last event", what)
	f.arm(out[0])
}

func claimArmedGuards(f *fixture) {
	for _, tt := range []struct {
		name string
		edit func(*store.Arm)
	}{
		{"another job", func(a *store.Arm) { a.Job = f.id() }},
		{"older version", func(a *store.Arm) { a.Version-- }},
		{"newer version", func(a *store.Arm) { a.Version++ }},
		{"another token", func(a *store.Arm) { a.Claim = f.id() }},
		{"no token", func(a *store.Arm) { a.Claim = job.ID{} }},
		{"a re-arm", func(a *store.Arm) { a.Rearm = true }},
		{"no class", func(a *store.Arm) { a.Class = 0 }},
		{"an unknown class", func(a *store.Arm) { a.Class = 77 }},
		{"OPAQUE", func(a *store.Arm) { a.Class = job.Opaque }},
		{"OBSERVABLE", func(a *store.Arm) { a.Class = job.Observable }},
		{"HANDLE", func(a *store.Arm) { a.Class = job.Handle }},
		{"a gate", func(a *store.Arm) { a.Gate = []byte("content") }},
	} {
		f.submit()
		out, _ := f.claimArming(tt.edit)
		f.leasedOnly(out, tt.name)
	}
}

// claimArmedToken: in a claim and in another one.
func claimArmedToken(f *fixture) {
	f.submit()
	f.submit()
	token := f.id()
	out, _ := f.claimArming(func(a *store.Arm) { a.Token = token })
	f.is(len(out), 2, "leased")
	armed := 0
	for _, l := range out {
		if l.Armed != nil {
			armed++
			continue
		}
		f.leasedOnly([]store.Leased{l}, "the same token in one claim")
	}
	f.is(armed < 2, true, "%d armed with one token", armed)
	used := f.sending().Attempt.ArmToken
	f.submit()
	out, _ = f.claimArming(func(a *store.Arm) { a.Token = used })
	f.leasedOnly(out, "the token of an earlier arm")
}

// claimArmedClass: the class of the first arm stays, whatever a later one names.
func claimArmedClass(f *fixture) {
	f.submit(func(n *store.NewJob) { n.Class = job.Opaque })
	a := f.arm(f.claim(), func(a *store.Arm) { a.Class = job.Opaque })
	f.apply(a.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient})
	f.clock.advance(time.Hour)
	out, _ := f.claimArming(func(a *store.Arm) { a.Class = job.Keyed })
	f.leasedOnly(out, "OPAQUE before")
}

// claimArmedHeld: Intent is not called for jobs that no claim takes.
func claimArmedHeld(f *fixture) {
	nobody := func(store.Leased) *store.Arm {
		f.Error("asked about a job that may not start")
		return nil
	}
	paused := f.connect(store.Connection{PausedAt: start, PausedReason: "holiday"})
	f.submit(on(paused))
	f.submit(holding("held"))
	f.holdIt(job.FailRateLimited, 0)
	f.submit(holding("held"))
	f.intendingBy(10, nobody)
	f.submit(holding("free"))
	f.ok(f.s.Quarantine(f.ctx, "a copy"))
	_, err := f.s.Claim(f.ctx, store.ClaimParams{Worker: "worker", Lease: lease, Limit: 10, Intent: nobody})
	f.fails(err, store.ErrQuarantined)
}

func claimArmedAgain(f *fixture) {
	f.submit()
	out, _ := f.claimArming()
	first := out[0].Armed
	f.is(first != nil, true, "armed")
	f.apply(first.Snapshot, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient})
	f.clock.advance(time.Hour)
	out, _ = f.claimArming()
	f.is(out[0].Armed != nil, true, "armed after a closed attempt")
	s := out[0].Armed.Snapshot
	f.is([]any{s.Attempt, s.Version, s.Open, s.RoundArmed}, []any{2, int64(6), []int{2}, start}, "attempt, version, open, the round's first arm")
	f.is(f.job(s.ID), s, "stored job")
	e := f.events(s.ID)
	f.is([]any{e[4].From, e[4].To, e[5].From, e[5].To}, []any{job.Retrying, job.Claimed, job.Claimed, job.Sending}, "events")
}

func claimArmedBatch(f *fixture) {
	bad := make(map[job.ID]bool)
	for i := range 9 {
		s := f.submit()
		bad[s.ID] = i%3 == 1
	}
	out, _ := f.intendingBy(9, func(l store.Leased) *store.Arm {
		a := f.intent(l)
		if bad[l.ID] {
			a.Version++
		}
		return &a
	})
	f.is(len(out), 9, "leased")
	for _, l := range out {
		f.is(l.Armed == nil, bad[l.ID], "refused")
		if l.Armed != nil {
			f.is(f.job(l.ID), l.Armed.Snapshot, "stored job")
			continue
		}
		f.leasedOnly([]store.Leased{l}, "a bad one")
	}
}

func claimArmedBounds(f *fixture) {
	conn := f.connect(store.Connection{MaxInFlight: 2})
	for range 4 {
		f.submit(on(conn))
	}
	out, _ := f.claimArming()
	f.is(len(out), 2, "claimed of a connection that takes two")
	again, _ := f.claimArming()
	f.is(len(again), 0, "claimed above the bound")
	s := out[0].Armed.Snapshot
	f.apply(s, answer(s, job.ResultSucceeded))
	again, _ = f.claimArming()
	f.is(len(again), 1, "claimed after one ended")
	f.is(again[0].Armed != nil, true, "armed")
	late, err := f.s.Overdue(f.ctx, 10)
	f.ok(err)
	f.is(len(late), 0, "overdue before the fence")
	f.clock.advance(fence)
	late, err = f.s.Overdue(f.ctx, 10)
	f.ok(err)
	f.is(len(late), 2, "overdue at the fence")
}

func claimArmedReadBack(f *fixture) {
	f.submit()
	out, given := f.claimArming()
	got, err := f.s.ArmedBy(f.ctx, out[0].ID, given[0].Token)
	f.ok(err)
	got.Snapshot = f.whole(got.Snapshot)
	f.is(got, *out[0].Armed, "read back")
	f.submit()
	out, given = f.claimArming(func(a *store.Arm) { a.Version++ })
	_, err = f.s.ArmedBy(f.ctx, out[0].ID, given[0].Token)
	f.fails(err, store.ErrNotFound)
}

// claimArmedSettled: from there on the job is like any other; its start is counted.
func claimArmedSettled(f *fixture) {
	f.submit(at(start))
	f.clock.advance(3 * time.Second)
	out, _ := f.claimArming()
	s := out[0].Armed.Snapshot
	f.ok(f.s.SaveHandle(f.ctx, s.ID, 1, "h"))
	f.clock.advance(time.Second)
	f.is(f.apply(s, answer(s, job.ResultSucceeded)).Snapshot.State, job.Succeeded, "state")
	f.is(len(f.events(s.ID)), 4, "events")
	stats, err := f.s.Stats(f.ctx, store.StatsQuery{Project: project, Window: time.Hour})
	f.ok(err)
	f.is([]any{stats.Started, stats.StartLagP50}, []any{int64(1), 3 * time.Second}, "starts and their lag")
}

func claimArmedReply(f *fixture) {
	parent := f.submit()
	reply := f.submit(func(n *store.NewJob) { n.Spec.ReplyTo = parent.ID })
	out, _ := f.claimArming()
	f.is(len(out), 1, "claimed while the parent is not sent")
	s := out[0].Armed.Snapshot
	f.apply(s, succeeded(s, "the parent's id"))
	out, _ = f.intendingBy(10, func(l store.Leased) *store.Arm {
		f.is([]any{l.ID, l.ReplyTo}, []any{reply.ID, "the parent's id"}, "job and what it replies to")
		a := f.intent(l)
		return &a
	})
	f.is(out[0].Armed != nil, true, "armed")
}

func claimArmedLook(f *fixture) {
	s := f.ambiguous()
	got, err := f.s.ClaimLooks(f.ctx, store.ClaimParams{
		Worker: "worker", Lease: lease, Limit: 10,
		Intent: func(store.Leased) *store.Arm {
			f.Error("asked about a look")
			return nil
		},
	})
	f.ok(err)
	f.is(slices.ContainsFunc(got, func(l store.Leased) bool { return l.ID == s.ID && l.Armed == nil }), true, "leased")
}
