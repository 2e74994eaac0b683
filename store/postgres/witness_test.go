//go:build unix

package postgres

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/internal/witness"
	"github.com/fireonce/fireonce/store"
)

// noting opens a store that notes what it has seen in a folder.
func (f *fleet) noting(dir string) *Store {
	f.Helper()
	s := f.join(f.url, func(o *Options) { o.StateDir = dir })
	f.stores = []*Store{s}
	return s
}

// TestBaseBackupIsNoticed: the cluster is replaced by a base backup while no server runs,
// without an archive: the same system, the same timeline. Each start after each such restore
// is quarantined, and no other start.
func TestBaseBackupIsNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("left out of the ordinary tests")
	}
	for how, look := range map[string]func(t *testing.T, c *pgtest.Cluster, name string) (dir string){
		"by a note beside it": func(t *testing.T, _ *pgtest.Cluster, _ string) string { return t.TempDir() },
		"by its label": func(t *testing.T, c *pgtest.Cluster, name string) string {
			c.Exec(t, name, "GRANT EXECUTE ON FUNCTION pg_stat_file(text, boolean) TO "+pgtest.Role)
			return ""
		},
	} {
		t.Run(how, func(t *testing.T) {
			f, c, name := clusterFleet(t)
			dir := look(t, c, name)
			s := f.noting(dir)
			conn := f.connect()
			f.submit(1, conn)
			before := metaOf(t, s)
			restore := c.BaseBackup(t)
			f.submit(1, conn)
			end(t, s)
			for n := int64(1); n <= 2; n++ {
				c.Stop(t, pgtest.Fast)
				restore()
				c.Start(t)
				s = f.noting(dir)
				m := metaOf(t, s)
				if m.Quarantined == "" {
					t.Fatalf("restore %d was not noticed", n)
				}
				t.Log(m.Quarantined)
				if _, err := claimOf(s, 1); !errors.Is(err, store.ErrQuarantined) {
					t.Errorf("claim: %v", err)
				}
				// The positions come from before the backup, so a position of the lost state
				// may be used again: only another incarnation distinguishes them.
				if want := before.Incarnation + n; dir != "" && m.Incarnation != want {
					t.Errorf("restore %d: incarnation %d, want %d", n, m.Incarnation, want)
				}
				if err := s.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				f.submit(1, conn)
				end(t, s)
				// PostgreSQL crashes, and no server of ours sees it.
				c.Restart(t, pgtest.Immediate)
				s = f.noting(dir)
				if m := metaOf(t, s); m.Quarantined != "" {
					t.Errorf("a crash of PostgreSQL: %s", m.Quarantined)
				}
				end(t, s)
			}
		})
	}
}

func end(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNotesOfOthers: a server that was away while others detected a restore has an old note,
// and ignores it; a server that has seen more than the others detects the restore.
func TestNotesOfOthers(t *testing.T) {
	f := newFleetApart(t, 0)
	here, there := t.TempDir(), t.TempDir()
	away := f.noting(there)
	conn := f.connect()
	f.submit(1, conn)
	end(t, away) // notes an event that is gone later
	s := f.noting(here)
	f.submit(1, conn)
	f.sql("DELETE FROM event_pages RETURNING 1", nil, new(int))
	s.pool.Reset()
	if m := metaOf(t, s); m.Incarnation != 2 {
		t.Fatalf("meta: %+v", m)
	}
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := f.noting(there)
	if m := metaOf(t, back); m.Quarantined != "" || m.Incarnation != 2 {
		t.Errorf("an old note: %+v", m)
	}
	end(t, back)
	end(t, s)

	f.sql("UPDATE meta SET incarnation = 1 RETURNING 1", nil, new(int))
	if m := metaOf(t, f.noting(here)); m.Quarantined == "" || m.Incarnation != 3 {
		t.Errorf("a state from before the last restore: %+v", m)
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
	f := newFleetApart(t, 0)
	dir := filepath.Join(t.TempDir(), "notes")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	reports := make(chan error, 8)
	s := f.join(f.url, func(o *Options) { o.StateDir, o.NoteFailed = dir, func(err error) { reports <- err } })
	f.stores = []*Store{s}
	conn := f.connect()
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f.submit(1, conn)
		if err := s.note(t.Context()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("noted in a folder that is gone: %v", err)
		}
	}
	if err := reported(t, reports); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reported %v", err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if err := s.note(t.Context()); err != nil {
		t.Errorf("noted: %v", err)
	}
	if err := reported(t, reports); err != nil {
		t.Errorf("reported %v", err)
	}
	end(t, s)
	if len(reports) > 0 {
		t.Errorf("reported too much: %v", <-reports)
	}
}

// TestNoteOfRemovedEvents: what retention has removed is not missed.
func TestNoteOfRemovedEvents(t *testing.T) {
	f := newFleetApart(t, 0)
	dir := t.TempDir()
	s := f.noting(dir)
	f.submit(2, f.connect())
	end(t, s)
	f.sql("UPDATE meta SET events_from = (SELECT max(position) FROM event_pages) RETURNING 1", nil, new(int))
	f.sql("DELETE FROM event_pages RETURNING 1", nil, new(int))
	if m := metaOf(t, f.noting(dir)); m.Quarantined != "" {
		t.Errorf("quarantined: %s", m.Quarantined)
	}
}

// TestNotes: a note is made while a server runs and when it ends, never goes back, and a
// folder that cannot be written, or has another content, is an error of the start.
func TestNotes(t *testing.T) {
	f := newFleetApart(t, 0)
	dir := t.TempDir()
	s := f.noting(dir)
	noted := func() witness.Seen {
		files, err := filepath.Glob(filepath.Join(dir, "fireonce-*.seen"))
		if err != nil || len(files) != 1 {
			t.Fatalf("files %v, %v", files, err)
		}
		seen, err := witness.Load(files[0])
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	first := noted()
	f.submit(1, f.connect())
	if err := s.note(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := noted()
	if !second.Newer(first) || second.Era != 1 {
		t.Errorf("noted %+v, then %+v", first, second)
	}
	later := witness.Seen{Era: 1, Position: second.Position + 1}
	if err := witness.Save(s.memory.path, later); err != nil { // another server's
		t.Fatal(err)
	}
	if err := s.note(t.Context()); err != nil || noted() != later {
		t.Errorf("noted %+v over %+v, %v", noted(), later, err)
	}
	path := s.memory.path
	end(t, s)
	if err := os.WriteFile(path, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, filepath.Join(dir, "gone")} {
		_, err := Open(t.Context(), Options{URL: f.url, StateDir: dir})
		if err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("folder %s: %v", dir, err)
		}
	}
}
