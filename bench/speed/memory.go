//go:build unix

package main

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/bench/speed/internal/receiver"
	"github.com/fireonce/fireonce/bench/speed/internal/usage"
)

const (
	// restFor is how long an idle server is left alone, sampleEvery how often its
	// memory is looked at.
	restFor     = 5 * time.Second
	sampleEvery = 20 * time.Millisecond
	megabyte    = 1e6
)

// networkMemory looks at the resident memory of a server with many pending jobs:
// while nobody wants anything of it, and while the task's jobs are submitted and
// worked.
func networkMemory(ctx context.Context, t task) (_ sample, err error) {
	h, err := openHall(ctx, t, "memory")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.drop()) }()
	if err := errors.Join(h.future(ctx, t.Pending), h.local.close()); err != nil {
		return nil, err
	}
	s, err := serve(ctx, h.task, callLines)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	idle, err := s.highest(ctx, func(ctx context.Context) error {
		if !nap(ctx, restFor) {
			return ctx.Err()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	load, err := s.highest(ctx, func(ctx context.Context) error {
		err := concurrently(ctx, t.Callers, t.Jobs, func(ctx context.Context, i int) error {
			return s.one(ctx, s.jobs(), i, receiver.Payload(i, time.Now()), time.Time{})
		})
		if err != nil {
			return err
		}
		return t.run().Await(ctx, t.Jobs)
	})
	return sample{"idle_mb": idle, "load_mb": load}, err
}

// highest gives the most resident memory, in megabytes, that the server had while
// something was done.
func (s *served) highest(ctx context.Context, do func(context.Context) error) (float64, error) {
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	var most int64
	for {
		now, _ := usage.Memory(s.process.Pid())
		most = max(most, now)
		select {
		case err := <-done:
			return float64(most) / megabyte, err
		case <-time.After(sampleEvery):
		}
	}
}
