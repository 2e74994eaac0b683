package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
)

func TestLock(t *testing.T) {
	path := diskPath(t)
	s := mustOpen(t, Options{Path: path})
	_, err := Open(t.Context(), Options{Path: path})
	wantErr(t, err, ErrLocked)
	if !strings.Contains(err.Error(), path+".lock") {
		t.Errorf("the error does not name the file: %v", err)
	}
	wantErr(t, Migrate(t.Context(), path), ErrLocked)
	must(t, s.Close())
	must(t, s.Close())
	must(t, mustOpen(t, Options{Path: path}).Close())
}

// TestFilesOfTheOwner: other users of the machine cannot read the files.
func TestFilesOfTheOwner(t *testing.T) {
	for name, first := range map[string]func(path string){
		"opened":   func(string) {},
		"migrated": func(path string) { must(t, Migrate(t.Context(), path)) },
	} {
		path := diskPath(t)
		first(path)
		s := mustOpen(t, Options{Path: path, Migrate: true})
		mustCreate(t, s, newJob(mustConnect(t, s)))
		for _, file := range []string{path, path + "-wal", path + ".lock"} {
			info, err := os.Stat(file)
			must(t, err)
			if info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %s has mode %s", name, file, info.Mode())
			}
		}
	}
}

func TestMigrate(t *testing.T) {
	path := diskPath(t)
	_, err := Open(t.Context(), Options{Path: path})
	wantErr(t, err, ErrSchema)
	must(t, Migrate(t.Context(), path))
	must(t, Migrate(t.Context(), path))
	s, err := Open(t.Context(), Options{Path: path})
	must(t, err)
	jobs := mustCreate(t, s, newJob(mustConnect(t, s)))
	must(t, s.Close())
	must(t, Migrate(t.Context(), path))
	s = mustOpen(t, Options{Path: path})
	_, err = s.Job(t.Context(), store.Ref{ID: jobs[0].ID})
	must(t, err)
}

// TestForeignDatabaseIsRefused: a file of another program that was named by mistake is not
// changed.
func TestForeignDatabaseIsRefused(t *testing.T) {
	path := diskPath(t)
	tables := func() (names string) {
		db := raw(t, path)
		must(t, db.QueryRow("SELECT group_concat(name) FROM sqlite_master").Scan(&names))
		must(t, db.Close())
		return names
	}
	db := raw(t, path)
	_, err := db.Exec("CREATE TABLE orders (id)")
	must(t, err)
	must(t, db.Close())
	for _, migrate := range []bool{false, true} {
		_, err := Open(t.Context(), Options{Path: path, Migrate: migrate})
		wantErr(t, err, ErrForeign)
	}
	wantErr(t, Migrate(t.Context(), path), ErrForeign)
	if got := tables(); got != "orders" {
		t.Errorf("the file has %s", got)
	}
}

// TestSchemaNames compares the numbers in the schema's comments with job's.
func TestSchemaNames(t *testing.T) {
	schema, err := migrations.ReadFile("migrations/00001_schema.sql")
	must(t, err)
	storetest.Schema(t, string(schema))
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := diskPath(t)
	must(t, Migrate(t.Context(), path))
	newer := "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)"
	db := raw(t, path)
	if _, err := db.Exec(newer); err != nil {
		t.Fatal(err)
	}
	must(t, db.Close())
	for _, migrate := range []bool{false, true} {
		_, err := Open(t.Context(), Options{Path: path, Migrate: migrate})
		wantErr(t, err, ErrSchema)
	}
	wantErr(t, Migrate(t.Context(), path), ErrSchema)
}

func TestSettings(t *testing.T) {
	s := mustOpen(t, Options{Path: diskPath(t)})
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "fullfsync": "1", "checkpoint_fullfsync": "1", "foreign_keys": "1"} {
		var got string
		must(t, s.writer.conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got))
		if got != want {
			t.Errorf("%s is %s", pragma, got)
		}
	}
	r := <-s.readers
	if _, err := r.ses.conn.ExecContext(t.Context(), "DELETE FROM meta"); err == nil {
		t.Error("a reader wrote")
	}
	s.readers <- r
}

func TestOddPaths(t *testing.T) {
	for _, name := range []string{"a b", "a%20b", "a?b", "a#b", "ä"} {
		path := t.TempDir() + "/" + name
		must(t, mustOpen(t, Options{Path: path}).Close())
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

const (
	childEnv = "FIREONCE_SQLITE_TEST_CHILD"
	childJob = "0190d8a0-0000-7000-8000-00000000000"
)

func childID(n int) job.ID {
	id, err := job.ParseID(fmt.Sprintf("%s%d", childJob, n))
	if err != nil {
		panic(err)
	}
	return id
}

// TestChild is the process that TestKill kills: it leaves a job in each of four
// states behind and waits for its end.
func TestChild(t *testing.T) {
	path := os.Getenv(childEnv)
	if path == "" {
		t.Skip("only run by TestKill")
	}
	s, err := Open(t.Context(), Options{Path: path, Migrate: true})
	must(t, err)
	conn := mustConnect(t, s)
	items := make([]store.NewJob, 4)
	for i := range items {
		items[i] = newJob(conn)
		items[i].Spec.ID = childID(i)
	}
	mustCreate(t, s, items[:3]...)
	for _, l := range mustClaim(t, s, 3) {
		if l.ID == childID(0) {
			continue
		}
		a := mustArm(t, s, l)[0]
		if l.ID == childID(2) {
			d, err := job.Decide(a.Snapshot.View(job.Traits{}, 0), job.Outcome{Attempt: 1, Result: job.ResultUnknown})
			must(t, err)
			d.Delay = 0
			_, err = s.Apply(t.Context(), []store.Change{{Job: l.ID, Version: a.Snapshot.Version, Decision: d}})
			must(t, err)
			looks, err := s.ClaimLooks(t.Context(), store.ClaimParams{Lease: time.Hour, Limit: 1})
			must(t, err)
			if len(looks) != 1 {
				t.Fatal("no look to lease")
			}
		}
	}
	mustCreate(t, s, items[3])
	fmt.Println("READY")
	select {}
}

// holder runs a process that has a database open, see TestChild, and waits until it has.
func holder(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	ready := false
	for lines := bufio.NewScanner(out); !ready && lines.Scan(); {
		ready = lines.Text() == "READY"
	}
	if !ready {
		t.Fatalf("the child did not get ready: %v", cmd.Wait())
	}
	return cmd
}

// TestKill: answered writes survive the process, its leases do not, and a send that may be
// under way keeps its fence.
func TestKill(t *testing.T) {
	path := diskPath(t)
	cmd := holder(t, path)
	_, err := Open(t.Context(), Options{Path: path})
	wantErr(t, err, ErrLocked)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()

	s := mustOpen(t, Options{Path: path})
	m, err := s.Meta(t.Context())
	must(t, err)
	if m.Quarantined != "" {
		t.Errorf("quarantined: %s", m.Quarantined)
	}
	want := []job.State{job.Claimed, job.Sending, job.Ambiguous, job.Scheduled}
	for i, state := range want {
		got, err := s.Job(t.Context(), store.Ref{ID: childID(i)})
		must(t, err)
		if got.State != state {
			t.Errorf("job %d is %v, want %v", i, got.State, state)
		}
		due := !got.NextAt.After(got.Now)
		if due != (state != job.Sending) {
			t.Errorf("job %d, %v: due %v", i, state, due)
		}
		if state == job.Ambiguous && !got.ClaimToken.IsZero() {
			t.Error("the dead process still has a look")
		}
	}
	over, err := s.Overdue(t.Context(), 10)
	must(t, err)
	if len(over) != 1 || over[0].ID != childID(0) {
		t.Errorf("overdue: %v", over)
	}
	looks, err := s.ClaimLooks(t.Context(), store.ClaimParams{Lease: time.Minute, Limit: 10})
	must(t, err)
	if len(looks) != 1 {
		t.Errorf("%d looks, want 1", len(looks))
	}
}

// openUnder opens with a machine's name and returns the quarantine's reason.
func openUnder(t *testing.T, path, host string) (*Store, string) {
	t.Helper()
	s := mustOpen(t, Options{Path: path, Host: host})
	m, err := s.Meta(context.Background())
	must(t, err)
	return s, m.Quarantined
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, text, 0o600))
}

func TestCopyAndRestoreAreNoticed(t *testing.T) {
	path := diskPath(t)
	s, reason := openUnder(t, path, "a")
	if reason != "" {
		t.Fatalf("a new database: %s", reason)
	}
	conn := mustConnect(t, s)
	must(t, s.Close())
	s, reason = openUnder(t, path, "a")
	if reason != "" {
		t.Fatalf("the same database: %s", reason)
	}
	must(t, s.Close())

	older := path + ".older"
	copyFile(t, path, older)
	s, reason = openUnder(t, older, "a")
	if !strings.Contains(reason, "another file") {
		t.Errorf("a copied file: %q", reason)
	}
	must(t, s.Close())
	s, reason = openUnder(t, older, "a")
	if reason == "" {
		t.Error("the second open of a copied file forgot its quarantine")
	}
	must(t, s.Release(t.Context()))
	must(t, s.Close())
	s, reason = openUnder(t, older, "a")
	if reason != "" {
		t.Errorf("after the release: %q", reason)
	}
	must(t, s.Close())

	s, reason = openUnder(t, path, "b")
	if !strings.Contains(reason, "another machine") {
		t.Errorf("another machine: %q", reason)
	}
	must(t, s.Release(t.Context()))
	must(t, s.Close())

	// A restore over the file itself, of a state without the newest events.
	copyFile(t, path, older)
	s, _ = openUnder(t, path, "b")
	mustCreate(t, s, newJob(conn))
	must(t, s.Close())
	copyFile(t, older, path)
	s, reason = openUnder(t, path, "b")
	if !strings.Contains(reason, "newer state") {
		t.Errorf("an older state in place: %q", reason)
	}
	_, err := s.Claim(t.Context(), store.ClaimParams{Lease: time.Minute, Limit: 1})
	wantErr(t, err, store.ErrQuarantined)
}

// TestALostDatabaseIsNoticed: a database that is gone beside its lock file is not replaced by a
// new one, unless the caller names the namespace or has removed the lock file.
func TestALostDatabaseIsNoticed(t *testing.T) {
	for _, lose := range []func(string) error{os.Remove, func(path string) error { return os.Truncate(path, 0) }} {
		path := diskPath(t)
		must(t, mustOpen(t, Options{Path: path}).Close())
		for _, end := range []string{"-wal", "-shm"} {
			_ = os.Remove(path + end)
		}
		must(t, lose(path))
		before, err := os.ReadFile(path + ".lock")
		must(t, err)
		for range 2 { // also after the first refusal
			_, err := Open(t.Context(), Options{Path: path, Migrate: true})
			wantErr(t, err, ErrLost)
			wantErr(t, Migrate(t.Context(), path), ErrLost)
		}
		if after, err := os.ReadFile(path + ".lock"); err != nil || string(after) != string(before) {
			t.Errorf("the refusal changed the lock file: %q, %v", after, err)
		}
		s := mustOpen(t, Options{Path: path, Namespace: "the-lost-one"})
		meta, err := s.Meta(t.Context())
		must(t, err)
		if meta.Namespace != "the-lost-one" || meta.Quarantined != "" {
			t.Errorf("a new database with the old namespace: %+v", meta)
		}
		must(t, s.Close())
		must(t, lose(path))
		must(t, os.Remove(path+".lock"))
		must(t, mustOpen(t, Options{Path: path}).Close())
	}
}

// TestIncarnation: it rises with every restore or copy that an open detects, even while the
// database is quarantined, and never otherwise.
func TestIncarnation(t *testing.T) {
	path := diskPath(t)
	want := func(path, host string, incarnation int64) {
		t.Helper()
		s, _ := openUnder(t, path, host)
		m, err := s.Meta(t.Context())
		must(t, err)
		if m.Incarnation != incarnation || !strings.HasSuffix(m.Identity, host) {
			t.Errorf("incarnation %d, want %d; identity %q", m.Incarnation, incarnation, m.Identity)
		}
		must(t, s.Close())
	}
	want(path, "a", 1)
	want(path, "a", 1)
	want(path, "b", 2)
	want(path, "b", 2) // still quarantined
	copied := path + ".copy"
	copyFile(t, path, copied)
	want(copied, "b", 3) // a copy of a quarantined database
	s, _ := openUnder(t, copied, "b")
	conn := mustConnect(t, s)
	mustCreate(t, s, newJob(conn))
	must(t, s.Release(t.Context()))
	must(t, s.Close())
	want(copied, "b", 3)
	older := path + ".older"
	copyFile(t, copied, older)
	s, _ = openUnder(t, copied, "b")
	mustCreate(t, s, newJob(conn))
	position, err := s.List(t.Context(), store.JobQuery{Project: testProject})
	must(t, err)
	must(t, s.Close())
	copyFile(t, older, copied)
	s, reason := openUnder(t, copied, "b")
	if reason == "" {
		t.Error("an older state was not noticed")
	}
	// A position of the lost state is invalid, even if it exists again.
	mustCreate(t, s, newJob(conn), newJob(conn))
	q := store.EventQuery{Project: testProject, After: position.Position, Incarnation: position.Incarnation}
	_, err = s.Events(t.Context(), q)
	wantErr(t, err, store.ErrCursorExpired)
	must(t, s.Close())
	want(copied, "b", 4)
}

func TestQuarantineNeedsAReason(t *testing.T) {
	s := mustOpen(t, Options{Path: diskPath(t)})
	wantErr(t, s.Quarantine(t.Context(), ""), store.ErrIllegal)
}

func TestCursorExpires(t *testing.T) {
	path := diskPath(t)
	s := mustOpen(t, Options{Path: path})
	conn := mustConnect(t, s)
	mustCreate(t, s, newJob(conn), newJob(conn), newJob(conn))
	must(t, s.Close())
	db := raw(t, path)
	for _, text := range []string{"DELETE FROM event_pages WHERE position <= 2", "UPDATE meta SET events_from = 2"} {
		_, err := db.Exec(text)
		must(t, err)
	}
	must(t, db.Close())
	s = mustOpen(t, Options{Path: path})
	for _, after := range []int64{0, 1} {
		_, err := s.Events(t.Context(), store.EventQuery{Project: testProject, After: after})
		wantErr(t, err, store.ErrCursorExpired)
	}
	p, err := s.Events(t.Context(), store.EventQuery{Project: testProject, After: 2})
	must(t, err)
	if len(p.Events) != 1 || p.Events[0].Position != 3 {
		t.Errorf("events: %v", p.Events)
	}
}
