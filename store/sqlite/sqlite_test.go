package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlite"
	"github.com/fireonce/fireonce/store/storetest"
)

// TestConformance gives every subtest a copy of one migrated database:
// migrating takes longer than most of them.
func TestConformance(t *testing.T) {
	template := filepath.Join(t.TempDir(), "template.db")
	if err := sqlite.Migrate(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	empty, err := os.ReadFile(template)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store {
		t.Helper()
		path := filepath.Join(t.TempDir(), "fireonce.db")
		if err := os.WriteFile(path, empty, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Now: now, Readers: 2})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}
