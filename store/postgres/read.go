package postgres

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// snapshots reads whole jobs in one statement, with or without their payloads.
// Jobs that do not exist are left out.
func (v view) snapshots(ctx context.Context, ids []job.ID, payload bool) (map[job.ID]job.Snapshot, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := v.q.Snapshots(ctx, pgdb.SnapshotsParams{WithPayload: payload, Ids: fromIDs(ids)})
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	out := make(map[job.ID]job.Snapshot, len(rows))
	for _, r := range rows {
		now := v.now
		if now.IsZero() {
			now = v.s.present(r.Now)
		}
		s, err := toSnapshot(r, now)
		if err != nil {
			return nil, err
		}
		out[s.ID] = s
	}
	return out, nil
}

// snapshot reads a whole job.
func (v view) snapshot(ctx context.Context, id job.ID) (job.Snapshot, error) {
	all, err := v.snapshots(ctx, []job.ID{id}, true)
	if err != nil {
		return job.Snapshot{}, err
	}
	s, ok := all[id]
	if !ok {
		return job.Snapshot{}, store.ErrNotFound
	}
	return s, nil
}

// page bounds a limit; none means the most there is.
func page(limit int) int {
	if limit <= 0 || limit > store.MaxBatch {
		return store.MaxBatch
	}
	return limit
}

// bounded refuses a batch above the contract's limit: a caller's bug.
func bounded(n int) error {
	if n > store.MaxBatch {
		return fmt.Errorf("%w: %d items, at most %d", store.ErrIllegal, n, store.MaxBatch)
	}
	return nil
}
