package sqlite

import (
	"context"
	"testing"

	"github.com/fireonce/fireonce/store"
)

// A caller may recover from a panic. It must not cost the store a reader.
func TestAPanicInAReadLeavesTheReaderUsable(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t), Now: frozen, Readers: 1})
	func() {
		defer func() { _ = recover() }()
		_, _ = read(t.Context(), s, "panic", func(context.Context, view) (int, error) { panic("boom") })
	}()
	if _, err := s.Meta(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := s.Job(t.Context(), store.Ref{ID: randomID()})
	wantErr(t, err, store.ErrNotFound)
}
