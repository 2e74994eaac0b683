package sqlite

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/rules"
)

// Overdue implements store.Store.
func (s *Store) Overdue(ctx context.Context, limit int) ([]job.Snapshot, error) {
	return read(ctx, s, "overdue", func(ctx context.Context, v view) ([]job.Snapshot, error) {
		most := page(limit)
		m, err := v.q.GetMeta(ctx)
		if err != nil {
			return nil, err
		}
		if v.suspect.Suspends {
			return nil, nil
		}
		if m.Quarantined != "" {
			ids, err := v.q.FencesOverIDs(ctx, sqlitedb.FencesOverIDsParams{Now: someMicros(v.now), MaxRows: most})
			if err != nil {
				return nil, err
			}
			return v.snapshots(ctx, ids)
		}
		ids, err := v.q.OverdueIDs(ctx, sqlitedb.OverdueIDsParams{Now: someMicros(v.now), MaxRows: most})
		if err != nil {
			return nil, err
		}
		over, err := v.q.WindowOverIDs(ctx, sqlitedb.WindowOverIDsParams{Now: v.now, MaxRows: most})
		if err != nil {
			return nil, err
		}
		left, err := v.q.LeftBehindIDs(ctx, most)
		if err != nil {
			return nil, err
		}
		return v.snapshots(ctx, fromIDs(rules.Interleave(int(most), toIDs(ids), toIDs(over), toIDs(left))))
	})
}

// Doubtful implements store.Store.
func (s *Store) Doubtful(ctx context.Context, since time.Time, limit int) ([]job.Snapshot, error) {
	return read(ctx, s, "doubtful", func(ctx context.Context, v view) ([]job.Snapshot, error) {
		ids, err := v.q.DoubtfulIDs(ctx, sqlitedb.DoubtfulIDsParams{
			Since: toMicros(since).Int64, Now: someMicros(v.now), MaxRows: page(limit),
		})
		if err != nil {
			return nil, err
		}
		return v.snapshots(ctx, ids)
	})
}

// snapshots reads jobs one by one.
func (v view) snapshots(ctx context.Context, ids [][]byte) ([]job.Snapshot, error) {
	out := make([]job.Snapshot, len(ids))
	for i, id := range ids {
		var err error
		if out[i], err = v.snapshot(ctx, id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// NextDue implements store.Store. A quarantined database claims nothing and ends no window,
// so neither counts.
func (s *Store) NextDue(ctx context.Context, limit time.Duration) (time.Duration, error) {
	return read(ctx, s, "next due", func(ctx context.Context, v view) (time.Duration, error) {
		m, err := v.q.GetMeta(ctx)
		if err != nil {
			return 0, err
		}
		if v.suspension(m).Suspended() {
			return limit, nil // fences are few, and a sweep asks for them anyway
		}
		next, err := v.q.NextDue(ctx, v.now+micros(limit))
		return fromDuration(max(0, next-v.now)), err
	})
}
