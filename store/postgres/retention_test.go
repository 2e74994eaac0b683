//go:build unix

package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

const day = 24 * time.Hour

var keeping = store.RetainParams{
	Keep: store.Keep{Jobs: 10 * day, Events: 10 * day, Keys: 30 * day}, Owner: job.ID{1}, Lease: time.Minute, Limit: 50,
}

// pass does one pass and sums up what it did.
func (f *fleet) pass(s *Store, p store.RetainParams) store.Retained {
	f.Helper()
	var sum store.Retained
	for {
		r, err := s.Retain(f.Context(), p)
		if err != nil {
			f.Fatal(err)
		}
		sum.Jobs, sum.Events, sum.Keys = sum.Jobs+r.Jobs, sum.Events+r.Events, sum.Keys+r.Keys
		if p.After = r.Next; r.Done || r.Busy {
			sum.Busy = r.Busy
			return sum
		}
	}
}

// canceled returns n jobs that have ended.
func (f *fleet) canceled(n int, conn store.Connection) []job.Snapshot {
	f.Helper()
	out := f.submit(n, conn)
	for i, s := range out {
		a, err := apply(f.stores[0], s, job.CancelAsked{})
		if err != nil {
			f.Fatal(err)
		}
		out[i] = a.Snapshot
	}
	return out
}

// TestRetainOneAtATime: one server cleans until its lease is over.
func TestRetainOneAtATime(t *testing.T) {
	f := newFleet(t, 2)
	f.canceled(1, f.connect())
	f.advance(20 * day)
	mine, other := keeping, keeping
	other.Owner = job.ID{2}
	if r, err := f.stores[0].Retain(t.Context(), mine); err != nil || r.Busy {
		t.Fatal(r, err)
	}
	if got := f.pass(f.stores[1], other); !got.Busy || got.Jobs != 0 {
		t.Errorf("while another cleans: %+v", got)
	}
	f.advance(40 * time.Second)
	if got := f.pass(f.stores[0], mine); got.Busy || got.Jobs != 1 {
		t.Errorf("who cleans goes on: %+v", got)
	}
	f.advance(40 * time.Second)
	if got := f.pass(f.stores[1], other); !got.Busy {
		t.Error("the lease was not renewed")
	}
	f.advance(21 * time.Second)
	if got := f.pass(f.stores[1], other); got.Busy {
		t.Error("nobody takes over when the lease is over")
	}
	if got := f.pass(f.stores[0], mine); !got.Busy {
		t.Error("two clean at once")
	}
}

// TestRetainWaitsForNobody: retention skips the row of a step in progress, and a locked job.
func TestRetainWaitsForNobody(t *testing.T) {
	f := newFleet(t, 1)
	jobs := f.canceled(3, f.connect())
	f.advance(20 * day)
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	locked := func(text string, args ...any) func() {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), text, args...); err != nil {
			t.Fatal(err)
		}
		return func() { _ = tx.Rollback(context.Background()) }
	}
	end := locked("SELECT 1 FROM retention FOR UPDATE")
	if got := f.pass(f.stores[0], keeping); !got.Busy {
		t.Errorf("under a step of another server: %+v", got)
	}
	end()
	end = locked("SELECT 1 FROM job_state WHERE job_id = $1 FOR SHARE", jobs[1].ID)
	if got := f.pass(f.stores[0], keeping); got.Jobs != 2 {
		t.Errorf("beside a locked job: %+v", got)
	}
	end()
	if got := f.pass(f.stores[0], keeping); got.Jobs != 1 {
		t.Errorf("when it is free: %+v", got)
	}
}

// TestRetainMeetsReply: a reply that is being stored keeps its predecessor.
func TestRetainMeetsReply(t *testing.T) {
	f := newFleet(t, 2)
	conn := f.connect()
	old := f.canceled(1, conn)[0]
	f.advance(20 * day)
	stored, commit := make(chan error), make(chan struct{})
	n := newSpec(conn, func(s *job.Spec) { s.ReplyTo = old.ID })
	done := make(chan error)
	go func() {
		_, err := write(context.Background(), f.stores[1], "test", func(ctx context.Context, t *tx) (struct{}, error) {
			b := &jobCreator{tx: t, items: []store.NewJob{n}, out: make([]store.Created, 1), reads: new(batchReads)}
			b.reads.queueProspects(ctx, t, b.items)
			take := func(ctx context.Context) error { return b.take(ctx, false) }
			for _, step := range []func(context.Context) error{t.flush, take, b.insert} {
				if err := step(ctx); err != nil {
					stored <- err
					return struct{}{}, err
				}
			}
			stored <- b.out[0].Err
			<-commit
			return struct{}{}, nil
		})
		done <- err
	}()
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	if got := f.pass(f.stores[0], keeping); got.Jobs != 0 {
		t.Errorf("while the reply is stored: %+v", got)
	}
	close(commit)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := f.pass(f.stores[0], keeping); got.Jobs != 0 {
		t.Errorf("with a reply: %+v", got)
	}
	if _, err := f.stores[0].Job(t.Context(), store.Ref{ID: old.ID}); err != nil {
		t.Error(err)
	}
}

// TestRetainLeavesNothing: of jobs with all that a job can have, no row is left.
func TestRetainLeavesNothing(t *testing.T) {
	f := newFleet(t, 1)
	s := f.stores[0]
	f.submit(20, f.connect(func(c *store.Connection) { c.Class = job.Opaque }))
	for i, l := range f.claim(20) {
		a, err := armOne(s, intentOf(l))
		if err != nil {
			t.Fatal(err)
		}
		e := []job.Evidence{
			job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: l.ID.String()},
			job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent},
			job.Outcome{Attempt: 1, Result: job.ResultUnknown},
		}[i%3]
		for snap, all := a.Snapshot, []job.Evidence{e, job.Resolved{Ruling: job.RuleSent, Actor: "ann", Override: true}}; len(all) > 0; all = all[1:] {
			done, err := apply(s, snap, all[0])
			if err != nil {
				t.Fatal(err)
			}
			if snap = done.Snapshot; snap.State.Terminal() {
				break
			}
		}
	}
	f.advance(40 * day)
	if got := f.pass(s, keeping); got.Jobs != 20 || got.Keys != 20 {
		t.Errorf("removed: %+v", got)
	}
	for _, table := range []string{
		"jobs", "job_state", "job_keys", "attempts", "effects", "observations", "resolutions", "open_intents",
		"job_history", "event_texts",
	} {
		if n := f.count("SELECT count(*) FROM " + table); n != 0 {
			t.Errorf("%s: %d rows are left", table, n)
		}
	}
	if n := f.count("SELECT count(*) FROM event_pages"); n != 1 {
		t.Errorf("the log: %d pages are left, want the newest", n)
	}
}

// TestRetainKeepsIdentity: a server whose last confirmed event was dropped continues, and
// finds nothing suspicious in the database.
func TestRetainKeepsIdentity(t *testing.T) {
	f := newFleet(t, 2)
	conn := f.connect()
	f.canceled(2, conn)
	f.advance(20 * day)
	out, err := f.stores[1].Create(t.Context(), []store.NewJob{newSpec(conn)})
	if err != nil || out[0].Err != nil {
		t.Fatal(out, err)
	}
	if got := f.pass(f.stores[1], keeping); got.Jobs != 2 {
		t.Errorf("removed: %+v", got)
	}
	// The first server has confirmed nothing since its events were dropped.
	f.submit(1, conn)
	again := f.join(f.url)
	if m := metaOf(t, again); m.Quarantined != "" {
		t.Errorf("quarantined: %s", m.Quarantined)
	}
	_, err = again.Events(t.Context(), store.EventQuery{})
	if !errors.Is(err, store.ErrCursorExpired) {
		t.Errorf("from the beginning of time: %v", err)
	}
}
