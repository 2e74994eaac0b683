package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlite"
	"github.com/fireonce/fireonce/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store {
		t.Helper()
		return open(t, filepath.Join(t.TempDir(), "fireonce.db"), now)
	})
}

// open opens a database that is closed with the test.
func open(t *testing.T, path string, now func() time.Time) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Migrate: true, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
