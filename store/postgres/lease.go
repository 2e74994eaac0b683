package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Renew implements store.Store. A lease that is over is not renewed, even before a sweep ends
// it.
func (s *Store) Renew(ctx context.Context, lease time.Duration, refs []store.LeaseRef) ([]bool, error) {
	items := make([]renewal, len(refs))
	for i, r := range refs {
		items[i] = renewal{LeaseRef: r, lease: lease}
	}
	return s.work.renews.do(ctx, items)
}

// renewal is one lease to renew, for its caller's duration.
type renewal struct {
	store.LeaseRef
	lease time.Duration
}

// renewBatch renews the leases of several callers in one statement.
func (s *Store) renewBatch(ctx context.Context, items []renewal) ([]bool, error) {
	return write(ctx, s, "renew", func(ctx context.Context, t *tx) ([]bool, error) {
		var p pgdb.RenewLeasesParams
		p.Now = t.now
		for _, r := range items {
			p.Jobs = append(p.Jobs, r.Job)
			p.Tokens = append(p.Tokens, r.Token)
			p.LeaseEnds = append(p.LeaseEnds, t.now.Add(r.lease))
		}
		rows, err := t.q.RenewLeases(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("leases: %w", err)
		}
		renewed := make(map[store.LeaseRef]bool, len(rows))
		for _, r := range rows {
			renewed[store.LeaseRef{Job: r.JobID, Token: job.ID(r.ClaimToken)}] = true
		}
		out := make([]bool, len(items))
		for i, r := range items {
			out[i] = renewed[r.LeaseRef]
		}
		return out, nil
	})
}

// ClaimLooks implements store.Store.
func (s *Store) ClaimLooks(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return leasing(ctx, s, "claim looks", nil, func(ctx context.Context, _ *struct{}, t *tx) ([]store.Leased, error) {
		return t.shared().ClaimLooks(ctx, p)
	})
}
