//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
)

const (
	// riverPool is how many connections River may open; more make it slower on two
	// cores, and fewer, too.
	riverPool = 40
	// riverCooldown and riverPoll are far below River's defaults of 100 ms and 1 s,
	// which would bound what it works and how soon.
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
)

// riverArgs are a job's arguments: the payload as it is.
type riverArgs struct{ json.RawMessage }

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return "post" }

// riverPoster is the handler.
type riverPoster struct {
	river.WorkerDefaults[riverArgs]
	poster *receiver.Poster
	done   atomic.Int64
}

// Work implements river.Worker.
func (w *riverPoster) Work(ctx context.Context, job *river.Job[riverArgs]) error {
	if err := w.poster.Post(ctx, job.EncodedArgs); err != nil {
		return err
	}
	w.done.Add(1)
	return nil
}

// riverQueue is River on a database of its own.
type riverQueue struct {
	task
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	worker *riverPoster
}

func openRiver(ctx context.Context, t task) (*riverQueue, error) {
	config, err := pgxpool.ParseConfig(t.Database)
	if err != nil {
		return nil, err
	}
	config.MaxConns = riverPool
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	q := &riverQueue{task: t, pool: pool, worker: &riverPoster{poster: t.run().Poster(t.Senders)}}
	if err := q.prepare(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return q, nil
}

func (q *riverQueue) prepare(ctx context.Context) error {
	driver := riverpgxv5.New(q.pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	handlers := river.NewWorkers()
	river.AddWorker(handlers, q.worker)
	q.client, err = river.NewClient(driver, &river.Config{
		Workers:       handlers,
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: q.RiverWorkers}},
		FetchCooldown: riverCooldown, FetchPollInterval: riverPoll,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	return err
}

// insert submits jobs in one call; at zero: due now.
func (q *riverQueue) insert(ctx context.Context, at time.Time, from, to int) error {
	params := make([]river.InsertManyParams, to-from)
	for i := range params {
		since := at
		if at.IsZero() {
			since = time.Now()
		}
		params[i].Args = riverArgs{receiver.Payload(from+i, since)}
		if !at.IsZero() {
			params[i].InsertOpts = &river.InsertOpts{ScheduledAt: at}
		}
	}
	_, err := q.client.InsertMany(ctx, params)
	return err
}

// count wants so many jobs in a state; empty: in any.
func (q *riverQueue) count(ctx context.Context, state string, want int) error {
	var n int
	err := q.pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE $1 = '' OR state::text = $1`, state).Scan(&n)
	if err == nil && n != want {
		err = fmt.Errorf("of %d jobs %d are there (%s)", want, n, state)
	}
	return err
}

func riverSubmit(ctx context.Context, t task) (sample, error) {
	q, err := openRiver(ctx, t)
	if err != nil {
		return nil, err
	}
	defer q.pool.Close()
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	s, err := t.rate(ctx, 0, func(ctx context.Context, i int) error {
		_, err := q.client.Insert(ctx, riverArgs{receiver.Payload(i, time.Now())}, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, q.count(ctx, "", t.Jobs)
}

func riverBatch(ctx context.Context, t task) (sample, error) {
	q, err := openRiver(ctx, t)
	if err != nil {
		return nil, err
	}
	defer q.pool.Close()
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	s, err := t.bulk(ctx, 0, func(ctx context.Context, from, to int) error {
		return q.insert(ctx, time.Time{}, from, to)
	})
	if err != nil {
		return nil, err
	}
	return s, q.count(ctx, "", t.Jobs)
}

func riverWork(ctx context.Context, t task) (sample, error) {
	q, err := openRiver(ctx, t)
	if err != nil {
		return nil, err
	}
	defer q.pool.Close()
	err = batches(ctx, t.Loaders, t.Jobs, t.Batch, func(ctx context.Context, from, to int) error {
		return q.insert(ctx, time.Time{}, from, to)
	})
	if err != nil {
		return nil, err
	}
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	m := t.start(ctx, 0)
	if err := q.client.Start(ctx); err != nil {
		return nil, err
	}
	defer q.client.Stop(context.WithoutCancel(ctx)) //nolint:errcheck // everything was done
	for q.worker.done.Load() < int64(t.Jobs) {
		if !nap(ctx, glance) {
			return nil, ctx.Err()
		}
	}
	// Done is what is also written down.
	for q.count(ctx, "completed", t.Jobs) != nil {
		if !nap(ctx, glance) {
			return nil, q.count(context.WithoutCancel(ctx), "completed", t.Jobs)
		}
	}
	return m.stop(ctx, t.Jobs), nil
}

func riverNow(ctx context.Context, t task) (sample, error) {
	q, err := openRiver(ctx, t)
	if err != nil {
		return nil, err
	}
	defer q.pool.Close()
	if err := q.client.Start(ctx); err != nil {
		return nil, err
	}
	defer q.client.Stop(context.WithoutCancel(ctx)) //nolint:errcheck // everything was done
	return t.now(ctx, func(ctx context.Context, body []byte, _ int) error {
		_, err := q.client.Insert(ctx, riverArgs{body}, nil)
		return err
	})
}

func riverHerd(ctx context.Context, t task) (sample, error) {
	q, err := openRiver(ctx, t)
	if err != nil {
		return nil, err
	}
	defer q.pool.Close()
	if err := q.client.Start(ctx); err != nil {
		return nil, err
	}
	defer q.client.Stop(context.WithoutCancel(ctx)) //nolint:errcheck // everything was done
	return t.herd(ctx, q.insert)
}
