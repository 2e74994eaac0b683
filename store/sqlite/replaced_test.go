//go:build unix

package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/witness"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// replacements are what operators do to the files of a running server. older has a copy of
// the database and its lock file that was made before the server's start.
var replacements = map[string]func(t *testing.T, s *Store, path, older string){
	"another file is renamed over it": func(t *testing.T, _ *Store, path, older string) {
		must(t, os.Rename(older, path))
	},
	"it is renamed": func(t *testing.T, _ *Store, path, _ string) { must(t, os.Rename(path, path+".away")) },
	"it is removed": func(t *testing.T, _ *Store, path, _ string) { must(t, os.Remove(path)) },
	"it is moved away and a copy put in its place": func(t *testing.T, _ *Store, path, _ string) {
		must(t, os.Rename(path, path+".away"))
		copyFile(t, path+".away", path)
	},
	"it is overwritten in place": func(t *testing.T, _ *Store, path, older string) { copyFile(t, older, path) },
	"it is emptied":              func(t *testing.T, _ *Store, path, _ string) { must(t, os.Truncate(path, 0)) },
	"all files are overwritten in place": func(t *testing.T, _ *Store, path, older string) {
		copyFile(t, older, path)
		copyFile(t, older+".lock", path+".lock")
	},
	"the lock file is overwritten": func(t *testing.T, _ *Store, path, older string) {
		copyFile(t, older+".lock", path+".lock")
	},
	"another log is put in its place": func(t *testing.T, _ *Store, path, _ string) {
		copyFile(t, path+"-wal", path+"-wal.copy")
		must(t, os.Rename(path+"-wal.copy", path+"-wal"))
	},
	"the log is removed": func(t *testing.T, _ *Store, path, _ string) { must(t, os.Remove(path+"-wal")) },
	"another state is restored by SQLite": func(t *testing.T, s *Store, _, _ string) {
		_, err := s.db.ExecContext(t.Context(), "UPDATE meta SET generation = generation - 1")
		must(t, err)
	},
}

// replaceable opens a database a second time, with a job that the copy lacks. The lock file has
// its newest event: a note would put right a lock file that was overwritten a moment before.
func replaceable(t *testing.T) (s *Store, conn store.Connection, path, older string) {
	t.Helper()
	path = diskPath(t)
	older = path + ".older"
	s = mustOpen(t, Options{Path: path})
	conn = mustConnect(t, s)
	must(t, s.Close())
	copyFile(t, path, older)
	copyFile(t, path+".lock", older+".lock")
	s = mustOpen(t, Options{Path: path})
	mustCreate(t, s, newJob(conn))
	s.look()
	return s, conn, path, older
}

// lossOf waits until a store knows that its database is lost.
func lossOf(t *testing.T, s *Store) error {
	t.Helper()
	select {
	case err := <-s.Lost():
		return err
	case <-time.After(time.Minute):
		t.Fatal("it was never noticed")
		return nil
	}
}

// TestReplacedUnderAProcess: an idle server detects it by itself.
func TestReplacedUnderAProcess(t *testing.T) {
	for name, replace := range replacements {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, conn, path, older := replaceable(t)
			replace(t, s, path, older)
			wantErr(t, lossOf(t, s), ErrReplaced)
			_, err := s.Create(t.Context(), []store.NewJob{newJob(conn)})
			wantErr(t, err, store.ErrUnavailable)
			wantErr(t, err, ErrReplaced)
			_, err = s.Claim(t.Context(), store.ClaimParams{Lease: time.Minute, Limit: 1})
			wantErr(t, err, ErrReplaced)
			_, err = s.Meta(t.Context())
			wantErr(t, err, ErrReplaced)
			must(t, s.Close())
		})
	}
}

// TestReplacedBeforeACommit: nothing is claimed from a database that was replaced a
// moment ago, and nothing is armed.
func TestReplacedBeforeACommit(t *testing.T) {
	for name, replace := range replacements {
		if strings.Contains(name, "by SQLite") {
			continue // the files are what they were: the next look notices
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, conn, path, older := replaceable(t)
			leases := mustClaim(t, s, 1)
			mustCreate(t, s, newJob(conn))
			s.look()
			replace(t, s, path, older)
			out, err := s.Arm(t.Context(), []store.Arm{armOf(leases[0])})
			if err == nil {
				err = out[0].Err
			}
			wantErr(t, err, ErrReplaced)
			got, err := s.Claim(t.Context(), store.ClaimParams{Worker: "w", Lease: time.Minute, Limit: 1})
			wantErr(t, err, ErrReplaced)
			if len(got) > 0 {
				t.Errorf("claimed %d jobs", len(got))
			}
		})
	}
}

// TestLossIsNoted: the process that detected the loss records it for the next one, even if
// the lock file was overwritten too.
func TestLossIsNoted(t *testing.T) {
	s, _, path, older := replaceable(t)
	s.look()
	before, err := os.ReadFile(path + ".lock")
	must(t, err)
	copyFile(t, older, path)
	copyFile(t, older+".lock", path+".lock")
	wantErr(t, lossOf(t, s), ErrReplaced)
	copyFile(t, older+".lock", path+".lock") // the copying goes on
	must(t, s.Close())
	after, err := os.ReadFile(path + ".lock")
	must(t, err)
	if mark := parseLockMark(string(after)); mark != parseLockMark(string(before)) || mark.generation != 2 {
		t.Errorf("the lock file says %q, before %q", after, before)
	}
}

// TestMarkFollowsTheLog: a killed process has left the newest position, up to a second, in
// the lock file; an earlier copy is detected.
func TestMarkFollowsTheLog(t *testing.T) {
	s, conn, _, _ := replaceable(t)
	mustCreate(t, s, newJob(conn), newJob(conn))
	s.look()
	m, err := s.Meta(t.Context())
	must(t, err)
	p, err := s.List(t.Context(), store.JobQuery{Project: testProject})
	must(t, err)
	mark, err := s.lock.mark()
	must(t, err)
	if mark.position != p.Position || mark.store != m.StoreID {
		t.Errorf("mark %+v, newest position %d", mark, p.Position)
	}
}

// TestRestoredStateCommitsNothing: operations that share a transaction with the look that
// finds another state in the file are not committed into it.
func TestRestoredStateCommitsNothing(t *testing.T) {
	path := diskPath(t)
	s := mustOpen(t, Options{Path: path})
	conn := mustConnect(t, s)
	_, err := s.db.ExecContext(t.Context(), "UPDATE meta SET generation = generation - 1")
	must(t, err)

	running, release := make(chan struct{}), make(chan struct{})
	queue := func(run func(context.Context, *tx) error) *op {
		o := sqlstore.NewCall(operation{run: run})
		must(t, s.writer.queue.Add(t.Context(), o))
		return o
	}
	begun := sync.OnceFunc(func() { close(running) }) // a spoiled group runs twice
	queue(func(context.Context, *tx) error { begun(); <-release; return nil })
	<-running
	queue(func(ctx context.Context, tx *tx) error { _, err := s.compare(ctx, tx); return err })
	paused := queue(func(ctx context.Context, tx *tx) error {
		_, err := tx.w.ses.ExecContext(ctx, "UPDATE connections SET paused_reason = 'by a lost server'")
		return err
	})
	close(release)
	wantErr(t, <-paused.Done, ErrReplaced)
	var reason string
	must(t, s.db.QueryRowContext(t.Context(), "SELECT paused_reason FROM connections").Scan(&reason))
	if reason != "" {
		t.Errorf("committed into another state of connection %s: %q", conn.ID, reason)
	}
}

// newNotes lets the next note be made immediately, and waits for it.
func newNotes(t *testing.T, s *Store) {
	t.Helper()
	_, err := write(t.Context(), s, "test", func(_ context.Context, t *tx) (struct{}, error) {
		t.w.s.memory.next = time.Time{}
		return struct{}{}, nil
	})
	must(t, err)
}

// TestLastEventsAreNoted: a note that was too soon for the newest event is made later, even
// if nothing new happens.
func TestLastEventsAreNoted(t *testing.T) {
	s := mustOpen(t, Options{Path: diskPath(t), StateDir: t.TempDir()})
	conn := mustConnect(t, s)
	mustCreate(t, s, newJob(conn))
	s.look() // makes a note, so that the next one is too soon
	mustCreate(t, s, newJob(conn))
	s.look()
	newNotes(t, s) // time passes
	mark, err := s.lock.mark()
	must(t, err)
	seen, err := witness.Load(s.memory.path)
	must(t, err)
	if seen.Position != mark.position || seen.Era != mark.generation {
		t.Errorf("noted %+v; the newest is %+v", seen, mark)
	}
}

// reported returns what was reported, which must be there.
func reported(t *testing.T, reports <-chan error) error {
	t.Helper()
	select {
	case err := <-reports:
		return err
	default:
		t.Fatal("nothing was reported")
		return nil
	}
}

// TestNotesThatFailAreReported: once, and once more when they work again.
func TestNotesThatFailAreReported(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "notes")
	must(t, os.Mkdir(dir, 0o700))
	reports := make(chan error, 8)
	s := mustOpen(t, Options{Path: diskPath(t), StateDir: dir, NoteFailed: func(err error) { reports <- err }})
	conn := mustConnect(t, s)
	must(t, os.Rename(dir, dir+".away"))
	for range 2 {
		mustCreate(t, s, newJob(conn))
		s.look()
		newNotes(t, s)
	}
	wantErr(t, reported(t, reports), os.ErrNotExist)
	must(t, os.Rename(dir+".away", dir))
	newNotes(t, s)
	if err := reported(t, reports); err != nil {
		t.Errorf("reported %v", err)
	}
	must(t, s.Close())
	if len(reports) > 0 {
		t.Errorf("reported too much: %v", <-reports)
	}
}

// TestNotedElsewhere: all files are restored as they were, including the lock file, while no
// process has them. Only the note in another folder shows it.
func TestNotedElsewhere(t *testing.T) {
	path, dir := diskPath(t), t.TempDir()
	open := func(dir string) (*Store, string) {
		s := mustOpen(t, Options{Path: path, StateDir: dir})
		m, err := s.Meta(t.Context())
		must(t, err)
		return s, m.Quarantined
	}
	s, _ := open(dir)
	conn := mustConnect(t, s)
	must(t, s.Close())
	older := path + ".older"
	copyFile(t, path, older)
	copyFile(t, path+".lock", older+".lock")
	s, reason := open(dir)
	if reason != "" {
		t.Errorf("the same database: %s", reason)
	}
	mustCreate(t, s, newJob(conn))
	must(t, s.Close())
	back := func() {
		copyFile(t, older, path)
		copyFile(t, older+".lock", path+".lock")
	}
	back()
	s, reason = open("")
	if reason != "" {
		t.Errorf("without a note it shows: %s", reason)
	}
	must(t, s.Close())
	back()
	s, reason = open(dir)
	if !strings.Contains(reason, "newer state") {
		t.Errorf("reason %q", reason)
	}
	must(t, s.Release(t.Context()))
	must(t, s.Close())
	s, reason = open(dir)
	if reason != "" {
		t.Errorf("after the release: %s", reason)
	}
	must(t, s.Close())
	_, err := Open(t.Context(), Options{Path: path, StateDir: dir + "/gone"})
	wantErr(t, err, os.ErrNotExist)
}
