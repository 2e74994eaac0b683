package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Orphans implements store.Store.
func (r *Roles) Orphans(ctx context.Context, after store.Place, limit int) ([]store.Leased, error) {
	return read(ctx, r, "orphans", func(ctx context.Context, v View) ([]store.Leased, error) {
		if s, err := v.suspension(ctx); err != nil || s.Suspended() {
			return nil, err
		}
		workers, err := v.Q.Workers(ctx)
		if err != nil {
			return nil, fmt.Errorf("workers: %w", err)
		}
		gone, err := v.Gone(ctx, workers)
		if err != nil || len(gone) == 0 {
			return nil, err
		}
		if after.At.IsZero() {
			after.At = time.Unix(0, 0) // the zero time would be NULL
		}
		ids, err := v.Q.OrphanIDs(ctx, shareddb.OrphanIDsParams{
			Workers: gone, AfterAt: after.At, AfterID: after.ID, MaxRows: int32(rules.Page(limit)),
		})
		if err != nil {
			return nil, fmt.Errorf("jobs: %w", err)
		}
		return v.Leased(ctx, ids)
	})
}
