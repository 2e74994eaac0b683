//go:build unix

package postgres

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
)

// doubting is a fleet whose database has one clock, which a test sets.
type doubting struct {
	*fleet
	machine *storetest.Machine
}

func newDoubting(t *testing.T) *doubting {
	d := &doubting{fleet: newFleet(t, 0), machine: storetest.NewMachine(fleetStart)}
	d.believed(d.server(), "the first server")
	return d
}

// server starts one more server.
func (d *doubting) server() *Store {
	d.Helper()
	return d.join(d.url, func(o *Options) { o.Now, o.Clock = nil, store.ClockOptions{Read: d.machine.Read} })
}

// compare makes servers compare their clocks, once a second.
func (d *doubting) compare(seconds int, servers ...*Store) {
	d.Helper()
	for range seconds {
		d.machine.Pass(time.Second)
		for _, s := range servers {
			if err := s.compareClocks(d.Context()); err != nil {
				d.Fatal(err)
			}
		}
	}
}

func (d *doubting) doubt(s *Store) store.SuspectClock {
	d.Helper()
	m, err := s.Meta(d.Context())
	if err != nil {
		d.Fatal(err)
	}
	return m.Clock
}

func (d *doubting) believed(s *Store, when string) {
	d.Helper()
	if c := d.doubt(s); c.Why != "" {
		d.Fatalf("%s: the clock is suspect: %s", when, c.Why)
	}
}

func (d *doubting) suspected(s *Store, kind store.SuspectKind, when string) {
	d.Helper()
	if c := d.doubt(s); c.Kind != kind || !c.Suspends {
		d.Fatalf("%s: suspect %d (%s), want %d", when, c.Kind, c.Why, kind)
	}
}

// ended closes the first server in its doubt.
func (d *doubting) ended(ahead time.Duration) {
	d.Helper()
	d.machine.Set(ahead)
	d.compare(2, d.stores[0])
	d.suspected(d.stores[0], store.SuspectSet, "after the jump")
	if err := d.stores[0].Close(); err != nil {
		d.Fatal(err)
	}
}

// TestADoubtEndsWithItsServer: no server doubts the clock any more.
func TestADoubtEndsWithItsServer(t *testing.T) {
	d := newDoubting(t)
	d.ended(time.Hour)
	d.machine.Set(0)
	d.compare(5)
	d.believed(d.server(), "after the end of the server that doubted")
}

// ghost adds the row of a server that is killed.
func (d *doubting) ghost() {
	d.Helper()
	d.count("WITH g AS (INSERT INTO clock_doubts (server, beats) VALUES ('clock:ghost', 7) RETURNING 1) SELECT count(*) FROM g")
}

func (d *doubting) rows() int { return d.count("SELECT count(*) FROM clock_doubts") }

// TestADoubtOfAKilledServer ends when the server is missed. Several servers that start
// meanwhile do not wait for each other.
func TestADoubtOfAKilledServer(t *testing.T) {
	d := newDoubting(t)
	if err := d.stores[0].Close(); err != nil {
		t.Fatal(err)
	}
	d.ghost()
	a, b := d.server(), d.server()
	d.compare(int(goneFor/time.Second)-1, a, b)
	for _, s := range []*Store{a, b} {
		d.suspected(s, store.SuspectElsewhere, "while the server may live")
	}
	if d.rows() != 1 {
		t.Errorf("%d rows: a server doubts because another one does", d.rows())
	}
	d.compare(4, a, b)
	for _, s := range []*Store{a, b} {
		d.believed(s, "when the server is missed")
	}
	if d.rows() != 0 {
		t.Errorf("%d rows are left", d.rows())
	}
	d.believed(d.server(), "a later server")
}

// lockServers waits, on a connection that lasts as long as the test, for the locks by which the
// servers with a row in clock_doubts are known to live.
func (d *doubting) lockServers() <-chan error {
	d.Helper()
	conn, err := pgx.Connect(d.Context(), d.url)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = conn.Close(context.Background()) })
	done := make(chan error, 1)
	go func() {
		_, err := conn.Exec(d.Context(), "SELECT pg_advisory_lock(hashtextextended(server, $1)) FROM clock_doubts", workerLock)
		done <- err
	}()
	return done
}

// TestADoubtOutlivesItsSession: a living server's doubt stands while its session is lost, and
// while it cannot write.
func TestADoubtOutlivesItsSession(t *testing.T) {
	d := newDoubting(t)
	doubter := d.stores[0]
	d.machine.Set(time.Hour)
	d.compare(2, doubter)
	const shared = "FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND objsubid = 1 AND granted"
	for d.count("SELECT count(*) "+shared) == 0 {
		runtime.Gosched()
	}
	other := d.server()
	d.suspected(other, store.SuspectElsewhere, "at the start")
	d.compare(3*int(goneFor/time.Second), other)
	d.suspected(other, store.SuspectElsewhere, "while the doubter's session lasts, without a beat")
	// The lock goes to this test, so that no later session of the doubter's has it.
	taken := d.lockServers()
	for d.count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND NOT granted") == 0 {
		runtime.Gosched()
	}
	d.count("SELECT count(pg_terminate_backend(pid)) " + shared)
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	for range 3 * int(goneFor/time.Second) {
		d.compare(1, doubter, other) // without a session, the beats count
	}
	d.suspected(other, store.SuspectElsewhere, "while the doubter beats, without a session")
	d.machine.Set(0)
	d.compare(3, doubter, other)
	d.believed(doubter, "when the clock is back")
	d.believed(other, "when another server believes the clock")
}

// TestAbsencesCountWhileTheDatabaseIsReached: a server that did not see the database for a
// while has not seen that another one is gone.
func TestAbsencesCountWhileTheDatabaseIsReached(t *testing.T) {
	d := newDoubting(t)
	if err := d.stores[0].Close(); err != nil {
		t.Fatal(err)
	}
	d.ghost()
	s := d.server()
	for range 5 {
		d.compare(3, s)
		d.machine.Pass(goneFor)
	}
	d.suspected(s, store.SuspectElsewhere, "after absences with gaps")
	d.compare(int(goneFor/time.Second)+3, s)
	d.believed(s, "after absences without a gap")
}

// TestABorrowedDoubtBecomesAnOwnOne: a server that waits for another one's doubt sees the clock
// jump itself.
func TestABorrowedDoubtBecomesAnOwnOne(t *testing.T) {
	d := newDoubting(t)
	if err := d.stores[0].Close(); err != nil {
		t.Fatal(err)
	}
	d.ghost()
	s := d.server()
	d.compare(2, s)
	d.machine.Set(time.Hour)
	d.compare(2*int(goneFor/time.Second), s)
	d.suspected(s, store.SuspectSet, "after a jump of its own")
	if d.rows() != 2 {
		t.Errorf("%d rows, want the ghost's and its own", d.rows())
	}
	d.suspected(d.server(), store.SuspectElsewhere, "a later server")
}
