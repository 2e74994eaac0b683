package sqlite

import (
	"context"
	"testing"
)

// CheckCache compares all that the writer remembers with the rows after each operation
// from now on: what a write has forgotten to forget fails the test.
func CheckCache(t *testing.T, s *Store) {
	t.Helper()
	_, err := write(t.Context(), s, "check", func(_ context.Context, own *tx) (int, error) {
		own.w.check = func(ctx context.Context, own *tx) {
			if err := compareCache(ctx, own); err != nil {
				t.Error(err)
				own.w.check = nil // once is enough
			}
		}
		return 0, nil
	})
	must(t, err)
}
