package sqlstore

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store/rules"
)

// Overdue implements store.Store.
func (r *Roles) Overdue(ctx context.Context, limit int) ([]job.Snapshot, error) {
	return read(ctx, r, "overdue", func(ctx context.Context, v View) ([]job.Snapshot, error) {
		s, err := v.suspension(ctx)
		if err != nil || s.Clock.Suspends {
			return nil, err
		}
		most, quarantined := rules.Page(limit), s.Quarantined != ""
		ids, err := v.Q.OverdueIDs(ctx, shareddb.OverdueIDsParams{OnlyFences: quarantined, Now: v.Now, MaxRows: int32(most)})
		if err != nil {
			return nil, err
		}
		if !quarantined {
			over, err := v.Q.WindowOverIDs(ctx, shareddb.WindowOverIDsParams{Now: v.Now, MaxRows: int32(most)})
			if err != nil {
				return nil, err
			}
			left, err := v.Q.LeftBehindIDs(ctx, int32(most))
			if err != nil {
				return nil, err
			}
			ids = rules.Interleave(most, ids, over, left)
		}
		snaps, err := v.Snapshots(ctx, ids, true)
		if err != nil || quarantined {
			return snaps, err
		}
		var windowed []*job.Snapshot
		for i := range snaps {
			if s := &snaps[i]; s.State.Runnable() || s.State == job.Claimed {
				windowed = append(windowed, s)
			}
		}
		return snaps, v.markHeld(ctx, windowed)
	})
}

// NextDue implements store.Store. A quarantined database claims nothing and ends no window,
// so neither counts. Fences are few, and a sweep asks for them anyway.
func (r *Roles) NextDue(ctx context.Context, limit time.Duration) (time.Duration, error) {
	return read(ctx, r, "next due", func(ctx context.Context, v View) (time.Duration, error) {
		if s, err := v.suspension(ctx); err != nil || s.Suspended() {
			return limit, err
		}
		next, err := v.Q.NextDue(ctx, v.Now.Add(limit))
		return max(0, next.Sub(v.Now)), err
	})
}

// Doubtful implements store.Store.
func (r *Roles) Doubtful(ctx context.Context, since time.Time, limit int) ([]job.Snapshot, error) {
	if since.IsZero() {
		since = time.Unix(0, 0) // all of them; the zero time would be NULL
	}
	return read(ctx, r, "doubtful", func(ctx context.Context, v View) ([]job.Snapshot, error) {
		ids, err := v.Q.DoubtfulIDs(ctx, shareddb.DoubtfulIDsParams{Since: job.Micros(since), Now: v.Now, MaxRows: int32(rules.Page(limit))})
		if err != nil {
			return nil, err
		}
		return v.Snapshots(ctx, ids, true)
	})
}
