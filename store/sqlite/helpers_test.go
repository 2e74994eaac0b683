package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/store"
)

const testProject = "default"

var testStart = time.Date(2030, 1, 2, 3, 4, 5, 678_901_000, time.UTC)

func frozen() time.Time { return testStart }

// diskPath is on the disk: tests of files and their names are about the usual file systems.
func diskPath(t testing.TB) string { return filepath.Join(t.TempDir(), "fireonce.db") }

func testPath(t testing.TB) string { return filepath.Join(memdir.New(t), "fireonce.db") }

func mustOpen(t testing.TB, opts Options) *Store {
	t.Helper()
	opts.Migrate = true
	s, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error: got %v, want %v", err, want)
	}
}

func mustConnect(t testing.TB, s *Store, edit ...func(*store.Connection)) store.Connection {
	t.Helper()
	c := store.Connection{ID: randomID(), Project: testProject, Connector: "fake", Class: job.Keyed}
	for _, e := range edit {
		e(&c)
	}
	conn, _, err := s.CreateConnection(t.Context(), store.NewConnection{Connection: c})
	must(t, err)
	return conn
}

func newJob(conn store.Connection) store.NewJob {
	id := randomID()
	return store.NewJob{Spec: job.Spec{
		ID: id, Project: testProject, Key: id.String(), Connection: conn.ID, HoldKey: "account",
		PayloadKind: "webhook", Payload: []byte(`{"text":"hello"}`),
	}}
}

func mustCreate(t testing.TB, s *Store, items ...store.NewJob) []job.Snapshot {
	t.Helper()
	out, err := s.Create(t.Context(), items)
	must(t, err)
	jobs := make([]job.Snapshot, len(out))
	for i, c := range out {
		must(t, c.Err)
		jobs[i] = c.Snapshot
	}
	return jobs
}

func mustClaim(t testing.TB, s *Store, n int) []store.Leased {
	t.Helper()
	out, err := s.Claim(t.Context(), store.ClaimParams{Worker: "w", Lease: time.Minute, Limit: n})
	must(t, err)
	return out
}

func armOf(l store.Leased) store.Arm {
	return store.Arm{
		Job: l.ID, Version: l.Version, Claim: l.ClaimToken, Token: randomID(), Worker: "w", Class: l.Class,
		EffectKey: l.EffectKey(""), Digest: []byte("digest"),
		SendBy: 10 * time.Second, AnswerBy: 30 * time.Second, Fence: time.Minute,
	}
}

func mustArm(t testing.TB, s *Store, leases ...store.Leased) []store.Armed {
	t.Helper()
	items := make([]store.Arm, len(leases))
	for i, l := range leases {
		items[i] = armOf(l)
	}
	out, err := s.Arm(t.Context(), items)
	must(t, err)
	for _, a := range out {
		must(t, a.Err)
	}
	return out
}

func success(t testing.TB, s job.Snapshot) store.Change {
	t.Helper()
	d, err := job.Decide(s.View(job.Traits{Class: s.Class}, 0), job.Outcome{Attempt: s.Attempt, Result: job.ResultSucceeded})
	must(t, err)
	return store.Change{Job: s.ID, Version: s.Version, Decision: d}
}

// raw opens a file that no store has open, for statements of the test's own.
func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path))
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	return db
}

func sqlExec(t testing.TB, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.Background(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
