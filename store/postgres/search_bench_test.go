//go:build unix

package postgres

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
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
	db := &searchDB{TB: b, url: c.AdminURL(name)}
	db.fill(f)
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

// searchDB writes the jobs of a fixture.
type searchDB struct {
	testing.TB
	url string
}

// exec runs statements in a session that checks no reference and fires no trigger: jobs
// are born as they have ended.
func (d *searchDB) exec(statements ...string) {
	d.Helper()
	conn, err := pgx.Connect(context.Background(), d.url)
	if err != nil {
		d.Error(err)
		return
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, text := range append([]string{"SET session_replication_role = replica; SET synchronous_commit = off"}, statements...) {
		if _, err := conn.Exec(context.Background(), text); err != nil {
			d.Errorf("%s: %v", text, err)
			return
		}
	}
}

// share has two sessions run the statements.
func (d *searchDB) share(statements []string) {
	d.Helper()
	work := make(chan string, len(statements))
	for _, text := range statements {
		work <- text
	}
	close(work)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for text := range work {
				d.exec(text)
			}
		})
	}
	wg.Wait()
	if d.Failed() {
		d.FailNow()
	}
}

// fill makes indexes at the end: that takes a part of the time.
func (d *searchDB) fill(f storetest.SearchFixture) {
	d.Helper()
	const ofJobs = "('jobs', 'job_state', 'effects', 'job_recipients')"
	names, defs := d.lists(`SELECT i.indexname, i.indexdef FROM pg_indexes AS i
		WHERE i.tablename IN ` + ofJobs + ` AND NOT EXISTS (SELECT 1 FROM pg_constraint AS c WHERE c.conname = i.indexname)`)
	if len(names) > 0 {
		d.exec("DROP INDEX " + strings.Join(names, ", "))
	}
	r := storetest.SearchRow
	conns := make([]string, len(f.Connections))
	for i, id := range f.Connections {
		conns[i] = fmt.Sprintf("'%x'", id[:])
	}
	gen := fmt.Sprintf(`WITH g AS (SELECT i, id, at, state, conn, CASE WHEN state IN (1, 6) THEN now + i %% 86400 * interval '1 second' ELSE at END AS due,
			at - i %% 3600 * interval '1 second' AS created, at + i %% 600 * interval '1 second' AS ended
		FROM (SELECT i, t.now, lpad(to_hex(i + 1), 32, '0')::uuid AS id, t.now - (%d - i) * interval '%d microseconds' AS at,
			%s AS state, c.list[%s + 1] AS conn
			FROM (SELECT '%s'::timestamptz AS now) AS t, (SELECT ARRAY[%s]::uuid[] AS list) AS c, generate_series(0, %d) AS i) AS s) `,
		f.Jobs, storetest.Span.Microseconds()/int64(f.Jobs), r.State, r.Conn, f.Now.UTC().Format("2006-01-02T15:04:05.000000Z"),
		strings.Join(conns, ", "), f.Jobs-1)
	d.share([]string{
		gen + `INSERT INTO jobs (id, project, idem_key, connection_id, payload_kind, retry, attempt_timeout, delivery,
			labels, time_zone, fingerprint, created_at, payload)
		SELECT id, 'default', ` + r.Key + `, conn, 'webhook', '', 0, 1, (` + r.Labels + `)::jsonb, '', '', created,
			decode(repeat('00', 64), 'hex') FROM g`,
		gen + `INSERT INTO job_state (job_id, project, connection_id, hold_key, state, version, position, schedule_time, unasked, start_window, start_deadline,
			next_at, class, error_kind, updated_at, state_since, history, ended_at)
		SELECT id, 'default', conn, '', state, 4, 1, due, false, 0, due, CASE WHEN state < 7 THEN due END, ` + r.Class + `, ` + r.ErrorKind + `, ended, ended, decode(repeat('00', 80), 'hex'),
			CASE WHEN state > 7 THEN ended END FROM g`,
		gen + `INSERT INTO effects (job_id, account, namespace, external_id, external_url, attempt, round, proof, at)
		SELECT id, 'a', 'n', ` + r.External + `, '', 1, 1, 1, ended FROM g WHERE state = 8 AND ` + r.External + ` IS NOT NULL`,
		gen + `INSERT INTO job_recipients (job_id, project, recipient) SELECT id, 'default', ` + r.Recipient + ` FROM g WHERE ` + r.Recipient + ` IS NOT NULL`,
	})
	d.share(append(defs, fmt.Sprintf(`INSERT INTO rollups (project, connection_id, width, start_at, connector, class, measure, bin, count)
		SELECT 'default', c, 2, '%s'::timestamptz - h * interval '1 hour', 'fake', 1, m.measure, m.bin, 7
		FROM unnest(ARRAY['00000000000000000000000000000000', %s]::uuid[]) AS c, generate_series(0, 744) AS h,
			(SELECT 2 AS measure, b AS bin FROM generate_series(20, 39) AS b UNION ALL SELECT m, -1 FROM unnest(ARRAY[1, 3, 18, 19]) AS m) AS m`,
		store.Hour.Start(f.Now).Format(time.RFC3339), strings.Join(conns, ", "))))
	d.share([]string{"VACUUM ANALYZE"})
}

func (d *searchDB) lists(text string) (a, b []string) {
	d.Helper()
	conn, err := pgx.Connect(context.Background(), d.url)
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	rows, err := conn.Query(context.Background(), text)
	if err != nil {
		d.Fatal(err)
	}
	for rows.Next() {
		var x, y string
		if err := rows.Scan(&x, &y); err != nil {
			d.Fatal(err)
		}
		a, b = append(a, x), append(b, y)
	}
	if err := rows.Err(); err != nil {
		d.Fatal(err)
	}
	return a, b
}
