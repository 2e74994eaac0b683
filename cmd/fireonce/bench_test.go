package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// BenchmarkPostNow measures a job without a time from the call of ScheduleJob
// to the arrival of its request at the receiver, one after the other: the
// submit's commit, the wake-up, the claim, the dial, the arm, the send.
func BenchmarkPostNow(b *testing.B) {
	for name, dedupes := range map[string]bool{"keyed": true, "opaque": false} {
		for _, d := range deployments {
			b.Run(d.name+"/"+name, func(b *testing.B) {
				arrived := make(chan time.Time, 1)
				r, err := receiver.Start(receiver.Options{Dedupes: dedupes, Plan: func(receiver.Request) receiver.Answer {
					arrived <- time.Now()
					return receiver.Reply
				}})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { r.Close() })
				api := dial(b, startNode(b, d, 0).URL())
				connection := connect(b, api, dedupes)
				var acked, took []time.Duration
				b.ResetTimer()
				for i := range b.N {
					subject := fmt.Sprint(i)
					req := hook(connection, subject, r.URL(subject), time.Second)
					begun := time.Now()
					if _, err := api.Jobs.ScheduleJob(b.Context(), req); err != nil {
						b.Fatal(err)
					}
					acked = append(acked, time.Since(begun))
					took = append(took, (<-arrived).Sub(begun))
				}
				b.StopTimer()
				b.ReportMetric(quantile(acked, 0.5), "p50-ack-ms")
				b.ReportMetric(quantile(took, 0.5), "p50-arrival-ms")
				b.ReportMetric(quantile(took, 0.99), "p99-arrival-ms")
			})
		}
	}
}

func quantile(d []time.Duration, q float64) float64 {
	slices.Sort(d)
	return d[int(q*float64(len(d)-1))].Seconds() * 1000
}
