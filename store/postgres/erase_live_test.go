//go:build unix

package postgres

import (
	"context"
	"testing"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
)

// TestErasureTakesNoLiveConnection: a connection that is made after an erasure has looked for
// live ones is not among those whose credentials and labels it removes.
func TestErasureTakesNoLiveConnection(t *testing.T) {
	f := newFleet(t, 1)
	c := f.connect()
	ids, err := read(t.Context(), f.stores[0], "connections", func(ctx context.Context, v view) ([]job.ID, error) {
		return v.shared().Q.ConnectionsOf(ctx, shareddb.ConnectionsOfParams{Project: c.Project, MaxRows: 10})
	})
	if err != nil || len(ids) != 0 {
		t.Errorf("connections to blank: %v (%v), want none: %s is live", ids, err, c.ID)
	}
}
