//go:build unix

package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// startOf stores a job that is to be started, with an intent.
func startOf(s *Store, conn store.Connection) (store.Created, error) {
	n := newSpec(conn)
	n.Start = &store.ClaimParams{
		Worker: "w", Lease: time.Minute,
		Intent: func(l store.Leased) *store.Arm {
			a := intentOf(l)
			return &a
		},
	}
	out, err := s.Create(context.Background(), []store.NewJob{n})
	if err != nil {
		return store.Created{}, err
	}
	return out[0], out[0].Err
}

// TestStart: a due job on a free connection is under way when it is stored.
func TestStart(t *testing.T) {
	f := newFleet(t, 1)
	conn := f.connect()
	for range 3 {
		c, err := startOf(f.stores[0], conn)
		if err != nil || c.Started == nil || c.Started.Armed == nil {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if got, err := claimOf(f.stores[0], 10); err != nil || len(got) != 0 {
		t.Errorf("claimed again: %v, %v", got, err)
	}
	if n := f.count("SELECT count(*) FROM connection_ready WHERE next_at IS NOT NULL"); n != 0 {
		t.Errorf("%d runnable rows have something due", n)
	}
}

// TestStartHistory: the log and the attempts of a started job are those of any other job.
func TestStartHistory(t *testing.T) {
	f := newFleet(t, 1)
	conn := f.connect()
	for range 2 { // the first one makes the runnable row
		if c, err := startOf(f.stores[0], conn); err != nil || c.Started == nil || c.Started.Armed == nil {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	f.unpack()
	sent := "(SELECT job_id FROM job_state WHERE state = 3 AND version = 3 AND attempt = 1 ORDER BY position DESC LIMIT 1)"
	for what, n := range map[string]int{
		"SELECT count(*) FROM every_attempt WHERE number = 1 AND result = 0 AND job_id = " + sent: 1,
		"SELECT count(*) FROM job_keys WHERE job_id = " + sent:                                    1,
		`SELECT count(*) FROM events WHERE to_state = sequence AND from_state = sequence - 1
			AND attempt = sequence / 3 AND job_id = ` + sent: 3,
	} {
		if got := f.count(what); got != n {
			t.Errorf("%d and not %d: %s", got, n, what)
		}
	}
}

// The intent of a reply that is started knows what it answers, and so does its job.
func TestStartReply(t *testing.T) {
	f := newFleet(t, 1)
	conn := f.connect()
	first := f.sending(1, conn)[0]
	done := answerOf(first, job.ResultSucceeded)
	done.ExternalID = "post 1"
	if _, err := apply(f.stores[0], first, done); err != nil {
		t.Fatal(err)
	}
	n := newSpec(conn, func(spec *job.Spec) { spec.ReplyTo = first.ID })
	var knew string
	n.Start = &store.ClaimParams{Worker: "w", Lease: time.Minute, Intent: func(l store.Leased) *store.Arm {
		knew = l.ReplyTo
		a := intentOf(l)
		return &a
	}}
	out, err := f.stores[0].Create(t.Context(), []store.NewJob{n})
	if err != nil || out[0].Err != nil || out[0].Started == nil || out[0].Started.Armed == nil {
		t.Fatalf("%+v, %v", out, err)
	}
	if knew != "post 1" {
		t.Errorf("the intent replies to %q", knew)
	}
	if got, err := f.stores[0].Job(t.Context(), store.Ref{ID: n.Spec.ID}); err != nil || got.ReplyTo != first.ID {
		t.Errorf("the job replies to %s, %v", got.ReplyTo, err)
	}
}

// TestStartHeld: no hold comes between the read of the runnable row and the arm.
func TestStartHeld(t *testing.T) {
	f := newFleet(t, 1)
	conn := f.connect()
	if _, err := startOf(f.stores[0], conn); err != nil {
		t.Fatal(err)
	}
	n := newSpec(conn)
	free := -1
	n.Start = &store.ClaimParams{
		Worker: "w", Lease: time.Minute,
		Intent: func(l store.Leased) *store.Arm {
			free = f.count("SELECT count(*) FROM (SELECT 1 FROM connection_ready FOR NO KEY UPDATE SKIP LOCKED) AS r")
			a := intentOf(l)
			return &a
		},
	}
	out, err := f.stores[0].Create(context.Background(), []store.NewJob{n})
	if err != nil || out[0].Err != nil || out[0].Started == nil {
		t.Fatalf("%+v, %v", out, err)
	}
	if free != 0 {
		t.Errorf("%d runnable rows could be held", free)
	}
}

// TestStoredAs: the database takes a new job as SCHEDULED, and in no other way.
func TestStoredAs(t *testing.T) {
	f := newFleet(t, 1)
	conn := f.connect()
	if _, err := startOf(f.stores[0], conn); err != nil {
		t.Fatal(err)
	}
	f.submit(1, conn)
	for change, want := range map[string]string{
		`{}`: "job_state_pkey", `{"version": 2}`: "job_state_insert", `{"attempt": 1}`: "job_state_insert",
		`{"state": 4}`: "job_state_insert", `{"state": 3}`: "job_state_insert", `{"state": 3, "version": 3, "attempt": 1}`: "job_state_insert",
	} {
		_, err := f.stores[0].pool.Exec(t.Context(), `INSERT INTO job_state SELECT c.* FROM job_state AS s
			CROSS JOIN LATERAL jsonb_populate_record(s, $1::text::jsonb) AS c WHERE s.state = 1 LIMIT 1`, change)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.ConstraintName != want {
			t.Errorf("%s: %v", change, err)
		}
	}
}

// TestFleetStarts: servers store jobs that start and claim those that did not, on a few
// connections with small bounds. Each job has one lease, and none is left.
func TestFleetStarts(t *testing.T) {
	if testing.Short() {
		t.Skip("left out of the ordinary tests")
	}
	const servers, each, most = 3, 60, 4
	f := newFleet(t, servers)
	var conns []store.Connection
	for range 2 {
		conns = append(conns, f.connect(func(c *store.Connection) { c.MaxInFlight = most }))
	}
	var mu sync.Mutex
	leases := make(map[job.ID]int)
	// lease ends a lease, so that others may start.
	lease := func(s *Store, l store.Leased) {
		mu.Lock()
		leases[l.ID]++
		mu.Unlock()
		if l.Armed == nil {
			a, err := armOne(s, intentOf(l))
			if err != nil {
				t.Error(err)
				return
			}
			l.Armed = &a
		}
		snap := l.Armed.Snapshot.Of(l.Spec)
		d, err := job.Decide(snap.View(job.Traits{Class: job.Keyed}, 0), job.Outcome{Attempt: 1, Result: job.ResultSucceeded})
		if err != nil {
			t.Error(err)
			return
		}
		if out, err := s.Apply(context.Background(), []store.Change{{Job: l.ID, Version: snap.Version, Decision: d}}); err != nil || out[0].Err != nil {
			t.Error(err, out)
		}
	}
	var wg sync.WaitGroup
	for i, s := range f.stores {
		for _, conn := range conns {
			wg.Go(func() {
				for range each {
					c, err := startOf(s, conn)
					if err != nil {
						t.Error(err)
						return
					}
					if c.Started != nil {
						lease(s, *c.Started)
					}
				}
			})
		}
		wg.Go(func() {
			for range each {
				got, err := claimOf(f.stores[(i+1)%servers], 3)
				if err != nil {
					t.Error(err)
					return
				}
				for _, l := range got {
					lease(s, l)
				}
			}
		})
	}
	wg.Wait()
	for {
		got, err := claimOf(f.any(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			break
		}
		for _, l := range got {
			lease(f.any(), l)
		}
	}
	if want := servers * each * len(conns); len(leases) != want {
		t.Errorf("%d jobs were leased, of %d", len(leases), want)
	}
	for id, n := range leases {
		if n != 1 {
			t.Errorf("job %s was leased %d times", id, n)
		}
	}
	if n := f.count("SELECT count(*) FROM job_state WHERE state <> 8"); n != 0 {
		t.Errorf("%d jobs are not done", n)
	}
}
