package memory_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/litetest"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/memory"
	"github.com/fireonce/fireonce/store/sqlite"
)

// TestLikeSQLite uses this store and an engine alike, at random, and expects the same
// answers: a finding of a simulation must apply to an engine.
func TestLikeSQLite(t *testing.T) {
	const seeds, steps = 8, 250
	for seed := range uint64(seeds) {
		want := (&script{t: t}).run(func(now func() time.Time) store.Store {
			s, err := sqlite.Open(t.Context(), sqlite.Options{Path: litetest.New(t), Now: now, Readers: 1})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}, seed, steps)
		got := (&script{t: t}).run(func(now func() time.Time) store.Store {
			return memory.Open(memory.Options{Now: now, NewID: counted()})
		}, seed, steps)
		alike(t, seed, got, want)
	}
}
