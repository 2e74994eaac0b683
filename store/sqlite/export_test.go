package sqlite

import (
	"context"
	"testing"
)

// CheckCache compares the whole cache with the rows after each operation from now on: a write
// that misses a cached row fails the test.
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
