package schedule

import (
	"testing"

	"github.com/fireonce/fireonce/store"
)

// TestNextLimit checks that a read asks for about as many schedules as the last one could write, and
// for the full number again once they fit.
func TestNextLimit(t *testing.T) {
	for _, tt := range []struct {
		limit, decided int
		more           bool
		want           int
	}{
		{store.MaxBatch, store.MaxBatch, true, store.MaxBatch},
		{store.MaxBatch, 3, false, store.MaxBatch},
		{store.MaxBatch, 3, true, leastDecided},
		{store.MaxBatch, 100, true, 200},
		{leastDecided, 3, true, leastDecided},
		{leastDecided, leastDecided, true, 2 * leastDecided},
		{leastDecided, 0, false, 2 * leastDecided},
	} {
		if got := nextLimit(tt.limit, tt.decided, tt.more); got != tt.want {
			t.Errorf("after %d of %d, more: %t: %d, want %d", tt.decided, tt.limit, tt.more, got, tt.want)
		}
	}
}
