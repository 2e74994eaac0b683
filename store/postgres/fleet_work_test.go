//go:build unix

package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Claimers on three servers take every job once, and never more of a connection than its
// bound.
func TestFleetClaims(t *testing.T) {
	f := newFleet(t, 3)
	const jobs, claimers = 50, 2
	limits := []int{1, 3, 20}
	bound := make(map[job.ID]int)
	for _, limit := range limits {
		conn := f.connect(func(c *store.Connection) { c.MaxInFlight = limit })
		bound[conn.ID] = limit
		f.submit(jobs, conn)
	}
	var mu sync.Mutex
	claimed, busy := make(map[job.ID]int), make(map[job.ID]int)
	var done atomic.Int64
	finish := func(s *Store, l store.Leased) {
		a, err := armOne(s, intentOf(l))
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		// The capacity returns with the commit, which comes after this.
		busy[l.Connection.ID]--
		mu.Unlock()
		if _, err := apply(s, a.Snapshot, answerOf(a.Snapshot, job.ResultSucceeded)); err != nil {
			t.Error(err)
		}
		done.Add(1)
	}
	var wg sync.WaitGroup
	for i := range claimers * len(f.stores) {
		s := f.stores[i%len(f.stores)]
		wg.Go(func() {
			for done.Load() < jobs*int64(len(limits)) && !t.Failed() {
				got, err := claimOf(s, 10)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, l := range got {
					claimed[l.ID]++
					if busy[l.Connection.ID]++; busy[l.Connection.ID] > bound[l.Connection.ID] {
						t.Errorf("%d jobs under way, at most %d", busy[l.Connection.ID], bound[l.Connection.ID])
					}
				}
				mu.Unlock()
				for _, l := range got {
					finish(s, l)
				}
			}
		})
	}
	wg.Wait()
	for id, n := range claimed {
		if n != 1 {
			t.Errorf("job %s was claimed %d times", id, n)
		}
	}
	if len(claimed) != jobs*len(limits) {
		t.Errorf("%d jobs were claimed, of %d", len(claimed), jobs*len(limits))
	}
	f.consistent()
}

// All servers share the tokens of a connection.
func TestFleetTokens(t *testing.T) {
	f := newFleet(t, 3)
	const perMinute = 60
	conn := f.connect(func(c *store.Connection) { c.MaxPerMinute, c.MaxInFlight = perMinute, 1000 })
	f.submit(3*perMinute, conn)
	var claims atomic.Int64
	all := func() {
		each(f, make([]struct{}, 9), func(s *Store, _ struct{}) {
			got, err := claimOf(s, 100)
			if err != nil {
				t.Error(err)
			}
			claims.Add(int64(len(got)))
		})
	}
	all()
	if got := claims.Load(); got != perMinute/10 {
		t.Errorf("%d claims at once, want a tenth of %d", got, perMinute)
	}
	for range 59 {
		f.advance(time.Second)
		all()
	}
	if got := claims.Load(); got > perMinute || got < perMinute/2 {
		t.Errorf("%d claims in a minute, at most %d", got, perMinute)
	}
}

// One reconciler gets a look.
func TestFleetLooks(t *testing.T) {
	f := newFleet(t, 2)
	conn := f.connect(func(c *store.Connection) { c.Class = job.Observable })
	const looks = 60
	for _, s := range f.sending(looks, conn) {
		if _, err := apply(f.any(), s, answerOf(s, job.ResultUnknown)); err != nil {
			t.Fatal(err)
		}
	}
	f.advance(time.Hour)
	var mu sync.Mutex
	owners := make(map[job.ID]int)
	each(f, make([]struct{}, 12), func(s *Store, _ struct{}) {
		got, err := s.ClaimLooks(context.Background(), store.ClaimParams{Worker: "w", Lease: time.Minute, Limit: 10})
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, l := range got {
			owners[l.ID]++
		}
	})
	for id, n := range owners {
		if n != 1 {
			t.Errorf("the look of %s was leased %d times", id, n)
		}
	}
	if len(owners) != looks {
		t.Errorf("%d looks were leased, of %d", len(owners), looks)
	}
}

// Of several jobs with one content at most one is armed.
func TestFleetGates(t *testing.T) {
	f := newFleet(t, 3)
	conn := f.connect(func(c *store.Connection) { c.Class = job.Observable })
	const contents, copies = 5, 8
	f.submit(contents*copies, conn)
	leases := f.claim(contents * copies)
	var armed [contents]atomic.Int64
	index := make(map[job.ID]int)
	for i, l := range leases {
		index[l.ID] = i % contents
	}
	each(f, leases, func(s *Store, l store.Leased) {
		n := index[l.ID]
		_, err := armOne(s, intentOf(l, func(a *store.Arm) { a.Gate, a.AccountIdentity = []byte{byte(n)}, "me" }))
		switch {
		case err == nil:
			armed[n].Add(1)
		case !errors.Is(err, store.ErrGated):
			t.Error(err)
		}
	})
	for n := range armed {
		if got := armed[n].Load(); got != 1 {
			t.Errorf("content %d: %d jobs were armed", n, got)
		}
	}
}

// An object that many looks find concurrently settles one job.
func TestFleetEffectsSeen(t *testing.T) {
	f := newFleet(t, 3)
	conn := f.connect(func(c *store.Connection) { c.Class, c.AccountIdentity = job.Observable, "me" })
	var unknown []job.Snapshot
	for _, s := range f.sending(24, conn) {
		a, err := apply(f.any(), s, answerOf(s, job.ResultUnknown))
		if err != nil {
			t.Fatal(err)
		}
		unknown = append(unknown, a.Snapshot)
	}
	states := make(map[job.State]int)
	var mu sync.Mutex
	each(f, unknown, func(s *Store, snap job.Snapshot) {
		a, err := apply(s, snap, job.Looked{Observation: job.Observation{Attempt: 1, Verdict: job.SawPresent, ExternalID: "x"}})
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Error(err)
		}
		states[a.Snapshot.State]++
	})
	if states[job.Succeeded] != 1 || states[job.NeedsResolution] != len(unknown)-1 {
		t.Errorf("states %v of %d jobs", states, len(unknown))
	}
	f.consistent()
}

// Many answers with few objects, while looks find the same: nothing is lost in deadlocks, one
// answer keeps the object, and a job that loses it has an event.
func TestFleetEffectsAnswered(t *testing.T) {
	f := newFleet(t, 3)
	conn := f.connect(func(c *store.Connection) { c.Class, c.AccountIdentity = job.Observable, "me" })
	objects := []string{"x", "y", "z"}
	sent := f.sending(36, conn)
	for i, s := range sent {
		if i%2 == 0 {
			continue
		}
		a, err := apply(f.any(), s, answerOf(s, job.ResultUnknown))
		if err != nil {
			t.Fatal(err)
		}
		sent[i] = a.Snapshot
	}
	index := make(map[job.ID]int)
	for i, s := range sent {
		index[s.ID] = i
	}
	var told atomic.Int64
	each(f, sent, func(s *Store, snap job.Snapshot) {
		i := index[snap.ID]
		object := objects[i/2%len(objects)]
		var e job.Evidence = job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: object}
		if i%2 == 1 {
			e = job.Looked{Observation: job.Observation{Attempt: 1, Verdict: job.SawPresent, ExternalID: object}}
		}
		a, err := apply(s, snap, e)
		if err != nil {
			t.Error(err)
		}
		if !a.Owner.IsZero() {
			told.Add(1)
		}
	})
	if n := f.count("SELECT count(*) FROM effects WHERE owns_id AND proof = 1"); n != len(objects) {
		t.Errorf("%d answers own an object, want %d", n, len(objects))
	}
	f.unpack()
	if n := f.count("SELECT count(*) FROM events WHERE cause = $1 AND detail LIKE 'the platform answered%'", int(job.CauseEffectShared)); n != int(told.Load()) {
		t.Errorf("%d events of jobs whose object another one has, told %d", n, told.Load())
	}
	f.consistent()
}

// A reply that is submitted while the job that it answers succeeds is released, by either of
// the two transactions.
func TestFleetReplies(t *testing.T) {
	f := newFleet(t, 3)
	conn := f.connect()
	sent := f.sending(30, conn)
	each(f, append(sent, sent...), func() func(*Store, job.Snapshot) {
		var mu sync.Mutex
		seen := make(map[job.ID]bool)
		return func(s *Store, snap job.Snapshot) {
			mu.Lock()
			second := seen[snap.ID]
			seen[snap.ID] = true
			mu.Unlock()
			if !second {
				if _, err := apply(s, snap, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: snap.ID.String()}); err != nil {
					t.Error(err)
				}
				return
			}
			out, err := s.Create(context.Background(), []store.NewJob{newSpec(conn, func(n *job.Spec) { n.ReplyTo = snap.ID })})
			if err != nil || out[0].Err != nil {
				t.Error(err, out)
			}
		}
	}())
	if n := f.count("SELECT count(*) FROM job_state WHERE waits_for IS NOT NULL"); n != 0 {
		t.Errorf("%d replies wait for a job that has succeeded", n)
	}
	for _, l := range f.claim(len(sent)) {
		if l.ReplyTo != l.Spec.ReplyTo.String() {
			t.Errorf("reply to %q, want the object of %s", l.ReplyTo, l.Spec.ReplyTo)
		}
	}
}

// Claims of many servers together stop exactly at the bound, and a connection that was set
// aside is served again when it has capacity.
func TestFleetInFlight(t *testing.T) {
	f := newFleet(t, 3)
	const limit = 7
	conn := f.connect(func(c *store.Connection) { c.MaxInFlight = limit })
	keys := []string{"a", "b", "c"}
	for _, k := range keys {
		f.submit(20, conn, func(s *job.Spec) { s.HoldKey = k })
	}
	var mu sync.Mutex
	var leases []store.Leased
	all := func() {
		each(f, make([]struct{}, 9), func(s *Store, _ struct{}) {
			got, err := claimOf(s, 5)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			leases = append(leases, got...)
		})
	}
	for range 4 {
		for range 2 {
			all()
		}
		if len(leases) != limit {
			t.Fatalf("%d jobs under way, want %d", len(leases), limit)
		}
		// Ends and claims run concurrently: a transaction that sets the connection aside must
		// have seen every end that did not see it set aside.
		var wg sync.WaitGroup
		ending := leases
		leases = nil
		wg.Go(func() {
			each(f, ending, func(s *Store, l store.Leased) {
				if _, err := apply(s, l.Snapshot, job.CancelAsked{}); err != nil {
					t.Error(err)
				}
			})
		})
		wg.Go(all)
		wg.Wait()
		f.consistent()
	}
}
