package manyjobs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
)

// database writes the jobs of a fixture.
type database struct {
	testing.TB
	url string
}

// exec runs statements in a session that checks no reference and fires no trigger: jobs
// are born as they have ended.
func (d *database) exec(statements ...string) {
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
func (d *database) share(statements []string) {
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

// PostgreSQL writes the jobs of a fixture, as a superuser. Indexes are made at the end: that takes a part
// of the time.
func PostgreSQL(tb testing.TB, url string, f storetest.SearchFixture) {
	tb.Helper()
	d := &database{TB: tb, url: url}
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
		f.Jobs, storetest.Span.Microseconds()/int64(f.Jobs), f.State(), r.Conn, f.Now.UTC().Format("2006-01-02T15:04:05.000000Z"),
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

func (d *database) lists(text string) (a, b []string) {
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
