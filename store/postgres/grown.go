package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/sleep"
)

// Rules of this file: sessions keep their plans, and a plan that was made for a table of a
// few rows may scan all of it. That is right until the table has grown, and autovacuum checks
// it once a minute at most. So a table that is several times as large as at its last analysis
// is analyzed immediately, which also discards its plans. The sizes are read from the
// database each time, so that the work of other servers and of autovacuum counts.

const (
	// grownEvery is how often sizes are compared.
	grownEvery = 2 * time.Second
	// grownBy is the factor by which a table must have grown before it is analyzed;
	// leastPages, of 8 KiB, is the assumed size of smaller tables.
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

// background is work that is repeated until it is closed.
type background struct {
	end  context.CancelFunc
	done sync.WaitGroup
}

func repeat(every time.Duration, work func(context.Context)) *background {
	ctx, end := context.WithCancel(context.Background())
	b := &background{end: end}
	b.done.Go(func() {
		for sleep.For(ctx, every) {
			work(ctx)
		}
	})
	return b
}

func (b *background) close() {
	if b != nil {
		b.end()
		b.done.Wait()
	}
}

// watchGrowth analyzes tables that have grown. Other calls report a failure of the database
// too, and the next comparison follows.
func (s *Store) watchGrowth() *background {
	return repeat(grownEvery, func(ctx context.Context) { _, _ = s.analyseGrown(ctx) })
}

// analyseGrown analyzes the tables that have grown, and returns them. A table that is being
// analyzed, or whose lock is taken, waits for the next time.
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
