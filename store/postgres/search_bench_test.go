//go:build unix

package postgres

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/manyjobs"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store/storetest"
)

// BenchmarkSearch: see storetest. FIREONCE_SEARCH_JOBS is how many jobs there are, and
// TMPDIR where they are written.
func BenchmarkSearch(b *testing.B) {
	s, f := filled(b)
	storetest.BenchmarkSearch(b, s, f)
}

// BenchmarkIncidents: see storetest.
func BenchmarkIncidents(b *testing.B) {
	s, f := filled(b)
	storetest.BenchmarkIncidents(b, s, f)
}

// filled opens a store with the jobs of a fixture.
func filled(b *testing.B) (*Store, storetest.SearchFixture) {
	b.Helper()
	n := storetest.SearchJobs()
	if n == 0 {
		b.Skip("FIREONCE_SEARCH_JOBS is not set: see make bench-search")
	}
	c := pgtest.Start(b, pgtest.Options{Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "4GB", "maintenance_work_mem": "512MB", "checkpoint_timeout": "30min",
	}})
	name := c.NewDatabase(b)
	fleet := &fleet{TB: b, url: c.URL(name)}
	s := fleet.join(fleet.url, func(o *Options) { o.Now, o.MaxInFlight = nil, 1<<30 })
	f := storetest.SearchFixture{Jobs: n, Now: time.Now()}
	for range 50 {
		f.Connections = append(f.Connections, fleet.connect().ID)
	}
	begun := time.Now()
	manyjobs.PostgreSQL(b, c.AdminURL(name), f)
	fmt.Fprintf(os.Stderr, "PostgreSQL: %d jobs were written in %v, %d MB\n", n, time.Since(begun).Round(time.Second),
		fleet.count("SELECT pg_database_size(current_database())")>>20)
	f.Read = func() (pages, rows int64) {
		// A session keeps what it has counted for a while, but when it is asked to report.
		for _, conn := range s.pool.AcquireAllIdle(b.Context()) {
			_, err := conn.Exec(b.Context(), "SELECT pg_stat_force_next_flush()")
			conn.Release()
			if err != nil {
				b.Fatal(err)
			}
		}
		fleet.sql(`SELECT (SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::bigint FROM pg_statio_user_tables),
			(SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables) + (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes)`,
			nil, &pages, &rows)
		return pages, rows
	}
	return s, f
}
