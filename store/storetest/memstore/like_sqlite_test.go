package memstore_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlite"
	"github.com/fireonce/fireonce/store/storetest/memstore"
)

// TestLikeSQLite uses this store and an engine alike, at random, and wants the same
// answers: what a simulation finds here must say something of an engine.
func TestLikeSQLite(t *testing.T) {
	const seeds, steps = 8, 250
	template := filepath.Join(t.TempDir(), "template.db")
	if err := sqlite.Migrate(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	empty, err := os.ReadFile(template)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(seeds) {
		want := (&script{t: t}).run(func(now func() time.Time) store.Store {
			path := filepath.Join(t.TempDir(), "fireonce.db")
			if err := os.WriteFile(path, empty, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Now: now, Readers: 1})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}, seed, steps)
		got := (&script{t: t}).run(func(now func() time.Time) store.Store {
			return memstore.Open(memstore.Options{Now: now, NewID: counted()})
		}, seed, steps)
		alike(t, seed, got, want)
	}
}
