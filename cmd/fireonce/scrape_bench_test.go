//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/metrics"
	"github.com/fireonce/fireonce/store"
)

// scrapeEvery is the time between two scrapes, and scrapeJobs the number of open jobs.
const (
	scrapeEvery = 5 * time.Second
	scrapeJobs  = 100_000
)

// BenchmarkScrape measures GET /metrics with 100,000 open jobs, a tenth of them due, first while
// others are being submitted and then alone. Each scrape measures the database again; a server
// does so less often the longer a measurement takes. The share of one processor at a scrape
// every 5 s is computed on SQLite from the CPU time of this process, which does all the work,
// and on PostgreSQL from the whole time of a scrape, which includes the database's work.
func BenchmarkScrape(b *testing.B) {
	for _, d := range deployments {
		b.Run(d.name, func(b *testing.B) {
			s := openStore(b, d.database(b))
			b.Cleanup(func() { s.Close() })
			conns := make([]store.Connection, 100)
			for i := range conns {
				var err error
				conns[i], _, err = s.CreateConnection(b.Context(), store.NewConnection{Key: fmt.Sprint(i), Connection: store.Connection{
					ID: job.ID(uuid.Must(uuid.NewV7())), Project: "default", Connector: "webhook", Class: job.Keyed, KeyWindow: 24 * time.Hour,
				}})
				if err != nil {
					b.Fatal(err)
				}
			}
			n := 0
			create := func(ctx context.Context, due bool) error {
				jobs := make([]store.NewJob, store.MaxBatch)
				for i := range jobs {
					n++
					id := job.ID(uuid.Must(uuid.NewV7()))
					jobs[i] = store.NewJob{Actor: "bench", Spec: job.Spec{
						ID: id, Project: "default", Key: id.String(), Connection: conns[n%len(conns)].ID, HoldKey: fmt.Sprint(n % 1000),
						PayloadKind: "webhook", Payload: []byte("payload"), StartWindow: time.Hour, Delivery: job.OnceOrAsk,
					}}
					if !due {
						jobs[i].ScheduleTime = time.Now().Add(24 * time.Hour)
					}
				}
				_, err := s.Create(ctx, jobs)
				return err
			}
			for i := range scrapeJobs / store.MaxBatch {
				if err := create(b.Context(), i%10 == 0); err != nil {
					b.Fatal(err)
				}
			}
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for ctx.Err() == nil && create(ctx, false) == nil {
					select {
					case <-time.After(250 * time.Millisecond): // 2,000 a second
					case <-ctx.Done():
					}
				}
			}()
			scrapes := func() (took, cpu time.Duration) {
				for range b.N {
					m := metrics.New("bench", "bench")
					m.Watch(s)
					answer := httptest.NewRecorder()
					begun, used := time.Now(), processorTime(b)
					m.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
					took, cpu = took+time.Since(begun), cpu+processorTime(b)-used
					if !strings.Contains(answer.Body.String(), "fireonce_due_jobs 10000") {
						b.Fatal(answer.Body.String())
					}
				}
				return took / time.Duration(b.N), cpu / time.Duration(b.N)
			}
			loaded, _ := scrapes()
			stop()
			<-ended
			alone, cpu := scrapes()
			b.ReportMetric(loaded.Seconds()*1000, "ms-under-load")
			b.ReportMetric(alone.Seconds()*1000, "ms-alone")
			b.ReportMetric(cpu.Seconds()*1000, "cpu-ms")
			share := alone
			if d == onSQLite {
				share = cpu
			}
			b.ReportMetric(100*share.Seconds()/scrapeEvery.Seconds(), "%-of-a-processor")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// processorTime returns the CPU time that this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
