//go:build unix

package sqlite

import (
	"flag"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
)

var openJobs = flag.Int("step.jobs", 20_000, "open jobs that BenchmarkClockStep fills the file with")

// fillOpen writes jobs that wait for their second attempt, each with its first one: a step
// writes to both rows of each.
var fillOpen = []string{
	fillEnded[0], fillEnded[1], fillEnded[2], fillEnded[3],
	`INSERT INTO job_state (job_id, project, connection_id, hold_key, state, listed, version, attempt, schedule_time, start_deadline,
		next_at, class, predecessor_end, wait_window, updated_at, created_at)
	SELECT id, 'default', conn, 'account', 6, 6, 4, 1, at, at + 90000000000, at + 80000000000, 1, 0, 0, at, at FROM filled`,
	fillEnded[5],
}

// BenchmarkClockStep measures how long a step of the clock delays all other work.
func BenchmarkClockStep(b *testing.B) {
	path, clock := testPath(b), storetest.NewMachine(testStart)
	opts := Options{Path: path, Migrate: true, Clock: store.ClockOptions{Read: clock.Read}}
	s, err := Open(b.Context(), opts)
	must(b, err)
	conn := mustConnect(b, s)
	must(b, s.Close())
	db := raw(b, path)
	for i, text := range fillOpen {
		if i == 0 {
			sqlExec(b, db, text, *openJobs, testStart.Add(-time.Hour).UnixMicro(), conn.ID[:])
			continue
		}
		sqlExec(b, db, text)
	}
	must(b, db.Close())
	s, err = Open(b.Context(), opts)
	must(b, err)
	defer s.Close()
	clock.Prove("the benchmark knows it")
	off := time.Duration(0)
	for b.Loop() {
		off += time.Minute
		clock.Set(off)
		_, err := s.ClaimLooks(b.Context(), store.ClaimParams{Worker: "nobody", Lease: time.Minute, Limit: 1})
		must(b, err)
	}
	var moved int
	must(b, raw(b, path).QueryRow("SELECT count(*) FROM job_state WHERE state = ?1 AND next_at > ?2",
		int(job.Retrying), testStart.Add(-time.Hour).UnixMicro()+80_000_000_000+int64(*openJobs)).Scan(&moved))
	if moved < *openJobs/2 && off >= time.Minute {
		b.Errorf("%d of %d waits were moved", moved, *openJobs)
	}
	b.ReportMetric(float64(b.Elapsed().Seconds())/float64(b.N), "s/step")
}
