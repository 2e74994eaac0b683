package sqlite_test

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/litetest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlite"
	"github.com/fireonce/fireonce/store/storetest"
)

// TestErasedBytes: not a byte of what was erased is in the database's files, once the log
// is written back. Connections are changed before they are erased, so VACUUM has to take
// what SQLite left of them as their rows moved.
func TestErasedBytes(t *testing.T) {
	paths := make(map[store.Store]string)
	open := func(t *testing.T, now func() time.Time) store.Store {
		t.Helper()
		path := litetest.New(t)
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Now: now, Readers: 2})
		if err != nil {
			t.Fatal(err)
		}
		paths[s] = path
		return s
	}
	storetest.RunErased(t, open, func(t *testing.T, s store.Store) (places []string) {
		t.Helper()
		// The store may be writing its log back at this moment: wait for it.
		db, err := sql.Open("sqlite", paths[s]+"?_pragma=busy_timeout(60000)")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		if strings.HasSuffix(t.Name(), "EraseProject") {
			if _, err := db.ExecContext(t.Context(), "VACUUM"); err != nil {
				t.Fatal(err)
			}
		}
		var busy, inLog, written int
		err = db.QueryRowContext(t.Context(), "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &inLog, &written)
		if err != nil || busy != 0 {
			t.Fatalf("the log is not written back: %d, %v", busy, err)
		}
		files, err := filepath.Glob(paths[s] + "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for at := 0; ; {
				i := bytes.Index(text[at:], []byte(storetest.Marker))
				if i < 0 {
					break
				}
				at += i
				places = append(places, filepath.Base(name)+": "+string(text[max(0, at-20):min(len(text), at+30)]))
				at++
			}
		}
		return places[:min(len(places), 20)]
	})
}
