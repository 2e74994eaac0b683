package postgres

import (
	"slices"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// A table that has grown is analyzed, once. Other tables are not.
func TestGrownTablesAreAnalysed(t *testing.T) {
	f := newFleetApart(t, 1)
	s := f.stores[0]
	s.growth.close() // this test compares the sizes itself
	if tables, err := s.analyseGrown(t.Context()); err != nil || len(tables) != 0 {
		t.Fatalf("of a new database: %v, %v", tables, err)
	}
	conn := f.connect()
	payload := make([]byte, 1200) // it stays in its row, and is not compressed
	for range 10 {
		f.submit(store.MaxBatch, conn, func(s *job.Spec) { s.Payload = payload })
	}
	tables, err := s.analyseGrown(t.Context())
	if err != nil || !slices.Contains(tables, "jobs") || slices.Contains(tables, "connections") {
		t.Fatalf("grown: %v, %v", tables, err)
	}
	if tables, err = s.analyseGrown(t.Context()); err != nil || len(tables) != 0 {
		t.Errorf("again: %v, %v", tables, err)
	}
}
