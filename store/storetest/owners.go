package storetest

import (
	"fmt"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var ownerTests = []test{
	{"of ids, among others", ownersOf},
	{"in one account and namespace", ownersSpace},
	{"by a person's word", ownersByWord},
	{"after an object was taken over", ownersTakenOver},
	{"a batch has a limit", ownersLimit},
}

func (f *fixture) owners(s job.Snapshot, ids ...string) map[string]job.ID {
	f.Helper()
	out, err := f.s.Owners(f.ctx, s.ID, s.Attempt, ids)
	f.ok(err)
	return out
}

func ownersOf(f *fixture) {
	a, b, c := f.sending().Snapshot, f.sending().Snapshot, f.sending().Snapshot
	f.is(len(f.owners(c, "x", "y", "")), 0, "owners before any effect")
	f.apply(a, succeeded(a, "x"))
	f.apply(b, succeeded(b, "")) // no id is no object
	f.is(f.owners(c, "x", "y", ""), map[string]job.ID{"x": a.ID}, "owners")
	f.is(len(f.owners(a, "x")), 0, "owners of its own object")
	f.is(len(f.owners(c)), 0, "owners of nothing")
}

// ownersSpace: the account is the attempt's, and the connection's where the
// attempt names none; the namespace is the connector's.
func ownersSpace(f *fixture) {
	me := f.connect(store.Connection{AccountIdentity: "me"})
	again := f.connect(store.Connection{AccountIdentity: "me"})
	you := f.connect(store.Connection{AccountIdentity: "you"})
	elsewhere := f.connect(store.Connection{AccountIdentity: "me", Connector: "another"})
	owner := f.sending(on(me)).Snapshot
	f.apply(owner, succeeded(owner, "x"))
	for _, tt := range []struct {
		name    string
		conn    store.Connection
		account string // of the attempt
		want    int
	}{
		{"the connection", me, "", 1},
		{"another connection to the account", again, "", 1},
		{"another account", you, "", 0},
		{"an attempt on that account", you, "me", 1},
		{"an attempt on another account", me, "you", 0},
		{"another platform", elsewhere, "", 0},
	} {
		f.submit(on(tt.conn))
		s := f.arm(f.claim(), func(a *store.Arm) { a.AccountIdentity = tt.account }).Snapshot
		f.is(len(f.owners(s, "x")), tt.want, "%s", tt.name)
	}
}

// ownersByWord: an object that a person names is in the account that the job acted on.
func ownersByWord(f *fixture) {
	on := func(account string) func(*store.Arm) {
		return func(a *store.Arm) { a.AccountIdentity = account }
	}
	f.submit()
	a := f.arm(f.claim(), on("me")).Snapshot
	a = f.apply(a, answer(a, job.ResultUnknown)).Snapshot
	f.apply(a, job.Resolved{Ruling: job.RuleSent, Actor: "ann", ExternalID: "x", Override: true})
	f.submit()
	b := f.arm(f.claim(), on("me")).Snapshot
	f.submit()
	c := f.arm(f.claim(), on("you")).Snapshot
	f.is(f.owners(b, "x"), map[string]job.ID{"x": a.ID}, "owner in the account")
	f.is(len(f.owners(c, "x")), 0, "owners in another one")
}

func ownersTakenOver(f *fixture) {
	conn := f.connect(store.Connection{Class: job.Observable, AccountIdentity: "me"})
	a := f.observable(conn)
	b, c := f.sending(on(conn)).Snapshot, f.sending(on(conn)).Snapshot
	f.apply(a, saw("x"))
	f.is(f.owners(b, "x"), map[string]job.ID{"x": a.ID}, "owner by a look")
	f.apply(b, succeeded(b, "x"))
	f.is(f.owners(c, "x"), map[string]job.ID{"x": b.ID}, "owner by an answer")
	f.is(f.owners(a, "x"), map[string]job.ID{"x": b.ID}, "owner, asked by the one before")
}

func ownersLimit(f *fixture) {
	a, b := f.sending().Snapshot, f.sending().Snapshot
	f.apply(a, succeeded(a, "id-499"))
	var ids []string
	for i := range store.MaxBatch {
		ids = append(ids, fmt.Sprintf("id-%d", i))
	}
	f.is(f.owners(b, ids...), map[string]job.ID{"id-499": a.ID}, "owners")
	_, err := f.s.Owners(f.ctx, b.ID, 1, append(ids, "one more"))
	f.fails(err, store.ErrIllegal)
}
