package memory

import (
	"context"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// ClaimLooks implements store.Store.
func (s *Store) ClaimLooks(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return call(ctx, s, "claim looks", func(t *tx) ([]store.Leased, error) {
		if err := t.refuseClosed(); err != nil {
			return nil, err
		}
		var due []*record
		for _, r := range t.active {
			if looked(r.job.State) && !r.job.NextAt.After(t.now) {
				due = append(due, r)
			}
		}
		slices.SortStableFunc(due, byDue)
		out := make([]store.Leased, 0, len(due))
		for _, r := range due[:min(len(due), rules.Page(p.Limit))] {
			next := rules.Leased(r.job, &p, t.opts.NewID(), t.now)
			if t.windowHeld(&next) {
				next = next.WindowAgain(t.now)
			}
			r.claimedAt = t.now
			t.put(r, next)
			out = append(out, t.leased(r))
		}
		return out, nil
	})
}

// looked reports whether jobs in a state are looked at or polled.
func looked(s job.State) bool { return s == job.Accepted || s == job.Ambiguous }

// Renew implements store.Store.
func (s *Store) Renew(ctx context.Context, lease time.Duration, refs []store.LeaseRef) ([]bool, error) {
	return batch(ctx, s, "renew", refs, func(t *tx, ref store.LeaseRef) bool {
		r, ok := t.jobs[ref.Job]
		switch {
		case !ok:
			return false
		case r.job.State != job.Claimed && !looked(r.job.State):
			return false
		case r.job.ClaimToken.IsZero() || r.job.ClaimToken != ref.Token:
			return false
		case !r.job.NextAt.After(t.now):
			return false
		}
		next := r.job
		next.NextAt = micros(t.now.Add(lease))
		t.put(r, next)
		return true
	})
}
