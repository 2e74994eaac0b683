//go:build unix

package sqlite

import (
	"syscall"
	"testing"
	"time"
)

// cpuTime is the processor time that this process has used. Per job it is a
// steadier measure than throughput on a machine that does other things, too.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// reportJobs reports what a job of the timed part took; begun is the processor
// time at its start.
func reportJobs(b *testing.B, begun time.Duration) {
	b.Helper()
	used := cpuTime(b) - begun
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-µs/job")
}
