//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/usage"
)

// burstPace is how many jobs a second are certain to be submitted ahead of a burst.
const burstPace = 8000

// networkBurst submits the task's jobs in batches, all due at one instant, and waits until
// all have arrived, sent by so many servers that share the database.
func networkBurst(servers int) func(ctx context.Context, t task) (sample, error) {
	return func(ctx context.Context, t task) (_ sample, err error) {
		s, err := serve(ctx, t, callLines)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.close()) }()
		fleet := []*served{s}
		for n := 2; n <= servers; n++ {
			more, err := start(ctx, t, 1, fmt.Sprintf("serve-%d.log", n))
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, more.close()) }()
			fleet = append(fleet, more)
		}
		return t.burst(ctx, fleet)
	}
}

func (t task) burst(ctx context.Context, fleet []*served) (sample, error) {
	ahead := max(t.Ahead, time.Duration(t.Jobs)*time.Second/burstPace)
	due := time.Now().Add(ahead).Truncate(time.Microsecond)
	err := batches(ctx, t.Loaders, t.Jobs, t.Batch, func(ctx context.Context, from, to int) error {
		return fleet[0].many(ctx, due, from, to)
	})
	if err != nil {
		return nil, err
	}
	left := time.Until(due)
	if left < 0 {
		return nil, fmt.Errorf("the jobs were submitted %v after they were due", -left)
	}
	if !nap(ctx, left) {
		return nil, ctx.Err()
	}
	pg := usage.Postgres(t.data())
	var used time.Duration
	for _, s := range fleet {
		used -= usage.Process(s.process.PID())
	}
	most, err := highest(ctx, fleet, func(ctx context.Context) error { return t.run().Await(ctx, t.Jobs) })
	if err != nil {
		return nil, err
	}
	for _, s := range fleet {
		used += usage.Process(s.process.PID())
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(t.Jobs) }
	return sample{
		"submitted_ahead_ms": milliseconds(left), "server_mb": most, "server_us": each(used), "pg_us": each(usage.Postgres(t.data()) - pg),
	}, nil
}

// highest returns the most resident memory, in megabytes, that the servers had together while
// something was done.
func highest(ctx context.Context, fleet []*served, do func(context.Context) error) (float64, error) {
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	var most int64
	for {
		var now int64
		for _, s := range fleet {
			resident, _ := usage.Memory(s.process.PID())
			now += resident
		}
		most = max(most, now)
		select {
		case err := <-done:
			return float64(most) / megabyte, err
		case <-time.After(sampleEvery):
		}
	}
}
