//go:build unix

package sqlite

import (
	"context"
	"database/sql/driver"
	"flag"
	"slices"
	"syscall"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var retainJobs = flag.Int("retain.jobs", 20_000, "ended jobs that BenchmarkRetain fills the file with")

func init() {
	sqlite.MustRegisterDeterministicScalarFunction("test_key_digest", 2, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
		return digestOf(job.Spec{Project: args[0].(string), Key: args[1].(string)}), nil
	})
}

// fillEnded writes jobs that ended at a time, with one attempt and an effect each, and
// pages of the log with the events of ten, as the work leaves them.
var fillEnded = []string{
	`CREATE TEMP TABLE filled AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		SELECT i, randomblob(16) AS id, ?2 + i AS at, ?3 AS conn FROM n`,
	`DROP TRIGGER job_state_insert`,
	`INSERT INTO jobs (id, project, idem_key, connection_id, hold_key, payload_kind, start_window, max_attempts, min_backoff,
		max_backoff, attempt_timeout, cool_down, skip_if_present, policy, own_effect_key, labels, time_zone, fingerprint, created_at, payload)
	SELECT id, 'default', 'old-' || i, conn, 'account', 'webhook', 0, 0, 0, 0, 0, 0, 0, 1, '', '{}', '', x'01', at, randomblob(600) FROM filled`,
	`INSERT INTO job_keys (digest, job_id) SELECT test_key_digest('default', 'old-' || i), id FROM filled`,
	`INSERT INTO job_state (job_id, project, connection_id, hold_key, state, listed, version, attempt, schedule_time, start_deadline,
		class, predecessor_end, wait_window, unasked, updated_at, ended_at, created_at, state_since, history,
		armed_round, arm_token, armed_by, armed_at, send_deadline, answer_deadline, fence_at, effect_key, request_digest, credential_version,
		account_identity, watermark, handle, result, kind, message, http_status, bytes_written, attempt_ended_at, frozen)
	SELECT id, 'default', conn, 'account', 8, 8, 4, 1, at, at, 1, 0, 0, 0, at, at, at, at, randomblob(80),
		1, randomblob(16), 'w', at, at, at, at, 'k', x'01', 1, '', '', '', 1, 0, '', 200, 100, at, randomblob(600) FROM filled`,
	`INSERT INTO effects (job_id, account, namespace, external_id, external_url, attempt, round, proof, at)
	SELECT id, 'account', 'fake', '', '', 1, 1, 1, at FROM filled`,
	`INSERT INTO event_pages (position, first, project, at, events, starts, body)
	SELECT 40 * i, 40 * i - 39, 'default', at, 40, randomblob(50), randomblob(800) FROM filled WHERE i % 10 = 0`,
}

// BenchmarkRetain removes ended jobs step by step, without pauses, and shows how
// long a step keeps the writer.
func BenchmarkRetain(b *testing.B) {
	path := testPath(b)
	s, err := Open(b.Context(), Options{Path: path, Migrate: true})
	must(b, err)
	conn := mustConnect(b, s)
	must(b, s.Close())
	db := raw(b, path)
	ended := time.Now().Add(-40 * 24 * time.Hour).UnixMicro()
	for i, text := range fillEnded {
		if i == 0 {
			sqlExec(b, db, text, *retainJobs, ended, conn.ID[:])
			continue
		}
		sqlExec(b, db, text)
	}
	must(b, db.Close())
	s, err = Open(b.Context(), Options{Path: path})
	must(b, err)
	defer s.Close()
	p := store.RetainParams{
		Keep:  store.Keep{Jobs: 10 * 24 * time.Hour, Events: 10 * 24 * time.Hour, Keys: 30 * 24 * time.Hour},
		Owner: job.ID{1}, Lease: time.Minute, Limit: store.MaxBatch,
	}
	var steps []time.Duration
	removed := 0
	before := cpu(b)
	b.ResetTimer()
	for done := false; !done; {
		begun := time.Now()
		r, err := s.Retain(context.Background(), p)
		must(b, err)
		steps = append(steps, time.Since(begun))
		removed, p.After, done = removed+r.Jobs, r.Next, r.Done
	}
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(removed), "cpu-µs/job")
	slices.Sort(steps)
	b.ReportMetric(float64(removed), "jobs")
	b.ReportMetric(float64(removed)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(float64(steps[len(steps)/2].Microseconds()), "step-p50-µs")
	b.ReportMetric(float64(steps[len(steps)*99/100].Microseconds()), "step-p99-µs")
}

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
