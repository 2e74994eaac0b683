// Package litetest makes SQLite databases for tests. They are copies of one that was
// migrated: migrating takes longer than most tests, under the race detector above all.
package litetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/store/sqlite"
)

// template is a migrated database that no store has opened, so copies of it are no
// copies to a store.
var template = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "litetest")
	if err != nil {
		return nil, fmt.Errorf("litetest: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "template.db")
	if err := sqlite.Migrate(context.Background(), path); err != nil {
		return nil, fmt.Errorf("litetest: %w", err)
	}
	return os.ReadFile(path)
})

// New makes a migrated database in a directory of the test's own, and returns the path
// of its file.
func New(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(memdir.New(tb), "fireonce.db")
	Make(tb, path)
	return path
}

// Make makes a migrated database in a file that does not exist yet.
func Make(tb testing.TB, path string) {
	tb.Helper()
	data, err := template()
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tb.Fatal(err)
	}
}
