package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/rules"
)

// ClaimLooks implements store.Store.
func (s *Store) ClaimLooks(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return write(ctx, s, "claim looks", func(ctx context.Context, t *tx) ([]store.Leased, error) {
		return t.shared().ClaimLooks(ctx, p)
	})
}

// Renew implements store.Store. A lease that is over is not renewed, even before a sweep ends
// it.
func (s *Store) Renew(ctx context.Context, lease time.Duration, refs []store.LeaseRef) ([]bool, error) {
	if err := rules.Bounded(len(refs)); err != nil {
		return nil, fmt.Errorf("renew: %w", err)
	}
	return write(ctx, s, "renew", func(ctx context.Context, t *tx) ([]bool, error) {
		out := make([]bool, len(refs))
		for i, r := range refs {
			t.w.cache.drop(r.Job)
			n, err := t.q.RenewLease(ctx, sqlitedb.RenewLeaseParams{
				LeaseEnd: t.now.Add(lease), JobID: r.Job, ClaimToken: column.OptionalID(r.Token), Now: t.now,
			})
			if err != nil {
				return nil, err
			}
			out[i] = n == 1
		}
		return out, nil
	})
}
