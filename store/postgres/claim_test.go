//go:build unix

package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// jobsWait makes the sessions of the name "slow" wait during a statement, wherever they read
// a job's request, while another session holds the lock 1.
const jobsWait = `
	CREATE FUNCTION waited() RETURNS boolean LANGUAGE plpgsql AS $$
	BEGIN
		IF current_setting('application_name') = 'slow' THEN PERFORM pg_advisory_xact_lock_shared(1); END IF;
		RETURN true;
	END $$;
	CREATE POLICY waiting ON jobs USING (waited());
	ALTER TABLE jobs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
	SELECT pg_advisory_lock(1)`

// A job whose request is changed while a claim looks for due jobs is claimed with its
// committed request, or later.
func TestClaimOfChangedContent(t *testing.T) {
	f := newFleetApart(t, 1)
	jobs := f.submit(2, f.connect())
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	slow := f.join(f.url + "&application_name=slow")
	if _, err := conn.Exec(t.Context(), jobsWait); err != nil {
		t.Fatal(err)
	}
	// The writer has its place in the log, and all its locks, before the claim.
	changed, commit := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := changeSlowly(f.stores[0], jobs[1], store.Content{Payload: []byte("new"), HoldKey: "account"}, changed, commit); err != nil {
			t.Error(err)
		}
	})
	<-changed
	var leased []store.Leased
	var over atomic.Bool
	wg.Go(func() {
		defer over.Store(true)
		var err error
		if leased, err = claimOf(slow, 2); err != nil {
			t.Error(err)
		}
	})
	for f.count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 0 {
		if over.Load() {
			t.Error("the claim did not wait")
			break
		}
	}
	close(commit)
	for f.count("SELECT count(*) FROM job_state WHERE version > 1") == 0 {
		if t.Failed() {
			break
		}
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_unlock(1)"); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for len(leased) < 2 {
		more, err := claimOf(slow, 2)
		if err != nil || len(more) == 0 {
			t.Fatalf("%d jobs of 2 are leased, then %v", len(leased), err)
		}
		leased = append(leased, more...)
	}
	for _, l := range leased {
		if l.ID == jobs[1].ID && string(l.Payload) != "new" {
			t.Errorf("claimed in version %d with the payload %s", l.Version, l.Payload)
		}
	}
	f.consistent()
}

// changeSlowly changes a job's request, and waits before it commits.
func changeSlowly(s *Store, snap job.Snapshot, c store.Content, changed, commit chan struct{}) error {
	d, err := job.Decide(snap.View(job.Traits{Class: snap.Class}, 0), job.UpdateAsked{})
	if err != nil {
		return err
	}
	_, err = write(context.Background(), s, "apply", func(ctx context.Context, t *tx) (store.Applied, error) {
		b := &changeApplier{
			tx: t, items: []store.Change{{Job: snap.ID, Version: snap.Version, Decision: d, Content: &c}},
			out: make([]store.Applied, 1), runnable: make(runnableRows),
		}
		if b.locked, err = t.reread(ctx, []job.ID{snap.ID}); err != nil {
			return store.Applied{}, err
		}
		err := errors.Join(b.writeIndependent(ctx, []int{0}), b.out[0].Err, b.finish(ctx))
		close(changed)
		<-commit
		return b.out[0], err
	})
	return err
}
