//go:build unix

package postgres

import (
	"context"
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/store"
)

var retainJobs = flag.Int("retain.jobs", 50_000, "ended jobs that BenchmarkRetain fills the tables with")

// fillEnded writes jobs that ended 40 days ago, with one attempt, an effect without a
// name and four events each, as the work leaves them.
const fillEnded = `
CREATE TEMP TABLE filled ON COMMIT DROP AS
SELECT i, gen_random_uuid() AS id, now() - interval '40 days' + i * interval '100 microseconds' AS at
FROM generate_series($1::bigint, $2::bigint) AS i;
`

var fillTables = []string{
	`INSERT INTO jobs (id, project, idem_key, connection_id, payload_kind, max_attempts, min_backoff, max_backoff, attempt_timeout, policy,
		labels, time_zone, fingerprint, created_at, payload)
	SELECT id, 'default', 'old-' || i, $1, 'webhook', 0, 0, 0, 0, 1, '{}', '', '\x01', at, decode(repeat('61', 600), 'hex') FROM filled`,
	`INSERT INTO job_keys (digest, job_id) SELECT sha256(int4send(26) || 'fireonce idempotency key 1' || int4send(7) || 'default' || int4send(octet_length('old-' || i)) || convert_to('old-' || i, 'UTF8')), id FROM filled WHERE $1::uuid IS NOT NULL`,
	`INSERT INTO job_state (job_id, project, connection_id, hold_key, state, version, position, attempt, schedule_time,
		unasked, start_window, start_deadline, worker, class, effect_attempt, effect_round, effect_at, updated_at, ended_at, state_since, history,
		armed_round, arm_token, armed_by, attempt_claimed_at, armed_at, send_deadline, answer_deadline, fence_at, effect_key, request_digest,
		credential_version, account_identity, watermark, handle, result, failure_kind, message, http_status, bytes_written,
		attempt_ended_at, frozen, round_armed_at, first_armed_at)
	SELECT id, 'default', $1, 'account', 8, 4, 4 * i, 1, at, false, 0, at + interval '2 hours', 'w', 1, 1, 1, at, at, at, at,
		decode('01' || repeat('61', 160), 'hex'), 1, gen_random_uuid(), 'w', at, at, at, at, at, id::text, '\x01', 1, '', '', '', 1, 0, '', 200, 0,
		at, decode(repeat('61', 600), 'hex'), at, at FROM filled`,
	// A page for a batch of 32 jobs.
	`INSERT INTO event_pages (position, first, project, at, events, body)
	SELECT 4 * max(i), 4 * min(i), 'default', max(at), 4 * count(*), decode(repeat('61', 2500), 'hex')
	FROM filled WHERE $1::uuid IS NOT NULL GROUP BY i / 32 ORDER BY 1`,
}

func fill(b *testing.B, f *fleet, conn store.Connection, n int) {
	b.Helper()
	c, err := pgx.Connect(b.Context(), f.url)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	const part = 20_000
	for from := 1; from <= n; from += part {
		err := pgx.BeginFunc(b.Context(), c, func(tx pgx.Tx) error {
			// What is filled in has no past that the trigger would accept.
			if _, err := tx.Exec(b.Context(), "ALTER TABLE job_state DISABLE TRIGGER job_state_insert"); err != nil {
				return err
			}
			if _, err := tx.Exec(b.Context(), fillEnded, from, min(n, from+part-1)); err != nil {
				return err
			}
			for _, text := range fillTables {
				if _, err := tx.Exec(b.Context(), text, conn.ID); err != nil {
					return err
				}
			}
			_, err := tx.Exec(b.Context(), "ALTER TABLE job_state ENABLE TRIGGER job_state_insert")
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if _, err := c.Exec(b.Context(), "VACUUM ANALYZE"); err != nil {
		b.Fatal(err)
	}
}

// loadOf submits from a few callers, each again once it is answered, and claims a part of it,
// until end is closed. It returns the times of the calls.
func loadOf(b *testing.B, s *Store, conn store.Connection, end <-chan struct{}) (submits, claims []time.Duration) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	run := func(times *[]time.Duration, call func() error) {
		for {
			select {
			case <-end:
				return
			default:
			}
			begun := time.Now()
			if err := call(); err != nil {
				b.Error(err)
				return
			}
			mu.Lock()
			*times = append(*times, time.Since(begun))
			mu.Unlock()
		}
	}
	for range 8 {
		wg.Go(func() {
			run(&submits, func() error {
				out, err := s.Create(context.Background(), []store.NewJob{newSpec(conn)})
				if err == nil {
					err = out[0].Err
				}
				return err
			})
		})
	}
	wg.Go(func() {
		run(&claims, func() error {
			_, err := s.Claim(context.Background(), store.ClaimParams{Worker: "w", Lease: time.Hour, Limit: 10})
			return err
		})
	})
	wg.Wait()
	return submits, claims
}

func rankOf(times []time.Duration, percent int) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return float64(times[(len(times)*percent+99)/100-1].Microseconds())
}

// BenchmarkRetain removes ended jobs in the way that servers do, with pauses of three
// times what a step took, and shows what that costs the submits and claims beside
// it: they run alone and beside the removal in turns of the same length.
func BenchmarkRetain(b *testing.B) {
	const turn = time.Second
	f := benchFleet(b)
	conn, s := f.connect(), f.stores[0]
	fill(b, f, conn, *retainJobs)
	p := keeping
	p.Limit = store.MaxBatch
	var steps, subAlone, subBeside, claimAlone, claimBeside []time.Duration
	var removed int
	var worked, beside time.Duration
	b.ResetTimer()
	for done := false; !done; {
		for _, cleaning := range []bool{false, true} {
			end := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				defer close(end)
				begun := time.Now()
				for cleaning && !done && time.Since(begun) < turn {
					step := time.Now()
					r, err := s.Retain(context.Background(), p)
					if err != nil {
						b.Error(err)
						done = true
						return
					}
					took := time.Since(step)
					removed, worked, steps = removed+r.Jobs, worked+took, append(steps, took)
					p.After, done = r.Next, r.Done
					time.Sleep(3 * took)
				}
				if cleaning {
					beside += time.Since(begun)
				} else {
					time.Sleep(turn)
				}
			})
			submits, claims := loadOf(b, s, conn, end)
			wg.Wait()
			if cleaning {
				subBeside, claimBeside = append(subBeside, submits...), append(claimBeside, claims...)
			} else {
				subAlone, claimAlone = append(subAlone, submits...), append(claimAlone, claims...)
			}
		}
	}
	b.ReportMetric(float64(removed), "jobs")
	b.ReportMetric(float64(removed)/worked.Seconds(), "jobs/s-working")
	b.ReportMetric(float64(removed)/beside.Seconds(), "jobs/s-with-pauses")
	b.ReportMetric(rankOf(steps, 50), "step-p50-µs")
	b.ReportMetric(rankOf(steps, 99), "step-p99-µs")
	for name, times := range map[string][]time.Duration{
		"submit-alone": subAlone, "submit-beside": subBeside, "claim-alone": claimAlone, "claim-beside": claimBeside,
	} {
		b.ReportMetric(rankOf(times, 50), name+"-p50-µs")
		b.ReportMetric(rankOf(times, 99), name+"-p99-µs")
	}
}
