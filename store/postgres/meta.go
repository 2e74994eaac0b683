package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
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
		m.Now, m.Clock = v.at(now).UTC(), s.clock.belief.Suspect()
		m.Steady = m.Now.Add(-fromMicros(row.ClockMoved))
		if lag != nil {
			m.EventLag = max(0, *lag)
		}
		return m, nil
	})
}

// Quarantine turns claims off until Release. An empty reason would be no quarantine.
func (s *Store) Quarantine(ctx context.Context, reason string) error {
	if reason == "" {
		return fmt.Errorf("quarantine: %w: without a reason", store.ErrIllegal)
	}
	return writeOnly(ctx, s, "quarantine", func(ctx context.Context, t *tx) error {
		return t.q.Quarantine(ctx, reason)
	})
}

// Release ends the quarantine: an operator has made sure that no other copy of this database
// is at work and that its contents are right.
func (s *Store) Release(ctx context.Context) error {
	return writeOnly(ctx, s, "release", func(ctx context.Context, t *tx) error {
		t.hint[store.WatchWork] = true
		n, err := t.q.Release(ctx, &t.now)
		if err != nil || n == 0 {
			return err
		}
		if err := t.q.HoldSchedules(ctx, t.now); err != nil {
			return fmt.Errorf("schedules: %w", err)
		}
		t.hint[store.WatchSchedules] = true
		return t.raiseFences(ctx)
	})
}

// raiseFences treats every job whose outcome is open as armed just now by a lost state.
func (t *tx) raiseFences(ctx context.Context) error {
	ids, err := t.q.LockLooks(ctx)
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	return named("fences", t.q.RaiseFences(ctx, pgdb.RaiseFencesParams{Ids: ids, NotBefore: soon(t.now, store.LostGrace)}))
}

// SetNamespace implements store.Store.
func (s *Store) SetNamespace(ctx context.Context, namespace string, copied bool) error {
	if err := job.CheckNamespace(namespace); err != nil {
		return fmt.Errorf("set namespace: %w", err)
	}
	err := writeOnly(ctx, s, "set namespace", func(ctx context.Context, t *tx) error {
		// It first waits for transactions that may arm, and delays new ones (see
		// keepNamespace).
		if _, err := t.conn.Exec(ctx, "SELECT FROM meta WHERE id = 1 FOR UPDATE"); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		m, err := t.q.GetMeta(ctx)
		if err != nil || m.Namespace == namespace {
			return err
		}
		armed, err := t.q.ArmedEver(ctx)
		if err != nil {
			return err
		}
		if armed && !(copied && m.Quarantined != "") {
			return &store.NamespaceError{Have: m.Namespace}
		}
		return t.q.SetNamespace(ctx, namespace)
	})
	if err == nil {
		s.namespace.Store(&namespace)
	}
	return err
}
