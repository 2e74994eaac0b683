//go:build unix

package postgres

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
)

// clusterFleet is a fleet on a cluster of its own.
func clusterFleet(t *testing.T) (*fleet, *pgtest.Cluster, string) {
	t.Helper()
	c := pgtest.Start(t, pgtest.Options{})
	name := c.NewDatabase(t)
	f := &fleet{TB: t, url: c.URL(name)}
	f.now.Store(fleetStart.UnixMicro())
	return f, c, name
}

func metaOf(t *testing.T, s *Store) store.Meta {
	t.Helper()
	m, err := s.Meta(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// quarantined checks that a database is quarantined, once, with these words, and returns no
// claim until it is released.
func quarantined(t *testing.T, s *Store, before store.Meta, words string) {
	t.Helper()
	m := metaOf(t, s)
	if !strings.Contains(m.Quarantined, words) {
		t.Fatalf("quarantined: %q, want %q", m.Quarantined, words)
	}
	if m.Incarnation != before.Incarnation+1 || m.StoreID != before.StoreID || m.Identity == before.Identity {
		t.Errorf("meta: %+v, before %+v", m, before)
	}
	if _, err := claimOf(s, 1); !errors.Is(err, store.ErrQuarantined) {
		t.Errorf("claim: %v", err)
	}
	_, err := s.Events(t.Context(), store.EventQuery{Incarnation: before.Incarnation})
	if !errors.Is(err, store.ErrCursorExpired) {
		t.Errorf("events after a position of before: %v", err)
	}
}

func TestCopiesAreNoticed(t *testing.T) {
	f, c, name := clusterFleet(t)
	s := f.join(f.url)
	conn := f.connect()
	f.submit(3, conn)
	before := metaOf(t, s)
	if before.Quarantined != "" || before.Incarnation != 1 {
		t.Fatalf("a new database: %+v", before)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Close())
	again := f.join(f.url)
	if m := metaOf(t, again); m != before {
		t.Errorf("the same database: %+v, before %+v", m, before)
	}
	must(again.Close())
	f.stores = nil

	c.Exec(t, "postgres", "CREATE DATABASE copied TEMPLATE "+name+" OWNER "+roleOf(t, c, name))
	quarantined(t, f.join(c.URL("copied")), before, "copy of another one in its cluster")

	// Into the same database, where the cluster's transaction ids have advanced.
	dump := c.Dump(t, name)
	c.Exec(t, "postgres", "CREATE DATABASE loaded OWNER "+roleOf(t, c, name))
	c.Restore(t, "loaded", dump)
	loaded := f.join(c.URL("loaded"))
	quarantined(t, loaded, before, "copy of another one")

	// Into another cluster, whose transaction ids are behind.
	other := pgtest.Start(t, pgtest.Options{})
	c.Exec(t, name, "UPDATE meta SET xid_offset = 1000000")
	late := f.join(f.url)
	f.stores = []*Store{late}
	stored := f.submit(1, conn)
	must(late.Close())
	dump = c.Dump(t, name)
	other.Exec(t, "postgres", "CREATE DATABASE elsewhere")
	other.Restore(t, "elsewhere", dump)
	other.Exec(t, "elsewhere", "UPDATE meta SET xid_offset = 0")
	moved := f.join(other.URL("elsewhere"))
	quarantined(t, moved, before, "another cluster")
	p, err := moved.Events(t.Context(), store.EventQuery{})
	must(err)
	last := p.Events[len(p.Events)-1]
	if last.Job != stored[0].ID {
		t.Errorf("last event of job %s, want %s", last.Job, stored[0].ID)
	}
	f.stores = []*Store{moved}
	f.submit(1, conn)
	p, err = moved.Events(t.Context(), store.EventQuery{After: p.Next})
	must(err)
	if len(p.Events) != 1 || p.Events[0].Position <= last.Position {
		t.Errorf("events after the restored ones, at %d: %+v", last.Position, p.Events)
	}

	must(moved.Release(t.Context()))
	if _, err := claimOf(moved, 1); err != nil {
		t.Errorf("claim after the release: %v", err)
	}
	must(moved.Close())
	if m := metaOf(t, f.join(other.URL("elsewhere"))); m.Quarantined != "" || m.Incarnation != 2 {
		t.Errorf("opened after the release: %+v", m)
	}
}

// roleOf is the role that tests connect as.
func roleOf(t *testing.T, c *pgtest.Cluster, database string) string {
	t.Helper()
	return c.Exec(t, "postgres", "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = '"+database+"'")
}

// TestFailover promotes a standby under two servers that know both hosts: one
// whose operator declares the standby synchronous, and one that does not.
func TestFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("left out of the ordinary tests")
	}
	for _, declared := range []bool{false, true} {
		f, c, name := clusterFleet(t)
		s := f.join(f.url)
		conn := f.connect()
		f.submit(1, conn)
		standby := c.Standby(t)
		both := strings.Replace(c.URL(name), "?host=", "?host="+standbyHost(standby)+",", 1)
		before := metaOf(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = f.join(both, func(o *Options) { o.SynchronousStandby = declared })
		if _, err := Open(t.Context(), Options{URL: standby.URL(name)}); !errors.Is(err, ErrUnsafe) {
			t.Errorf("a standby was opened: %v", err)
		}
		c.Stop(t, pgtest.Fast)
		standby.Promote(t)
		s.pool.Reset()
		if !declared {
			quarantined(t, s, before, "restored or failed over")
			continue
		}
		m := metaOf(t, s)
		if m.Quarantined != "" || m.Incarnation != before.Incarnation || m.Identity == before.Identity {
			t.Errorf("meta after a declared failover: %+v", m)
		}
		f.stores = []*Store{s}
		f.submit(1, conn)
		// The old primary comes back. No server writes to it, wherever it connects.
		sight := comparison{now: identity{}, before: identity{}}
		sight.now = s.seen
		sight.now.timeline--
		if err := s.refuseOlder(sight); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("an older timeline: %v", err)
		}
	}
}

func standbyHost(c *pgtest.Cluster) string {
	path := c.Socket()
	return strings.ReplaceAll(path[:strings.LastIndex(path, "/")], "/", "%2F")
}

// TestLostConfirmation: the database is replaced by a state that lacks what this process
// confirmed. The next session detects it.
func TestLostConfirmation(t *testing.T) {
	f := newFleet(t, 1)
	f.submit(1, f.connect())
	f.sql("DELETE FROM event_pages RETURNING 1", nil, new(int))
	f.stores[0].pool.Reset()
	m := metaOf(t, f.stores[0])
	if !strings.Contains(m.Quarantined, "is gone") || m.Incarnation != 2 {
		t.Errorf("meta: %+v", m)
	}
	f.stores[0].pool.Reset()
	if again := metaOf(t, f.stores[0]); again != m {
		t.Errorf("noticed twice: %+v, then %+v", m, again)
	}
}

// TestLostConfirmationIsNoticedOnce: many concurrent new sessions find a database that lacks
// what this process confirmed.
func TestLostConfirmationIsNoticedOnce(t *testing.T) {
	f := newFleet(t, 1)
	f.submit(1, f.connect())
	s := f.stores[0]
	mark := s.durable.Load()
	f.sql("DELETE FROM event_pages RETURNING 1", nil, new(int))
	for n := int64(2); n < 7; n++ {
		s.durable.Store(mark)
		s.pool.Reset()
		var g sync.WaitGroup
		for range 4 {
			g.Go(func() {
				if _, err := s.Meta(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		g.Wait()
		if m := metaOf(t, s); m.Incarnation != n {
			t.Fatalf("incarnation %d, want %d", m.Incarnation, n)
		}
	}
}
