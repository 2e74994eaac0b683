//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fireonce/fireonce/internal/proof/bench/internal/redis"
	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
)

const (
	asynqType  = "post"
	asynqQueue = "default"
	// asynqCheck is far below asynq's default of 1 s, which would bound how soon it
	// works.
	asynqCheck = 10 * time.Millisecond
	// asynqPool is how many connections asynq may open.
	asynqPool = 300
)

// asynqTasks is asynq on a Redis of its own, with an append-only file that Redis
// writes out every second: what it has confirmed in the last second may be lost.
type asynqTasks struct {
	task
	server *redis.Server
	client *asynq.Client
	at     asynq.RedisClientOpt
}

func openAsynq(ctx context.Context, t task) (*asynqTasks, error) {
	server, err := redis.Start(ctx, t.Redis, t.Dir)
	if err != nil {
		return nil, err
	}
	at := redis.At(server.Socket)
	at.PoolSize = asynqPool
	return &asynqTasks{task: t, server: server, at: at, client: asynq.NewClient(at)}, nil
}

func (a *asynqTasks) close() {
	_ = a.client.Close()
	_ = a.server.Close() // its folder is removed with the measurement's
}

func (a *asynqTasks) enqueue(ctx context.Context, body []byte) error {
	_, err := a.client.EnqueueContext(ctx, asynq.NewTask(asynqType, body))
	return err
}

func (a *asynqTasks) start() (*asynq.Server, error) {
	p := a.run().Poster(a.Senders)
	s := asynq.NewServer(a.at, asynq.Config{Concurrency: a.Senders, LogLevel: asynq.ErrorLevel, TaskCheckInterval: asynqCheck})
	return s, s.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error { return p.Post(ctx, t.Payload()) }))
}

// left is how many tasks are not done. asynq removes those that are.
func (a *asynqTasks) left() (int, error) {
	inspector := asynq.NewInspector(a.at)
	defer inspector.Close() //nolint:errcheck // it only reads
	info, err := inspector.GetQueueInfo(asynqQueue)
	if err != nil {
		return 0, err
	}
	return info.Size, nil
}

func asynqSubmit(ctx context.Context, t task) (sample, error) {
	a, err := openAsynq(ctx, t)
	if err != nil {
		return nil, err
	}
	defer a.close()
	s, err := t.rate(ctx, 0, func(ctx context.Context, i int) error { return a.enqueue(ctx, receiver.Payload(i, time.Now())) })
	if err != nil {
		return nil, err
	}
	if n, err := a.left(); err != nil || n != t.Jobs {
		return nil, fmt.Errorf("of %d jobs %d are there: %w", t.Jobs, n, err)
	}
	return s, nil
}

func asynqWork(ctx context.Context, t task) (sample, error) {
	a, err := openAsynq(ctx, t)
	if err != nil {
		return nil, err
	}
	defer a.close()
	err = concurrently(ctx, t.Callers, t.Jobs, func(ctx context.Context, i int) error {
		return a.enqueue(ctx, receiver.Payload(i, time.Now()))
	})
	if err != nil {
		return nil, err
	}
	m := t.start(ctx, 0)
	server, err := a.start()
	if err != nil {
		return nil, err
	}
	defer server.Shutdown()
	if err := t.run().Await(ctx, t.Jobs); err != nil {
		return nil, err
	}
	for {
		n, err := a.left()
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return m.stop(ctx, t.Jobs), nil
		}
		if !nap(ctx, glance) {
			return nil, ctx.Err()
		}
	}
}

func asynqNow(ctx context.Context, t task) (sample, error) {
	a, err := openAsynq(ctx, t)
	if err != nil {
		return nil, err
	}
	defer a.close()
	server, err := a.start()
	if err != nil {
		return nil, err
	}
	defer server.Shutdown()
	return t.now(ctx, func(ctx context.Context, body []byte, _ int) error { return a.enqueue(ctx, body) })
}
