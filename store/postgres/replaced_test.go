//go:build unix

package postgres

import (
	"errors"
	"testing"

	"github.com/fireonce/fireonce/store"
)

// TestLoadedUnderOpenSessions: an operator loads a dump into the database without stopping
// the servers. Their sessions survive it, and must not continue from the older state, whether
// its tables were created again or filled again.
func TestLoadedUnderOpenSessions(t *testing.T) {
	f, c, name := clusterFleet(t)
	s := f.join(f.url)
	conn := f.connect()
	f.submit(1, conn)
	before := metaOf(t, s)
	dump := c.Dump(t, name)
	if _, err := armOne(s, intentOf(f.claim(1)[0])); err != nil {
		t.Fatal(err)
	}
	c.Load(t, name, dump)

	// The job is due again according to the database, and was sent already.
	if leases, err := claimOf(s, 1); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("claimed %d jobs: %v", len(leases), err)
	}
	quarantined(t, s, before, "loaded from a dump")
	f.submit(1, conn)

	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Exec(t, name, `CREATE TABLE kept AS SELECT * FROM job_state;
		CREATE TABLE kept_pages AS SELECT * FROM event_pages`)
	if _, err := armOne(s, intentOf(f.claim(1)[0])); err != nil {
		t.Fatal(err)
	}
	c.Exec(t, name, `BEGIN; DELETE FROM attempts; TRUNCATE job_state; TRUNCATE event_pages;
		INSERT INTO job_state SELECT * FROM kept; INSERT INTO event_pages SELECT * FROM kept_pages; COMMIT`)
	if leases, err := claimOf(s, 1); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("claimed %d jobs of the same tables: %v", len(leases), err)
	}
	if _, err := claimOf(s, 1); !errors.Is(err, store.ErrQuarantined) {
		t.Errorf("claim: %v", err)
	}
	if m := metaOf(t, s); m.Incarnation != before.Incarnation+2 {
		t.Errorf("meta: %+v", m)
	}
}
