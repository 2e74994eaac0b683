//go:build unix

package sqlite

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/store"
)

// replacements are what people do to the files of a running server. older holds a
// copy of the database and its lock file that was made before the server's start.
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

// replaceable opens a database a second time, with a job that the copy lacks.
func replaceable(t *testing.T) (s *Store, conn store.Connection, path, older string) {
	t.Helper()
	path = testPath(t)
	older = path + ".older"
	s = mustOpen(t, Options{Path: path})
	conn = mustConnect(t, s)
	must(t, s.Close())
	copyFile(t, path, older)
	copyFile(t, path+".lock", older+".lock")
	s = mustOpen(t, Options{Path: path})
	mustCreate(t, s, newJob(conn))
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

// TestReplacedUnderAProcess: an idle server notices by itself.
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
			replace(t, s, path, older)
			out, err := s.Arm(t.Context(), []store.Arm{armOf(leases[0])})
			if err == nil && out[0].Err == nil {
				t.Error("armed in a database that was replaced")
			}
			got, err := s.Claim(t.Context(), store.ClaimParams{Worker: "w", Lease: time.Minute, Limit: 1})
			wantErr(t, err, ErrReplaced)
			if len(got) > 0 {
				t.Errorf("claimed %d jobs", len(got))
			}
		})
	}
}

// TestLossIsNoted: the process that noticed leaves word for the next one, though the
// lock file was overwritten too.
func TestLossIsNoted(t *testing.T) {
	s, _, path, older := replaceable(t)
	s.look()
	before, err := os.ReadFile(path + ".lock")
	must(t, err)
	copyFile(t, older, path)
	copyFile(t, older+".lock", path+".lock")
	wantErr(t, lossOf(t, s), ErrReplaced)
	copyFile(t, older+".lock", path+".lock") // whoever copies is not at its end yet
	must(t, s.Close())
	after, err := os.ReadFile(path + ".lock")
	must(t, err)
	if mark := parseLockMark(string(after)); mark != parseLockMark(string(before)) || mark.generation != 2 {
		t.Errorf("the lock file says %q, before %q", after, before)
	}
}

// TestMarkFollowsTheLog: a process that is killed has left the newest position, up to a
// second, in the lock file; a copy from before is noticed.
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

// TestNotedElsewhere: all files are put back as they were, the lock file too, while no
// process has them. Only what was noted in another folder tells.
func TestNotedElsewhere(t *testing.T) {
	path, dir := testPath(t), t.TempDir()
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
