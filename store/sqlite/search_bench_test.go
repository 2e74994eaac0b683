package sqlite

import (
	"fmt"
	"testing"
	"time"

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
	path := testPath(b)
	s := mustOpen(b, Options{Path: path})
	f := storetest.SearchFixture{Jobs: n, Now: time.Now()}
	for range 50 {
		f.Connections = append(f.Connections, mustConnect(b, s).ID)
	}
	must(b, s.Close())
	begun := time.Now()
	db := raw(b, path)
	now := f.Now.UnixMicro()
	step := (31 * 24 * time.Hour).Microseconds() / int64(n)
	for _, text := range []string{
		"PRAGMA synchronous = OFF", "PRAGMA foreign_keys = OFF", "PRAGMA cache_size = -400000",
		"DROP TRIGGER job_state_insert",
		"CREATE TABLE c (n INTEGER PRIMARY KEY, id BLOB)",
	} {
		_, err := db.Exec(text)
		must(b, err)
	}
	for i, id := range f.Connections {
		_, err := db.Exec("INSERT INTO c VALUES (?, ?)", i, id[:])
		must(b, err)
	}
	const part = 250_000
	for from := 0; from < n; from += part {
		gen := fmt.Sprintf("WITH RECURSIVE g (i) AS (SELECT %d UNION ALL SELECT i + 1 FROM g WHERE i + 1 < %d) ", from, min(n, from+part))
		at := fmt.Sprintf("(%d - (%d - i) * %d)", now, n, step)
		id := "unhex(printf('%032x', i + 1))"
		// One in 1,000 waits for a person, one in 20 has failed, and one in 10 of the rest has a named effect.
		state := "(CASE WHEN i % 1000 = 0 THEN 7 WHEN i % 20 = 1 THEN 9 ELSE 8 END)"
		for _, text := range []string{
			`INSERT INTO jobs (id, project, idem_key, connection_id, hold_key, payload_kind, start_window, max_attempts, min_backoff,
				max_backoff, attempt_timeout, policy, labels, time_zone, fingerprint, created_at, payload)
			SELECT ` + id + `, 'default', 'shop-' || (i % 1000) || ':order-' || i, c.id, '', 'webhook', 0, 0, 0, 0, 0, 1, '{}', '', x'', ` + at + `, x'00'
			FROM g JOIN c ON c.n = g.i % 50`,
			`INSERT INTO job_state (job_id, project, connection_id, hold_key, state, listed, version, schedule_time, start_deadline, class,
				error_kind, created_at, updated_at, ended_at)
			SELECT ` + id + `, 'default', c.id, '', ` + state + `, ` + state + `, 4, ` + at + `, ` + at + `, 1,
				CASE WHEN i % 20 = 1 THEN 2 ELSE 0 END, ` + at + `, ` + at + `, CASE WHEN i % 1000 = 0 THEN NULL ELSE ` + at + ` END
			FROM g JOIN c ON c.n = g.i % 50`,
			`INSERT INTO effects (job_id, account, namespace, external_id, external_url, attempt, round, proof, at)
			SELECT ` + id + `, 'a', 'n', 'object-' || i, '', 1, 1, 1, ` + at + ` FROM g WHERE i % 10 = 0 AND i % 1000 <> 0`,
			`INSERT INTO job_recipients (job_id, project, recipient)
			SELECT ` + id + `, 'default', 'user-' || (i % 100000) || '@example.com' FROM g WHERE i % 10 = 0`,
		} {
			_, err := db.Exec(gen + text)
			must(b, err)
		}
	}
	for _, conn := range append([]job.ID{{}}, f.Connections...) {
		for h := range 745 {
			_, err := db.Exec(`INSERT INTO rollups (project, connection_id, width, start_at, connector, class, measure, bin, count)
				SELECT 'default', ?, 2, ?, 'fake', 1, m.value, CASE WHEN m.key < 20 THEN m.key + 20 ELSE -1 END, 7
				FROM json_each('[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,1,3,18,19]') AS m`,
				conn[:], store.Hour.Start(f.Now.Add(-time.Duration(h)*time.Hour)).UnixMicro())
			must(b, err)
		}
	}
	must(b, db.Close())
	b.Logf("%d jobs were written in %v", n, time.Since(begun).Round(time.Second))
	storetest.BenchmarkSearch(b, mustOpen(b, Options{Path: path}), f)
}
