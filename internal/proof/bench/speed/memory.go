//go:build unix

package main

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
)

const (
	// restFor is how long an idle server is left alone, sampleEvery how often its
	// memory is looked at.
	restFor     = 5 * time.Second
	sampleEvery = 20 * time.Millisecond
	megabyte    = 1e6
)

// networkMemory looks at the resident memory of a server with many pending jobs:
// while it is idle, and while the task's jobs are submitted and
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
	idle, err := highest(ctx, []*served{s}, func(ctx context.Context) error {
		if !nap(ctx, restFor) {
			return ctx.Err()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	load, err := highest(ctx, []*served{s}, func(ctx context.Context) error {
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
