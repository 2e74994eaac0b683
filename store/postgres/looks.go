package postgres

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// ClaimLooks implements store.Store. A job that somebody is writing to is left
// to the next call.
func (s *Store) ClaimLooks(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return leasing(ctx, s, "claim looks", nil, func(ctx context.Context, _ *struct{}, t *tx) ([]store.Leased, error) {
		if err := t.refuseClosed(); err != nil {
			return nil, err
		}
		rows, err := t.q.LeaseLooks(ctx, pgdb.LeaseLooksParams{
			Now: &t.now, Worker: p.Worker, LeaseEnd: someTime(t.now.Add(p.Lease)), MaxRows: int32(rules.Page(p.Limit)),
		})
		if err != nil {
			return nil, fmt.Errorf("due looks: %w", err)
		}
		ids := make([]job.ID, len(rows))
		for i, id := range rows {
			ids[i] = toID(id)
		}
		return t.leased(ctx, ids)
	})
}
