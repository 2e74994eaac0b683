package manyjobs

import (
	"database/sql"
	"fmt"
	"testing"

	_ "modernc.org/sqlite" // the driver

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
)

// SQLite writes the jobs of a fixture to a file that nothing else has open. Indexes are made at the
// end: that takes a part of the time.
func SQLite(b testing.TB, path string, f storetest.SearchFixture) {
	b.Helper()
	db, err := sql.Open("sqlite", path)
	must(b, err)
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	exec := func(text string, args ...any) {
		b.Helper()
		if _, err := db.ExecContext(b.Context(), text, args...); err != nil {
			b.Fatalf("%s: %v", text, err)
		}
	}
	// The triggers would have each job begin as SCHEDULED.
	later := objects(b, db, `SELECT name, type, sql FROM sqlite_schema
		WHERE tbl_name IN ('jobs', 'job_state', 'effects', 'job_recipients') AND type IN ('index', 'trigger') AND sql IS NOT NULL`)
	for _, text := range []string{
		"PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "PRAGMA foreign_keys = OFF", "PRAGMA cache_size = -1000000", "PRAGMA threads = 2",
		"CREATE TEMP TABLE c (n INTEGER PRIMARY KEY, id BLOB)",
	} {
		exec(text)
	}
	for _, o := range later {
		exec("DROP " + o.kind + " " + o.name)
	}
	for i, id := range f.Connections {
		exec("INSERT INTO c VALUES (?, ?)", i, id[:])
	}
	r, now := storetest.SearchRow, f.Now.UnixMicro()
	const part = 1_000_000
	for from := 0; from < f.Jobs; from += part {
		gen := fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i + 1 < %d),
			g AS (SELECT i, unhex(printf('%%032x', i + 1)) AS id, %d - (%d - i) * %d AS at, %s AS state FROM n) `,
			from, min(f.Jobs, from+part), now, f.Jobs, storetest.Span.Microseconds()/int64(f.Jobs), f.State())
		// A job is created up to an hour before its time, and ends up to ten minutes after it.
		const created, ended = "at - i % 3600 * 1000000", "at + i % 600 * 1000000"
		due := fmt.Sprintf("(CASE WHEN state IN (1, 6) THEN %d + i %% 86400 * 1000000 ELSE at END)", now)
		for _, text := range []string{
			`INSERT INTO jobs (id, project, idem_key, connection_id, hold_key, payload_kind, start_window, retry, attempt_timeout,
				cool_down, skip_if_present, delivery, own_effect_key, labels, time_zone, fingerprint, created_at, payload)
			SELECT g.id, 'default', ` + r.Key + `, c.id, '', 'webhook', 0, '', 0, 0, 0, 1, '', ` + r.Labels + `, '', x'', ` + created + `, zeroblob(64)
			FROM g JOIN c ON c.n = ` + r.Conn,
			`INSERT INTO job_state (job_id, project, connection_id, hold_key, state, listed, version, schedule_time, unasked, start_deadline, next_at,
				class, predecessor_end, wait_window, error_kind, created_at, updated_at, ended_at, state_since, history)
			SELECT g.id, 'default', c.id, '', state, state, 4, ` + due + `, 0, ` + due + `, CASE WHEN state < 7 THEN ` + due + ` END,
				` + r.Class + `, 0, 0, ` + r.ErrorKind + `, ` + created + `, ` + ended + `, CASE WHEN state > 7 THEN ` + ended + ` END, ` + ended + `, zeroblob(80)
			FROM g JOIN c ON c.n = ` + r.Conn,
			`INSERT INTO effects (job_id, account, namespace, external_id, external_url, attempt, round, proof, at)
			SELECT id, 'a', 'n', ` + r.External + `, '', 1, 1, 1, ` + ended + ` FROM g WHERE state = 8 AND ` + r.External + ` IS NOT NULL`,
			`INSERT INTO job_recipients (job_id, project, recipient)
			SELECT id, 'default', ` + r.Recipient + ` FROM g WHERE ` + r.Recipient + ` IS NOT NULL`,
		} {
			exec(gen + text)
		}
	}
	for _, o := range later {
		exec(o.sql)
	}
	for _, conn := range append([]job.ID{{}}, f.Connections...) {
		exec(`WITH RECURSIVE h (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM h WHERE n < 744)
			INSERT INTO rollups (project, connection_id, width, start_at, connector, class, measure, bin, count)
			SELECT 'default', ?, 2, ? - h.n * 3600000000, 'fake', 1, m.value, CASE WHEN m.key < 20 THEN m.key + 20 ELSE -1 END, 7
			FROM h JOIN json_each('[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,1,3,18,19]') AS m`,
			conn[:], store.Hour.Start(f.Now).UnixMicro())
	}
	exec("PRAGMA journal_mode = WAL")
}

type object struct{ name, kind, sql string }

func objects(b testing.TB, db *sql.DB, text string) (list []object) {
	b.Helper()
	rows, err := db.QueryContext(b.Context(), text)
	must(b, err)
	defer rows.Close()
	for rows.Next() {
		var o object
		must(b, rows.Scan(&o.name, &o.kind, &o.sql))
		list = append(list, o)
	}
	must(b, rows.Err())
	return list
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
