package postgres

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/rules"
)

// Overdue implements store.Store.
func (s *Store) Overdue(ctx context.Context, limit int) ([]job.Snapshot, error) {
	return read(ctx, s, "overdue", func(ctx context.Context, v view) ([]job.Snapshot, error) {
		most := rules.Page(limit)
		m, err := v.q.GetMeta(ctx)
		if err != nil {
			return nil, err
		}
		if v.suspect.Suspends {
			return nil, nil
		}
		if m.Quarantined != "" {
			ids, err := v.q.FencesOverIDs(ctx, pgdb.FencesOverIDsParams{Now: v.now, MaxRows: int32(most)})
			if err != nil {
				return nil, err
			}
			return v.interleaved(ctx, most, ids)
		}
		late, err := v.q.OverdueIDs(ctx, pgdb.OverdueIDsParams{Now: v.now, MaxRows: int32(most)})
		if err != nil {
			return nil, err
		}
		over, err := v.q.WindowOverIDs(ctx, pgdb.WindowOverIDsParams{Now: v.now, MaxRows: int32(most)})
		if err != nil {
			return nil, err
		}
		left, err := v.q.LeftBehindIDs(ctx, int32(most))
		if err != nil {
			return nil, err
		}
		return v.interleaved(ctx, most, late, over, left)
	})
}

// interleaved reads the jobs of lists, which alternate.
func (v view) interleaved(ctx context.Context, most int, lists ...[]job.ID) ([]job.Snapshot, error) {
	ids := rules.Interleave(most, lists...)
	snaps, err := v.snapshots(ctx, ids, true)
	if err != nil {
		return nil, err
	}
	out := make([]job.Snapshot, len(ids))
	for i, id := range ids {
		out[i] = snaps[id]
	}
	return out, nil
}

// endOfTime is later than any due time.
var endOfTime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// NextDue implements store.Store. A quarantined database claims nothing and ends no window,
// so neither counts.
func (s *Store) NextDue(ctx context.Context, limit time.Duration) (time.Duration, error) {
	return readOne(ctx, s, "next due", func(ctx context.Context, v view) (time.Duration, error) {
		row, err := v.q.NextDue(ctx, endOfTime)
		if err != nil {
			return 0, err
		}
		m := s.moment(row.Now, v.begun, unknownStep)
		if m.Suspect.Suspends {
			return limit, nil
		}
		return min(limit, max(0, row.At.Sub(time.UnixMicro(m.Now)))), nil
	})
}

// Doubtful implements store.Store.
func (s *Store) Doubtful(ctx context.Context, since time.Time, limit int) ([]job.Snapshot, error) {
	return read(ctx, s, "doubtful", func(ctx context.Context, v view) ([]job.Snapshot, error) {
		rows, err := v.q.DoubtfulIDs(ctx, pgdb.DoubtfulIDsParams{Since: job.Micros(since), Now: v.now, MaxRows: int32(rules.Page(limit))})
		if err != nil {
			return nil, err
		}
		return v.Snapshots(ctx, rows, true)
	})
}
