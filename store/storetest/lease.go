package storetest

import (
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var leaseTests = []test{
	{"renewing", leaseRenew},
	{"renewing what is not held", leaseRenewLost},
	{"looks are leased without a trace", leaseLook},
	{"only AMBIGUOUS and ACCEPTED are looked at", leaseLookStates},
	{"an ended look lease", leaseLookAgain},
	{"late evidence leaves a look's lease alone", leaseLookKept},
	{"a written look ends its lease", leaseLookEnds},
}

func (f *fixture) renew(refs ...store.LeaseRef) []bool {
	f.Helper()
	out, err := f.s.Renew(f.ctx, lease, refs)
	f.ok(err)
	return out
}

func (f *fixture) looks() []store.Leased {
	f.Helper()
	out, err := f.s.ClaimLooks(f.ctx, store.ClaimParams{Worker: "looker", Lease: lease, Limit: 10})
	f.ok(err)
	return out
}

func ref(l store.Leased) store.LeaseRef { return store.LeaseRef{Job: l.ID, Token: l.ClaimToken} }

func leaseRenew(f *fixture) {
	f.submit()
	l := f.claim()
	f.clock.advance(40 * time.Second)
	f.is(f.renew(ref(l)), []bool{true}, "renewed")
	got := f.job(l.ID)
	f.is(got.NextAt, start.Add(40*time.Second+lease), "end of the lease")
	f.is(got.Version, l.Version, "version")
	f.is(len(f.events(l.ID)), 2, "events")
	f.arm(l)
}

func leaseRenewLost(f *fixture) {
	f.submit()
	f.submit()
	got := f.claimN(2)
	wrong := ref(got[0])
	wrong.Token = f.id()
	unknown := store.LeaseRef{Job: f.id(), Token: f.id()}
	f.is(f.renew(wrong, ref(got[1]), unknown), []bool{false, true, false}, "renewed")
	f.arm(got[1])
	f.is(f.renew(ref(got[1])), []bool{false}, "renewed in mid-send")
	f.clock.advance(lease)
	f.is(f.renew(ref(got[0])), []bool{false}, "renewed after its end")
	_, err := f.s.Renew(f.ctx, lease, slices.Repeat([]store.LeaseRef{wrong}, store.MaxBatch+1))
	f.fails(err, store.ErrIllegal)
}

// ambiguous returns a job whose look is due now.
func (f *fixture) ambiguous(edit ...func(*store.NewJob)) job.Snapshot {
	f.Helper()
	a := f.sending(edit...)
	s := f.apply(a.Snapshot, answer(a.Snapshot, job.ResultUnknown)).Snapshot
	f.is(s.State, job.Ambiguous, "state")
	f.clock.advance(s.NextAt.Sub(f.clock.now()))
	return s
}

func leaseLook(f *fixture) {
	s := f.ambiguous()
	got := f.looks()
	f.is(len(got), 1, "looks")
	l := got[0]
	f.is(l.ID, s.ID, "job")
	f.is([]any{l.State, l.Version}, []any{job.Ambiguous, s.Version}, "state and version")
	f.is(l.ClaimToken.IsZero(), false, "no token")
	f.is(l.NextAt, f.clock.now().UTC().Add(lease), "end of the lease")
	f.is(l.Connection.ID, f.conn.ID, "connection")
	f.is(l.Open, []int{1}, "open attempts")
	f.is(len(f.events(s.ID)), int(s.Version), "events")
	f.is(f.job(s.ID), l.Snapshot, "stored job")
	f.is(len(f.looks()), 0, "leased again")
	f.clock.advance(time.Second)
	f.is(f.renew(ref(l)), []bool{true}, "renewed")
}

func leaseLookStates(f *fixture) {
	for _, state := range job.States {
		f := newFixture(f.T, f.open)
		f.inState(state)
		f.clock.advance(time.Hour)
		f.is(len(f.looks()) == 1, state == job.Ambiguous || state == job.Accepted, "%s leased", state)
	}
}

func leaseLookAgain(f *fixture) {
	f.ambiguous()
	first := f.looks()[0]
	f.clock.advance(lease - time.Microsecond)
	f.is(len(f.looks()), 0, "leased within the lease")
	f.clock.advance(time.Microsecond)
	second := f.looks()[0]
	f.is(second.ID, first.ID, "job")
	f.is(second.ClaimToken == first.ClaimToken, false, "one token twice")
	f.is(f.armOne(f.intent(first)).Err != nil, true, "armed by the first owner")
}

func leaseLookKept(f *fixture) {
	s := f.ambiguous()
	l := f.looks()[0]
	after := f.apply(l.Snapshot, job.CancelAsked{}).Snapshot
	f.is(after.ClaimToken, l.ClaimToken, "token")
	f.is(after.NextAt, l.NextAt, "end of the lease")
	f.is(f.job(s.ID), after, "stored job")
}

func leaseLookEnds(f *fixture) {
	conn := f.connect(store.Connection{Class: job.Observable})
	f.ambiguous(on(conn))
	l := f.looks()[0]
	after := f.apply(l.Snapshot, job.Looked{Observation: job.Observation{Attempt: 1, Verdict: job.SawInconclusive}}).Snapshot
	f.is(after.ClaimToken.IsZero(), true, "token is gone")
	f.is(after.NextAt, f.clock.now().UTC().Add(5*time.Second), "next look")
	f.is(after.Looks, 1, "looks")
	f.is(f.renew(ref(l)), []bool{false}, "renewed")
}
