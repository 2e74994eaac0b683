package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Rules of this file: sessions keep their plans, and a plan that was made when a
// table had a few rows may walk through all of it. That is right until the table has
// grown, and autovacuum looks at it once a minute at most. So a table that has become
// several times as large as when it was last analysed is analysed at once, which also
// has its plans made again. Which ones have grown is asked of the database, not
// remembered: what another server or autovacuum has done counts.

const (
	// grownEvery is how often sizes are compared.
	grownEvery = 2 * time.Second
	// grownBy is how many times its known size a table may have before it is analysed;
	// leastPages, of 8 KiB, is what the smallest tables count as.
	grownBy    = 4
	leastPages = 128
	// analyseTime bounds one table's analysis, which reads a sample.
	analyseTime = 10 * time.Second
)

// grown are the tables that grow with the jobs.
const grown = `SELECT c.oid::regclass::text FROM pg_class AS c
WHERE c.oid = ANY (ARRAY['jobs', 'job_keys', 'job_state', 'attempts', 'effects', 'event_pages', 'event_texts', 'job_history', 'observations',
		'open_intents', 'resolutions', 'connections', 'connection_claims', 'connection_ready']::regclass[])
	AND pg_relation_size(c.oid) / current_setting('block_size')::bigint > $1 * greatest(c.relpages, $2)
ORDER BY c.oid`

// watcher has tables analysed that have grown.
type watcher struct {
	end  context.CancelFunc
	done sync.WaitGroup
}

func (s *Store) watchGrowth() *watcher {
	ctx, end := context.WithCancel(context.Background())
	w := &watcher{end: end}
	w.done.Go(func() {
		for sleep(ctx, grownEvery) {
			// A failure is that of the database, which all else meets too; the next look comes.
			_, _ = s.analyseGrown(ctx)
		}
	})
	return w
}

func (w *watcher) close() {
	w.end()
	w.done.Wait()
}

// analyseGrown analyses what has grown, and tells what that was. A table that somebody
// analyses already, or whose lock is taken, is left for the next time.
func (s *Store) analyseGrown(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, grown, grownBy, leastPages)
	if err != nil {
		return nil, fmt.Errorf("sizes of tables: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("sizes of tables: %w", err)
	}
	for _, table := range tables {
		within, cancel := context.WithTimeout(ctx, analyseTime)
		_, err := s.pool.Exec(within, "ANALYZE (SKIP_LOCKED) "+table)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("analyse %s: %w", table, err)
		}
	}
	return tables, nil
}
