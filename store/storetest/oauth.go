package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var oauthTests = []test{
	{"a login", loginKept},
	{"a login is taken once", loginOnce},
	{"a login of another project", loginForeign},
	{"a login's end", loginEnds},
	{"a state twice", loginTwice},
	{"old logins make room", loginsOld},
	{"a lease", renewalLease},
	{"a lease of many", renewalOne},
	{"a lease for an old credential", renewalStale},
	{"a lease that its owner keeps", renewalKept},
	{"a lease whose owner died", renewalOver},
	{"a rest", renewalRests},
	{"leases that spent nothing", renewalUnspent},
	{"leases apart", renewalApart},
	{"a lease of a copy", renewalQuarantined},
}

func (f *fixture) login(edit ...func(*store.Login)) store.Login {
	f.Helper()
	state := make([]byte, 32)
	id := f.id()
	copy(state, id[:])
	l := store.Login{
		State: state, Project: project, Actor: "api:key", App: "x", Target: []byte("target"), KeyID: "k",
		Sealed: []byte("sealed"), RedirectURL: "https://example.org/back", ReturnURL: "https://example.org/done",
	}
	for _, e := range edit {
		e(&l)
	}
	f.ok(f.s.StartLogin(f.ctx, l, 10*time.Minute))
	return l
}

func loginKept(f *fixture) {
	for _, l := range []store.Login{f.login(), f.login(func(l *store.Login) {
		l.Target, l.Sealed, l.ReturnURL = []byte{0}, []byte{0, 1}, ""
	})} {
		l.Expires = start.Add(10 * time.Minute)
		for range 2 {
			got, err := f.s.ReadLogin(f.ctx, l.State)
			f.ok(err)
			f.is(got, l, "login, read")
		}
		got, err := f.s.TakeLogin(f.ctx, project, l.State)
		f.ok(err)
		f.is(got, l, "login")
		_, err = f.s.ReadLogin(f.ctx, l.State)
		f.fails(err, store.ErrNotFound)
	}
}

func loginOnce(f *fixture) {
	l := f.login()
	var won atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			switch _, err := f.s.TakeLogin(f.ctx, "", l.State); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, store.ErrNotFound):
				f.Error(err)
			}
		})
	}
	all.Wait()
	f.is(won.Load(), int32(1), "takers")
}

func loginForeign(f *fixture) {
	l := f.login()
	_, err := f.s.TakeLogin(f.ctx, "other", l.State)
	f.fails(err, store.ErrNotFound)
	_, err = f.s.TakeLogin(f.ctx, project, l.State)
	f.ok(err)
}

func loginEnds(f *fixture) {
	l, other := f.login(), f.login()
	f.clock.advance(10*time.Minute - time.Microsecond)
	_, err := f.s.TakeLogin(f.ctx, project, l.State)
	f.ok(err)
	_, err = f.s.ReadLogin(f.ctx, other.State)
	f.ok(err)
	f.clock.advance(time.Microsecond)
	_, err = f.s.ReadLogin(f.ctx, other.State)
	f.fails(err, store.ErrNotFound)
	_, err = f.s.TakeLogin(f.ctx, project, other.State)
	f.fails(err, store.ErrNotFound)
}

func loginTwice(f *fixture) {
	l := f.login()
	f.fails(f.s.StartLogin(f.ctx, l, time.Minute), store.ErrIllegal)
	f.fails(f.s.StartLogin(f.ctx, store.Login{State: []byte("short")}, time.Minute), store.ErrIllegal)
}

func loginsOld(f *fixture) {
	l := f.login()
	f.clock.advance(10 * time.Minute)
	f.login()
	f.ok(f.s.StartLogin(f.ctx, l, time.Minute)) // its state is free
}

// credentialed stores a credential for the fixture's connection.
func (f *fixture) credentialed() {
	f.Helper()
	f.conn = f.revise(f.conn, store.ConnectionChange{Credential: sealedNext(f.conn, "k")})
}

func (f *fixture) leaseRenewal(version int, owner job.ID, edit ...func(*store.RenewalParams)) store.Renewal {
	f.Helper()
	p := store.RenewalParams{Connection: f.conn.ID, Version: version, Owner: owner, Lease: time.Minute}
	for _, e := range edit {
		e(&p)
	}
	r, err := f.s.BeginRenewal(f.ctx, p)
	f.ok(err)
	return r
}

func renewalLease(f *fixture) {
	f.credentialed()
	a, b := f.id(), f.id()
	f.is(f.leaseRenewal(1, a), store.Renewal{Granted: true}, "first")
	f.clock.advance(time.Second)
	f.is(f.leaseRenewal(1, b), store.Renewal{Tries: 1, Left: 59 * time.Second}, "second")
	f.ok(f.s.EndRenewal(f.ctx, f.conn.ID, b, 0, false))
	f.is(f.leaseRenewal(1, b).Granted, false, "after an end that was not its owner's")
	f.ok(f.s.EndRenewal(f.ctx, f.conn.ID, a, 0, false))
	f.is(f.leaseRenewal(1, b), store.Renewal{Granted: true, Tries: 1}, "after its end")
	f.ok(f.s.EndRenewal(f.ctx, f.id(), b, 0, false))
}

func renewalOne(f *fixture) {
	f.credentialed()
	var won atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		owner := f.id()
		all.Go(func() {
			r, err := f.s.BeginRenewal(f.ctx, store.RenewalParams{Connection: f.conn.ID, Version: 1, Owner: owner, Lease: time.Minute})
			if err != nil {
				f.Error(err)
			}
			if r.Granted {
				won.Add(1)
			}
		})
	}
	all.Wait()
	f.is(won.Load(), int32(1), "leases")
}

func renewalStale(f *fixture) {
	ask := func(conn job.ID, version int) error {
		_, err := f.s.BeginRenewal(f.ctx, store.RenewalParams{Connection: conn, Version: version, Owner: f.id(), Lease: time.Minute})
		return err
	}
	f.fails(ask(f.conn.ID, 0), store.ErrStale)
	f.fails(ask(f.conn.ID, 1), store.ErrStale)
	f.credentialed()
	f.fails(ask(f.id(), 1), store.ErrNotFound)
	f.ok(ask(f.conn.ID, 1))
	f.credentialed()
	f.fails(ask(f.conn.ID, 1), store.ErrStale)
	f.is(f.leaseRenewal(2, f.id()), store.Renewal{Granted: true}, "the next version's lease, whoever has the last one's")
	f.revise(f.conn, store.ConnectionChange{Delete: true})
	f.fails(ask(f.conn.ID, 2), store.ErrStale)
}

func renewalKept(f *fixture) {
	f.credentialed()
	a := f.id()
	f.leaseRenewal(1, a)
	f.clock.advance(59 * time.Second)
	f.is(f.leaseRenewal(1, a), store.Renewal{Granted: true}, "once more")
	f.clock.advance(59 * time.Second)
	f.is(f.leaseRenewal(1, f.id()).Left, time.Second, "left")
}

func renewalOver(f *fixture) {
	f.credentialed()
	a, b := f.id(), f.id()
	f.leaseRenewal(1, a)
	f.clock.advance(time.Minute)
	f.is(f.leaseRenewal(1, b), store.Renewal{Granted: true, Tries: 1}, "after its lease")
	f.ok(f.s.EndRenewal(f.ctx, f.conn.ID, a, time.Hour, true))
	f.clock.advance(time.Minute)
	f.is(f.leaseRenewal(1, a), store.Renewal{Granted: true, Tries: 2}, "after the second lease")
}

func renewalRests(f *fixture) {
	f.credentialed()
	a := f.id()
	f.leaseRenewal(1, a)
	f.ok(f.s.EndRenewal(f.ctx, f.conn.ID, a, 30*time.Second, false))
	f.clock.advance(10 * time.Second)
	f.is(f.leaseRenewal(1, a), store.Renewal{Resting: true, Tries: 1, Left: 20 * time.Second}, "resting")
	f.clock.advance(20 * time.Second)
	f.is(f.leaseRenewal(1, a), store.Renewal{Granted: true, Tries: 1}, "rested")
	f.ok(f.s.EndRenewal(f.ctx, f.conn.ID, a, time.Hour, false))
	f.credentialed()
	f.is(f.leaseRenewal(2, a).Granted, true, "the rest is the old version's")
}

func renewalUnspent(f *fixture) {
	f.credentialed()
	a := f.id()
	f.leaseRenewal(1, a)
	f.ok(f.s.EndRenewal(f.ctx, f.conn.ID, a, 0, true))
	f.is(f.leaseRenewal(1, a), store.Renewal{Granted: true}, "again")
}

func renewalApart(f *fixture) {
	f.credentialed()
	a := f.id()
	apart := func(p *store.RenewalParams) { p.Apart = time.Minute }
	f.is(f.leaseRenewal(1, a, apart), store.Renewal{Granted: true}, "the first ever")
	f.credentialed()
	f.clock.advance(time.Minute - time.Microsecond)
	f.is(f.leaseRenewal(2, a, apart), store.Renewal{TooSoon: true}, "too soon")
	f.is(f.leaseRenewal(2, a, apart), store.Renewal{TooSoon: true}, "asked twice")
	f.clock.advance(time.Microsecond)
	f.is(f.leaseRenewal(2, a, apart), store.Renewal{Granted: true}, "in time")
}

func renewalQuarantined(f *fixture) {
	f.credentialed()
	f.ok(f.s.Quarantine(f.ctx, "a copy"))
	_, err := f.s.BeginRenewal(f.ctx, store.RenewalParams{Connection: f.conn.ID, Version: 1, Owner: f.id(), Lease: time.Minute})
	f.fails(err, store.ErrQuarantined)
}
