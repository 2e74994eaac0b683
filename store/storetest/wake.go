package storetest

import (
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var wakeTests = []test{
	{"a new credential wakes what is blocked", wakeBlocked},
	{"only what is blocked, and not leased", wakeOthers},
	{"a credential that lifts no hold", wakeNothing},
}

// blockedLook returns a job of a connection whose next look waits for d.
func (f *fixture) blockedLook(s job.Snapshot, d time.Duration, why string) job.Snapshot {
	f.Helper()
	return f.apply(s, job.Deferred{Kind: job.FailHeld, RetryAfter: d, Message: why}).Snapshot
}

// refusedLook refuses a job's look under a credential, which holds its connection.
func (f *fixture) refusedLook(s job.Snapshot, credential int) job.Snapshot {
	f.Helper()
	out := f.apply(s, job.Deferred{Kind: job.FailAuth, Message: "reconnect", CredentialVersion: credential}).Snapshot
	f.is([]any{out.State, out.Looks, out.Blocked}, []any{s.State, s.Looks, "reconnect"}, "a refused look")
	return out
}

// lookIDs are the jobs that are given to lookers, in order of their ids.
func (f *fixture) lookIDs() []job.ID {
	f.Helper()
	var ids []job.ID
	for _, l := range f.looks() {
		ids = append(ids, l.ID)
	}
	slices.SortFunc(ids, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) })
	return ids
}

func wakeBlocked(f *fixture) {
	conn := f.connect(store.Connection{})
	unknown := f.ambiguous(on(conn))
	accepted := f.sending(on(conn)).Snapshot
	accepted = f.apply(accepted, job.Outcome{Attempt: 1, Result: job.ResultAccepted, Handle: "h"}).Snapshot
	unknown = f.refusedLook(unknown, 0)
	accepted = f.blockedLook(accepted, time.Hour, "reconnect")
	f.is(f.connection(conn.ID).AuthHoldAt, f.job(unknown.ID).Now, "held")
	f.clock.advance(time.Second)
	f.is(len(f.lookIDs()), 0, "looks under the hold")
	work, end := f.s.Watch(store.WatchWork)
	defer end()
	f.revise(conn, store.ConnectionChange{Credential: sealedNext(conn, "k")})
	f.is(token(work), true, "hint")
	next, err := f.s.NextDue(f.ctx, time.Hour)
	f.ok(err)
	f.is(next, time.Duration(0), "next due")
	for _, was := range []job.Snapshot{unknown, accepted} {
		now := f.job(was.ID)
		f.is(now.NextAt, now.Now, "due")
		f.is([]any{now.State, now.Version, now.Looks, now.Negatives, now.Misses}, []any{was.State, was.Version, was.Looks, was.Negatives, was.Misses}, "job")
		f.is(int64(len(f.events(was.ID))), was.Version, "events")
	}
	f.is(f.lookIDs(), []job.ID{unknown.ID, accepted.ID}, "looks after it")
}

func wakeOthers(f *fixture) {
	conn, other := f.connect(store.Connection{}), f.connect(store.Connection{})
	refused, spaced, elsewhere, leased := f.ambiguous(on(conn)), f.ambiguous(on(conn)), f.ambiguous(on(other)), f.ambiguous(on(conn))
	f.refusedLook(refused, 0)
	spaced = f.apply(spaced, job.Looked{Observation: job.Observation{Attempt: 1, Verdict: job.SawInconclusive}}).Snapshot
	elsewhere = f.blockedLook(elsewhere, time.Hour, "reconnect")
	waiting := f.submit(on(conn), at(start.Add(time.Hour)))
	leased = f.blockedLook(leased, time.Second, "reconnect")
	f.clock.advance(time.Second)
	got := f.looks()
	f.is([]any{len(got), got[0].ID}, []any{1, leased.ID}, "leased")
	leased = f.job(leased.ID)
	f.revise(conn, store.ConnectionChange{Credential: sealedNext(conn, "k")})
	for _, was := range []job.Snapshot{spaced, elsewhere, waiting, leased} {
		f.unchanged(was)
	}
	f.is(f.renew(ref(got[0])), []bool{true}, "the lease")
}

func wakeNothing(f *fixture) {
	conn := f.connect(store.Connection{})
	blocked := f.blockedLook(f.ambiguous(on(conn)), time.Hour, "being renewed")
	f.revise(conn, store.ConnectionChange{Credential: sealedNext(conn, "k")})
	f.unchanged(blocked)
	// A job that was refused under the previous credential is not held, and is looked at
	// soon.
	refused := f.refusedLook(blocked, 0)
	f.is(f.connection(conn.ID).AuthHoldAt, time.Time{}, "hold by an old credential")
	f.is(refused.NextAt.Sub(refused.Now) <= 5*time.Second, true, "due soon")
}
