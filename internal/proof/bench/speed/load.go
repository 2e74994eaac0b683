//go:build unix

package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/stats"
)

// concurrently does the pieces 0 to n-1, so many concurrently, and stops at the first
// error.
func concurrently(ctx context.Context, atOnce, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(atOnce, n) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// batches does jobs 0 to n-1 in pieces of a size, so many pieces concurrently.
func batches(ctx context.Context, atOnce, n, size int, do func(ctx context.Context, from, to int) error) error {
	return concurrently(ctx, atOnce, (n+size-1)/size, func(ctx context.Context, i int) error {
		return do(ctx, i*size, min(n, (i+1)*size))
	})
}

// rate measures the submission of the task's jobs, one by one.
func (t task) rate(ctx context.Context, server int, submit func(ctx context.Context, i int) error) (sample, error) {
	m := t.start(ctx, server)
	err := concurrently(ctx, t.Callers, t.Jobs, submit)
	return m.stop(ctx, t.Jobs), err
}

// bulk measures the submission of the task's jobs in batches.
func (t task) bulk(ctx context.Context, server int, submit func(ctx context.Context, from, to int) error) (sample, error) {
	m := t.start(ctx, server)
	err := batches(ctx, t.Loaders, t.Jobs, t.Batch, submit)
	return m.stop(ctx, t.Jobs), err
}

// warmUp is how many jobs an idle system gets before it is measured.
const warmUp = 20

// now submits the task's jobs to an idle system, one after the other, each with
// the time of its call. The receiver knows when they arrive.
func (t task) now(ctx context.Context, submit func(ctx context.Context, body []byte, n int) error) (sample, error) {
	calls := make([]float64, 0, t.Jobs)
	for n := -warmUp; n < t.Jobs; n++ {
		begin := time.Now()
		if err := submit(ctx, receiver.Payload(n, begin), n); err != nil {
			return nil, err
		}
		took := time.Since(begin)
		if n >= 0 {
			calls = append(calls, milliseconds(took))
		}
		if !nap(ctx, t.Gap) {
			return nil, ctx.Err()
		}
	}
	return sample{"call_p50_ms": stats.Quantile(calls, 0.5)}, t.run().Await(ctx, t.Jobs)
}

// herd submits the task's jobs in batches, all due at one instant, and waits
// until all have arrived.
func (t task) herd(ctx context.Context, submit func(ctx context.Context, due time.Time, from, to int) error) (sample, error) {
	due := time.Now().Add(t.Ahead).Truncate(time.Microsecond)
	err := batches(ctx, t.Loaders, t.Jobs, t.Batch, func(ctx context.Context, from, to int) error {
		return submit(ctx, due, from, to)
	})
	if err != nil {
		return nil, err
	}
	if late := time.Since(due); late > 0 {
		return nil, fmt.Errorf("the jobs were submitted %v after they were due: give the herd more time ahead", late)
	}
	return sample{"submitted_ahead_ms": milliseconds(time.Until(due))}, t.run().Await(ctx, t.Jobs)
}

// nap waits; false: ctx has ended.
func nap(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func median(values []float64) float64 { return stats.Of(values).Median }
