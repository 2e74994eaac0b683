//go:build unix

package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
)

// BenchmarkSearch: see storetest. FIREONCE_SEARCH_JOBS says how many jobs there are.
func BenchmarkSearch(b *testing.B) {
	n := storetest.SearchJobs()
	if n == 0 {
		b.Skip("FIREONCE_SEARCH_JOBS is not set: see make bench-search")
	}
	fleet := benchFleet(b)
	f := storetest.SearchFixture{Jobs: n, Now: time.Now()}
	for range 50 {
		f.Connections = append(f.Connections, fleet.connect().ID)
	}
	begun := time.Now()
	conn, err := pgx.Connect(b.Context(), fleet.url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(b.Context())
	exec := func(text string, args ...any) {
		b.Helper()
		if _, err := conn.Exec(b.Context(), text, args...); err != nil {
			b.Fatal(err)
		}
	}
	for _, table := range []string{"job_state", "effects"} {
		exec("ALTER TABLE " + table + " DISABLE TRIGGER USER") // jobs are born as they have ended
	}
	exec("SET synchronous_commit = off")
	step := (31 * 24 * time.Hour).Microseconds() / int64(n)
	const part = 250_000
	for from := 0; from < n; from += part {
		gen := fmt.Sprintf(`WITH g AS (SELECT i, lpad(to_hex(i + 1), 32, '0')::uuid AS id, $1::timestamptz - (%d - i) * interval '%d microseconds' AS at,
			($2::uuid[])[i %% 50 + 1] AS conn, CASE WHEN i %% 1000 = 0 THEN 7 WHEN i %% 20 = 1 THEN 9 ELSE 8 END AS state
			FROM generate_series(%d, %d) AS i) `, n, step, from, min(n, from+part)-1)
		for _, text := range []string{
			`INSERT INTO jobs (id, project, idem_key, connection_id, payload_kind, max_attempts, min_backoff, max_backoff, attempt_timeout, policy,
				labels, time_zone, fingerprint, created_at, payload)
			SELECT id, 'default', 'shop-' || (i % 1000) || ':order-' || i, conn, 'webhook', 0, 0, 0, 0, 1, '{}', '', '', at, '\x00' FROM g`,
			`INSERT INTO job_state (job_id, project, connection_id, hold_key, state, version, position, schedule_time, start_window, start_deadline,
				class, error_kind, updated_at, ended_at)
			SELECT id, 'default', conn, '', state, 4, 1, at, 0, at, 1, CASE WHEN state = 9 THEN 2 ELSE 0 END, at, CASE WHEN state > 7 THEN at END FROM g`,
			`INSERT INTO effects (job_id, account, namespace, external_id, external_url, attempt, round, proof, at)
			SELECT id, 'a', 'n', 'object-' || i, '', 1, 1, 1, at FROM g WHERE i % 10 = 0 AND i % 1000 <> 0 AND conn IS NOT NULL`,
			`INSERT INTO job_recipients (job_id, project, recipient)
			SELECT id, 'default', 'user-' || (i % 100000) || '@example.com' FROM g WHERE i % 10 = 0 AND conn IS NOT NULL`,
		} {
			exec(gen+text, f.Now, fromIDs(f.Connections))
		}
	}
	exec(`INSERT INTO rollups (project, connection_id, width, start_at, connector, class, measure, bin, count)
		SELECT 'default', c, 2, $2::timestamptz - h * interval '1 hour', 'fake', 1, m.measure, m.bin, 7
		FROM unnest($1::uuid[]) AS c, generate_series(0, 744) AS h,
			(SELECT 2 AS measure, b AS bin FROM generate_series(20, 39) AS b UNION ALL SELECT m, -1 FROM unnest(ARRAY[1, 3, 18, 19]) AS m) AS m`,
		fromIDs(append([]job.ID{{}}, f.Connections...)), store.Hour.Start(f.Now))
	exec("VACUUM ANALYZE")
	b.Logf("%d jobs were written in %v", n, time.Since(begun).Round(time.Second))
	storetest.BenchmarkSearch(b, fleet.stores[0], f)
}
