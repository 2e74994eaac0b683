package main

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"github.com/fireonce/fireonce/internal/proof/bench/duplicates/internal/tally"
)

// rescueAfter is after how long River takes a running job for stuck: the least
// that it allows beside its own JobTimeout of a minute. Its default, an hour,
// would leave the jobs of killed workers unfinished when time is up.
const rescueAfter = time.Minute

// order is a job's arguments.
type order struct {
	Subject string `json:"subject"`
}

// Kind implements river.JobArgs.
func (order) Kind() string { return "order" }

// riverQueue is River on PostgreSQL with its defaults.
type riverQueue struct {
	*environment
	face, url string
	pool      *pgxpool.Pool
}

func newRiver(h *environment, face string) system { return &riverQueue{environment: h, face: face} }

func (q *riverQueue) prepare(ctx context.Context) error {
	var err error
	if q.url, err = q.database(ctx); err != nil {
		return err
	}
	if q.pool, err = pgxpool.New(ctx, q.url); err != nil {
		return err
	}
	driver := riverpgxv5.New(q.pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	client, err := river.NewClient(driver, &river.Config{})
	if err != nil {
		return err
	}
	jobs := make([]river.InsertManyParams, len(q.subjects))
	for i, s := range q.subjects {
		jobs[i].Args = order{Subject: s}
	}
	_, err = client.InsertMany(ctx, jobs)
	return err
}

func (q *riverQueue) command() *exec.Cmd { return worker("river", q.work(q.face, q.url)) }

func (q *riverQueue) ready(context.Context, string) error { return nil }

func (q *riverQueue) atRest(ctx context.Context) (n int, err error) {
	err = q.pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE finalized_at IS NOT NULL`).Scan(&n)
	return n, err
}

func (q *riverQueue) verdicts(ctx context.Context) (map[string]tally.Verdict, error) {
	rows, err := q.pool.Query(ctx, `SELECT args, state::text FROM river_job`)
	if err != nil {
		return nil, err
	}
	out := make(map[string]tally.Verdict)
	var args []byte
	var state string
	_, err = pgx.ForEachRow(rows, []any{&args, &state}, func() error {
		var o order
		if err := json.Unmarshal(args, &o); err != nil {
			return err
		}
		switch rivertype.JobState(state) {
		case rivertype.JobStateCompleted:
			out[o.Subject] = tally.Succeeded
		case rivertype.JobStateDiscarded, rivertype.JobStateCancelled:
			out[o.Subject] = tally.Failed
		default:
			out[o.Subject] = tally.Unfinished
		}
		return nil
	})
	return out, err
}

func (q *riverQueue) close() error {
	if q.pool != nil {
		q.pool.Close()
	}
	return nil
}

// riverWorker is the handler.
type riverWorker struct {
	river.WorkerDefaults[order]
	poster *poster
}

// Work implements river.Worker.
func (w *riverWorker) Work(ctx context.Context, job *river.Job[order]) error {
	return w.poster.post(ctx, job.Args.Subject)
}

func workRiver(ctx context.Context, w work, ready func()) error {
	pool, err := pgxpool.New(ctx, w.Store)
	if err != nil {
		return err
	}
	defer pool.Close()
	handlers := river.NewWorkers()
	river.AddWorker(handlers, &riverWorker{poster: newPoster(w)})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:               map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: w.Senders}},
		Workers:              handlers,
		RescueStuckJobsAfter: rescueAfter,
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	ready()
	<-client.Stopped()
	if ctx.Err() == nil {
		return errors.New("river stopped by itself")
	}
	return nil
}
