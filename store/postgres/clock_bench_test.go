package postgres

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/storetest"
)

var openJobs = flag.Int("step.jobs", 20_000, "open jobs that BenchmarkClockStep fills the tables with")

// openFilled makes the filled-in jobs wait for their second attempt: a step writes to both
// rows of each.
var openFilled = []string{
	"ALTER TABLE job_state DISABLE TRIGGER USER",
	`UPDATE job_state SET state = 6, next_at = now() + interval '1 day', start_deadline = now() + interval '30 days',
		schedule_time = now(), effect_attempt = 0, effect_round = 0, effect_at = NULL, ended_at = NULL WHERE state = 8`,
	"ALTER TABLE job_state ENABLE TRIGGER USER",
	"VACUUM FULL ANALYZE job_state",
}

// BenchmarkClockStep measures how long a step of the clock delays all other work, and how
// much it writes.
func BenchmarkClockStep(b *testing.B) {
	clock := storetest.NewMachine(time.Now())
	f := newFleetApart(b, 1, func(o *Options) { o.Now, o.Clock = nil, store.ClockOptions{Read: clock.Read} })
	s := f.stores[0]
	fill(b, f, f.connect(), *openJobs)
	c, err := pgx.Connect(b.Context(), f.url)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	for _, text := range openFilled {
		if _, err := c.Exec(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
	written := func() (bytes int64) {
		f.sql("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn", nil, &bytes)
		return bytes
	}
	before, moved := written(), f.count("SELECT count(*) FROM job_state WHERE state = 6")
	if moved != *openJobs {
		b.Fatalf("%d open jobs", moved)
	}
	clock.Prove("the benchmark knows it")
	off := time.Duration(0)
	for b.Loop() {
		off += time.Minute
		clock.Set(off)
		if _, err := s.ClaimLooks(b.Context(), store.ClaimParams{Worker: "nobody", Lease: time.Minute, Limit: 1}); err != nil {
			b.Fatal(err)
		}
	}
	if n := f.count("SELECT clock_steps FROM meta"); n < b.N {
		b.Errorf("%d steps were written, of %d", n, b.N)
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/step")
	b.ReportMetric(float64(written()-before)/float64(b.N)/(1<<20), "MB-log/step")
}
