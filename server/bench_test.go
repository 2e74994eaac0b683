package server_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server/wire"
)

// BenchmarkScheduleJob stores jobs from 64 concurrent clients, each answer durable.
func BenchmarkScheduleJob(b *testing.B) {
	for name, dial := range protocols {
		b.Run(name, func(b *testing.B) {
			f := start(b)
			c := dial(f)
			var n atomic.Int64
			b.SetParallelism(64)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r := f.request(strconv.FormatInt(n.Add(1), 10))
					if err := c.call(b.Context(), scheduleJob, r, &fireoncev1.ScheduleJobResponse{}); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkRepeat asks for one job again and again.
func BenchmarkRepeat(b *testing.B) {
	f := start(b)
	c := overGRPC(f)
	r := f.request("k")
	f.schedule(r)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.call(b.Context(), scheduleJob, r, &fireoncev1.ScheduleJobResponse{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCanonical(b *testing.B) {
	p := custom("good/v1", "a payload of a usual size, such as a short text with a few words")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Canonical(p.ProtoReflect()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkListJobEvents reads pages of the log: many events of other jobs each, and the newest
// one alone, as a stream at the log's end does.
func BenchmarkListJobEvents(b *testing.B) {
	f := start(b)
	c := overGRPC(f)
	const stored = 500
	for i := range stored {
		f.schedule(f.request(strconv.Itoa(i)))
	}
	last, err := ask[fireoncev1.ListJobEventsResponse](b, c, jobsPath+"ListJobEvents", &fireoncev1.ListJobEventsRequest{PageSize: stored - 1})
	f.must(err)
	for _, tt := range []struct {
		name string
		req  *fireoncev1.ListJobEventsRequest
	}{
		{"events=100", &fireoncev1.ListJobEventsRequest{PageSize: 100}},
		{"events=1", &fireoncev1.ListJobEventsRequest{PageSize: 1, AfterCursor: last.GetNextCursor()}},
		{"events=100/jobs", &fireoncev1.ListJobEventsRequest{PageSize: 100, IncludeJob: true}},
	} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.call(b.Context(), jobsPath+"ListJobEvents", tt.req, &fireoncev1.ListJobEventsResponse{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
