//go:build unix

package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// A plan that is made while the tables are empty is kept. None of the statements
// of the work may read whole tables by it.
func TestNoScans(t *testing.T) {
	f := newFleetApart(t, 1)
	scans := func() (n int) {
		t.Helper()
		if err := f.stores[0].Close(); err != nil {
			t.Fatal(err)
		}
		conn, err := pgx.Connect(t.Context(), f.url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.Background()) }()
		// A session reports what it did when it ends.
		for others := 1; others > 0; {
			err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`).Scan(&others)
			if err != nil {
				t.Fatal(err)
			}
		}
		err = conn.QueryRow(t.Context(), `SELECT sum(seq_scan) FROM pg_stat_user_tables
			WHERE relname IN ('jobs', 'job_state', 'job_keys', 'attempts', 'effects', 'open_intents', 'event_pages', 'event_texts', 'job_history')`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := scans()
	f.stores = nil
	s := f.join(f.url)
	conn := f.connect(func(c *store.Connection) { c.Class, c.AccountIdentity = job.Observable, "me" })
	// The server settles on a plan for good after five runs of a statement.
	for range 12 {
		f.submit(4, conn)
		for i, l := range f.claim(4) {
			a, err := armOne(s, intentOf(l, func(a *store.Arm) { a.Gate = l.ID[:] }))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Renew(t.Context(), time.Minute, []store.LeaseRef{{Job: l.ID, Token: l.ClaimToken}}); err != nil {
				t.Fatal(err)
			}
			var e job.Evidence = job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: l.ID.String()}
			if i == 0 {
				e = job.Outcome{Attempt: 1, Result: job.ResultUnknown}
			}
			if _, err := apply(s, a.Snapshot, e); err != nil {
				t.Fatal(err)
			}
		}
		f.advance(time.Minute)
		if _, err := s.ClaimLooks(t.Context(), store.ClaimParams{Worker: "w", Lease: time.Minute, Limit: 10}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Overdue(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		if _, err := s.NextDue(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if after := scans(); after != before {
		t.Errorf("%d scans of whole tables", after-before)
	}
}
