package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/store"
)

// behind reads the time, and since when the log's horizon waits for a transaction: any of the
// cluster that has an id, prepared ones included. A role that may not see when others began
// gets the time of the newest readable event, which is no later.
const behind = `
SELECT clock_timestamp(), clock_timestamp() - coalesce(
	least(
		(SELECT min(a.xact_start) FROM pg_stat_activity AS a WHERE a.backend_xid IS NOT NULL),
		(SELECT min(p.prepared) FROM pg_prepared_xacts AS p)
	),
	CASE WHEN pg_snapshot_xmin(pg_current_snapshot()) < pg_snapshot_xmax(pg_current_snapshot()) THEN
		(SELECT e.at FROM event_pages AS e WHERE e.position <= event_horizon() ORDER BY e.position DESC LIMIT 1)
	END
)`

// Meta implements store.Store. What steps have moved the clock by is of the same state of the
// database as what the time is judged by: otherwise Steady would be off by a step.
func (s *Store) Meta(ctx context.Context) (store.Meta, error) {
	return read(ctx, s, "meta", func(ctx context.Context, v view) (store.Meta, error) {
		row, err := v.q.GetMeta(ctx)
		if err != nil {
			return store.Meta{}, err
		}
		var now time.Time
		var lag *time.Duration
		if err := v.conn.QueryRow(ctx, behind).Scan(&now, &lag); err != nil {
			return store.Meta{}, fmt.Errorf("lag: %w", err)
		}
		m := toMeta(row)
		m.Now, m.Clock = v.At(now).UTC(), s.clock.belief.Suspect()
		m.Steady = m.Now.Add(-fromMicros(row.ClockMoved))
		if lag != nil {
			m.EventLag = max(0, *lag)
		}
		m.Stops, err = v.shared().CountOpenStops(ctx, m.Stops, m.Now)
		return m, err
	})
}

// SetNamespace implements store.Store.
func (s *Store) SetNamespace(ctx context.Context, namespace string, copied bool) error {
	err := s.Roles.SetNamespace(ctx, namespace, copied)
	if err == nil {
		s.namespace.Store(&namespace)
	}
	return err
}
