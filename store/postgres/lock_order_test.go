//go:build unix

package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
)

// rival is a transaction of the test's own that blocks others.
type rival struct {
	*fleet
	conn *pgx.Conn
}

// rival begins a transaction. It waits less for a lock than the server takes to look
// for deadlocks.
func (f *fleet) rival() *rival {
	f.Helper()
	return f.rivalAt(f.url)
}

func (f *fleet) rivalAt(url string) *rival {
	f.Helper()
	conn, err := pgx.Connect(f.Context(), url)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = conn.Close(context.Background()) })
	r := &rival{f, conn}
	r.must("BEGIN")
	r.must("SET LOCAL lock_timeout = '500ms'")
	return r
}

// must runs a statement that waits for no lock.
func (r *rival) must(text string, args ...any) {
	r.Helper()
	if _, err := r.conn.Exec(r.Context(), text, args...); err != nil {
		r.Errorf("%s: %v", text, err)
	}
}

// awaitWaiters returns when n sessions of the database wait for locks.
func (f *fleet) awaitWaiters(n int) {
	f.Helper()
	conn, err := pgx.Connect(f.Context(), f.url)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for waiting := 0; waiting < n && !f.Failed(); {
		err := conn.QueryRow(f.Context(), `SELECT count(DISTINCT l.pid) FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
			WHERE a.datname = current_database() AND NOT l.granted`).Scan(&waiting)
		if err != nil {
			f.Fatal(err)
		}
	}
}

// waitsFirst checks that call waits for what the rival locks first, and has not locked by
// then what comes behind it.
func (f *fleet) waitsFirst(r *rival, behind string, args []any, call func()) {
	f.Helper()
	var wg sync.WaitGroup
	wg.Go(call)
	f.awaitWaiters(1)
	r.must(behind, args...)
	r.must("ROLLBACK")
	wg.Wait()
}

// A job that adds a runnable row, behind others that it locks, meets a change of their
// connection: one of the two waits for the other before it has a lock that the other needs.
func TestNewReadyRowDuringAChange(t *testing.T) {
	f := newFleet(t, 2)
	conn := f.connect()
	inRow := func(hold string) store.NewJob {
		return newSpec(conn, func(s *job.Spec) { s.HoldKey = hold })
	}
	create := func(items ...store.NewJob) {
		out, err := f.stores[0].Create(context.Background(), items)
		if err == nil {
			err = firstError(out)
		}
		if err != nil {
			t.Error(err)
		}
	}
	create(inRow("a"), inRow("b"))
	r := f.rival()
	r.must("SELECT FROM connection_ready WHERE hold_key = 'b' FOR UPDATE")
	var wg sync.WaitGroup
	wg.Go(func() { create(inRow("a"), inRow("b"), inRow("c")) })
	f.awaitWaiters(1)
	wg.Go(func() {
		why := "why"
		_, err := f.stores[1].ChangeConnection(context.Background(), store.ConnectionChange{
			Project: conn.Project, ID: conn.ID, Version: conn.Version, Pause: &why,
		})
		if err != nil {
			t.Error(err)
		}
	})
	f.awaitWaiters(2)
	// The new job has the row "a", so the change may not have the connection.
	r.must("SELECT FROM connections FOR KEY SHARE NOWAIT")
	r.must("ROLLBACK")
	wg.Wait()
	if n := f.count("SELECT count(*) FROM connection_ready WHERE paused"); n != 3 {
		t.Errorf("%d runnable rows are paused", n)
	}
	f.consistent()
	f.connectionsConsistent()
}

// Keys are bound in their order, under every plan that joins them with their connections.
func TestKeysAreBoundInOrder(t *testing.T) {
	f := newFleet(t, 1)
	conns := []store.Connection{f.connect(), f.connect()}
	items := []store.NewJob{
		newSpec(conns[0], func(s *job.Spec) { s.Key = "b" }), newSpec(conns[1], func(s *job.Spec) { s.Key = "a" }),
	}
	bind := "INSERT INTO job_keys (digest, job_id) VALUES ($1, gen_random_uuid()) ON CONFLICT DO NOTHING"
	r := f.rival()
	r.must(bind, digestOf("default", "a"))
	f.waitsFirst(r, bind, []any{digestOf("default", "b")}, func() {
		if out, err := f.stores[0].Create(context.Background(), items); err != nil || !out[0].Created || !out[1].Created {
			t.Error(err, out)
		}
	})
}

// A job waits for its effect key before it has the claim lock of its connection, which
// results and other jobs need.
func TestEffectKeysComeBeforeTurns(t *testing.T) {
	f := newFleet(t, 1)
	conn := f.connect(func(c *store.Connection) { c.Class = job.Keyed })
	f.submit(1, conn) // so that its claim lock exists
	n := newSpec(conn, func(s *job.Spec) { s.OwnEffectKey, s.HoldKey = "ch_1", "another" })
	n.EffectKey, n.Start = job.EffectKeyDigest("https://api.example", "ch_1"), &store.ClaimParams{Worker: "w", Lease: time.Minute, Limit: 1}
	take := "INSERT INTO effect_keys (digest, job_id) VALUES ($1, gen_random_uuid())"
	r := f.rival()
	r.must(take, n.EffectKey[:])
	f.waitsFirst(r, "SELECT FROM connection_claims WHERE connection_id = $1 FOR UPDATE", []any{conn.ID}, func() {
		out, err := f.stores[0].Create(context.Background(), []store.NewJob{n})
		if err != nil || !out[0].Created || out[0].Started == nil {
			t.Error(err, out)
		}
	})
}

// The keys of one batch are taken in the order of their digests, after its bindings.
func TestEffectKeysAreTakenInOrder(t *testing.T) {
	f := newFleet(t, 1)
	conn := f.connect(func(c *store.Connection) { c.Class = job.Keyed })
	items := []store.NewJob{newSpec(conn), newSpec(conn)}
	for i := range items {
		items[i].Spec.OwnEffectKey = fmt.Sprint("ch_", i)
		items[i].EffectKey = job.EffectKeyDigest("https://api.example", items[i].Spec.OwnEffectKey)
	}
	slices.SortFunc(items, func(x, y store.NewJob) int { return bytes.Compare(y.EffectKey[:], x.EffectKey[:]) })
	take := "INSERT INTO effect_keys (digest, job_id) VALUES ($1, gen_random_uuid())"
	r := f.rival()
	r.must(take, items[1].EffectKey[:])
	f.waitsFirst(r, take, []any{items[0].EffectKey[:]}, func() {
		if out, err := f.stores[0].Create(context.Background(), items); err != nil || !out[0].Created || !out[1].Created {
			t.Error(err, out)
		}
	})
}

// A job's key comes before every caller's effect key.
func TestKeysComeBeforeEffectKeys(t *testing.T) {
	f := newFleet(t, 1)
	conn := f.connect(func(c *store.Connection) { c.Class = job.Keyed })
	n := newSpec(conn, func(s *job.Spec) { s.Key, s.OwnEffectKey = "a", "ch_1" })
	n.EffectKey = job.EffectKeyDigest("https://api.example", "ch_1")
	r := f.rival()
	r.must("INSERT INTO job_keys (digest, job_id) VALUES ($1, gen_random_uuid())", digestOf("default", "a"))
	f.waitsFirst(r, "INSERT INTO effect_keys (digest, job_id) VALUES ($1, gen_random_uuid())", []any{n.EffectKey[:]}, func() {
		if out, err := f.stores[0].Create(context.Background(), []store.NewJob{n}); err != nil || !out[0].Created {
			t.Error(err, out)
		}
	})
}

// The database's first attempt is sent under the namespace that stays.
func TestTheFirstArmKeepsTheNamespace(t *testing.T) {
	f := newFleet(t, 2)
	f.submit(1, f.connect())
	claimed := f.claim(1)[0]
	intent := intentOf(claimed, func(a *store.Arm) { a.Gate = []byte("content") })
	r := f.rival()
	r.must("SELECT FROM job_state WHERE job_id = $1 FOR UPDATE", claimed.Job.ID)
	var wg sync.WaitGroup
	wg.Go(func() {
		if a, err := armOne(f.stores[0], intent); err != nil || a.Err != nil {
			t.Error(err, a.Err)
		}
	})
	f.awaitWaiters(1)
	wg.Go(func() {
		if err := f.stores[1].SetNamespace(context.Background(), "another", false); !errors.Is(err, store.ErrNamespaceFixed) {
			t.Errorf("the namespace is set: %v", err)
		}
	})
	f.awaitWaiters(2)
	r.must("ROLLBACK")
	wg.Wait()
}

// A gate that the job has already is locked only after the new ones of the batch: an arm that
// waits for a new gate lets no other transaction wait for an old one.
func TestNewGatesComeFirst(t *testing.T) {
	f := newFleet(t, 1)
	jobs := f.submit(3, f.connect())
	take := "INSERT INTO open_intents (account, fingerprint, job_id, attempt) VALUES ('me', $1, $2, 1) ON CONFLICT DO NOTHING"
	r := f.rival()
	r.must(take, []byte("old"), jobs[0].ID)
	r.must("COMMIT")
	r.must("BEGIN")
	r.must("SET LOCAL lock_timeout = '500ms'")
	r.must(take, []byte("new"), jobs[1].ID)
	f.waitsFirst(r, take, []any{[]byte("old"), jobs[2].ID}, func() {
		got, err := pgdb.New(f.stores[0].pool).TakeGates(context.Background(), pgdb.TakeGatesParams{
			Accounts: []string{"me", "me"}, Fingerprints: [][]byte{[]byte("old"), []byte("new")},
			Jobs: []job.ID{jobs[0].ID, jobs[2].ID}, Attempts: []int64{2, 1},
		})
		if err != nil || len(got) != 2 {
			t.Errorf("gates of %d jobs, %v", len(got), err)
		}
	})
}

// Credentials are resealed in the order of their connections.
func TestResealsLockInOrder(t *testing.T) {
	f := newFleet(t, 1)
	for range 2 {
		_, _, err := f.stores[0].CreateConnection(t.Context(), store.NewConnection{
			Connection: store.Connection{ID: randomID(), Project: "default", Connector: "fake", Class: job.Keyed},
			Sealed:     &store.Sealed{KeyID: "old", Data: []byte("sealed")},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	old, err := f.stores[0].CredentialsOfOthers(t.Context(), "new", store.SealedPlace{}, 2)
	if err != nil || len(old) != 2 {
		t.Fatal(old, err)
	}
	items := []store.Reseal{
		{Old: old[0], KeyID: "new", Data: []byte("sealed anew")}, {Old: old[1], KeyID: "new", Data: []byte("sealed anew")},
	}
	slices.SortFunc(items, func(x, y store.Reseal) int { return bytes.Compare(y.Old.Connection[:], x.Old.Connection[:]) })
	lock := "SELECT FROM connection_credentials WHERE connection_id = $1 FOR UPDATE"
	r := f.rival()
	r.must(lock, items[1].Old.Connection)
	f.waitsFirst(r, lock, []any{items[0].Old.Connection}, func() {
		if done, err := f.stores[0].Reseal(context.Background(), items); err != nil || !done[0] || !done[1] {
			t.Error(done, err)
		}
	})
}

// A transaction that the server ends to resolve a deadlock runs again, and its caller gets no
// error.
func TestDeadlockRunsAgain(t *testing.T) {
	f := newFleet(t, 1)
	jobs := f.submit(3, f.connect())
	slices.SortFunc(jobs, func(x, y job.Snapshot) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	var items []store.Change
	for _, s := range jobs {
		d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), job.CancelAsked{})
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, store.Change{Job: s.ID, Version: s.Version, Decision: d})
	}
	lock := "SELECT FROM job_state WHERE job_id = $1 FOR UPDATE"
	config, err := pgx.ParseConfig(f.url)
	if err != nil {
		t.Fatal(err)
	}
	other, cyclic := f.rival(), f.rivalAt(pgtest.Shared(t).AdminURL(config.Database))
	other.must(lock, jobs[1].ID)
	cyclic.must(lock, jobs[2].ID)
	// It never looks for deadlocks itself, and so is never the one that the server ends.
	cyclic.must("SET LOCAL deadlock_timeout = '1h'")
	cyclic.must("SET LOCAL lock_timeout = 0")
	var wg sync.WaitGroup
	wg.Go(func() {
		out, err := f.stores[0].Apply(context.Background(), items)
		if err != nil {
			t.Error(err)
		}
		for _, a := range out {
			if a.Err != nil {
				t.Error(a.Err)
			}
		}
	})
	f.awaitWaiters(1) // it has the first job, and waits for the second one
	wg.Go(func() {
		cyclic.must(lock, jobs[0].ID)
		cyclic.must("ROLLBACK")
	})
	f.awaitWaiters(2)
	other.must("ROLLBACK") // it goes on to the third one, and closes the cycle
	wg.Wait()
	f.consistent()
}

// Changes wait for a job with no job locked that comes behind it.
func TestSuccessesLockInOrder(t *testing.T) {
	f := newFleet(t, 1)
	f.submit(2, f.connect())
	jobs := f.armed(2)
	slices.SortFunc(jobs, func(x, y job.Snapshot) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	items := []store.Change{successOf(t, jobs[0]), successOf(t, jobs[1])}
	items[0].Reason = "to be judged"
	lock := "SELECT FROM job_state WHERE job_id = $1 FOR NO KEY UPDATE"
	r := f.rival()
	r.must(lock, jobs[0].ID)
	f.waitsFirst(r, lock, []any{jobs[1].ID}, func() {
		if out, err := f.stores[0].Apply(context.Background(), items); err != nil || out[0].Err != nil || out[1].Err != nil {
			t.Error(err, out)
		}
	})
	f.consistent()
}
