package server_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// accepting is a store that takes every new job and keeps none: what is left of
// a call is the cost of the API.
type accepting struct{ server.Store }

func (accepting) Create(_ context.Context, items []store.NewJob) ([]store.Created, error) {
	out := make([]store.Created, len(items))
	for i, n := range items {
		out[i] = store.Created{Created: true, Snapshot: job.Snapshot{Job: job.Job{
			Spec: n.Spec, Status: job.Status{State: job.Scheduled, Version: 1, ScheduleTime: n.ScheduleTime, Class: n.Class},
		}}}
	}
	return out, nil
}

// BenchmarkSubmit is a call of ScheduleJob by one of 64 callers, client and
// server in one process. cpu-us/op is the processor time of both.
func BenchmarkSubmit(b *testing.B) {
	const callers = 64
	for _, way := range []string{"native", "grpc-go"} {
		b.Run(way, func(b *testing.B) {
			f := start(b, func(c *server.Config) { c.Store, c.Log = accepting{c.Store}, nil })
			c := protocols[way](f)
			var next atomic.Int64
			each(b, callers, func() error {
				n := next.Add(1)
				return c.call(b.Context(), scheduleJob, f.request(strconv.FormatInt(n, 10), func(r *scheduleRequest) {
					r.ScheduleTime = timestamppb.New(f.clock.Now().Add(time.Hour))
				}), &fireoncev1.ScheduleJobResponse{})
			})
		})
	}
}

// BenchmarkSubmitBatch is a call of BatchScheduleJobs with 500 jobs.
func BenchmarkSubmitBatch(b *testing.B) {
	const callers, size = 4, 500
	for _, way := range []string{"native", "grpc-go"} {
		b.Run(way, func(b *testing.B) {
			f := start(b, func(c *server.Config) { c.Store, c.Log = accepting{c.Store}, nil })
			c := protocols[way](f)
			each(b, callers, func() error {
				req := &fireoncev1.BatchScheduleJobsRequest{}
				for i := range size {
					req.Requests = append(req.Requests, f.request(fmt.Sprint(i)))
				}
				return c.call(b.Context(), jobsPath+"BatchScheduleJobs", req, &fireoncev1.BatchScheduleJobsResponse{})
			})
		})
	}
}

// each shares b.N calls among callers and reports the processor time of one.
func each(b *testing.B, callers int, call func() error) {
	b.Helper()
	b.ReportAllocs()
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	b.ResetTimer()
	begun := cpu(b)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range work {
				if err := call(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64((cpu(b)-begun).Microseconds())/float64(b.N), "cpu-us/op")
}

// cpu is the processor time of this process so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
