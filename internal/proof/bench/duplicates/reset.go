package main

import (
	"context"
	"errors"
	"os/exec"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fireonce/fireonce/internal/proof/bench/duplicates/internal/tally"
)

// A queue in one table, as it is often described: a worker claims a row with
// SKIP LOCKED and a time stamp, and a reaper releases rows whose claim is
// older than a TTL.
const (
	resetSchema = `CREATE TABLE orders (
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		subject text NOT NULL UNIQUE,
		status text NOT NULL DEFAULT 'pending',
		tries int NOT NULL DEFAULT 0,
		run_at timestamptz NOT NULL DEFAULT now(),
		claimed_at timestamptz)`
	resetClaim = `UPDATE orders SET status = 'processing', claimed_at = now(), tries = tries + 1
		WHERE id = (SELECT id FROM orders WHERE status = 'pending' AND run_at <= now()
			ORDER BY run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING id, subject, tries`
	resetDone  = `UPDATE orders SET status = 'done' WHERE id = $1`
	resetFail  = `UPDATE orders SET status = 'failed' WHERE id = $1`
	resetRetry = `UPDATE orders SET status = 'pending', run_at = now() + $2 * interval '1 second' WHERE id = $1`
	resetReap  = `UPDATE orders SET status = 'pending' WHERE status = 'processing' AND claimed_at < now() - $1 * interval '1 second'`

	// claimTTL is far above the timeout of a request: no claim that lives is reset.
	claimTTL   = 30 * time.Second
	reapEvery  = 5 * time.Second
	resetIdle  = 200 * time.Millisecond
	resetSlow  = 30 // seconds, the longest wait between two tries
	resetFirst = 1  // seconds, the first; each further one is twice as long
)

// resetTable is that queue.
type resetTable struct {
	*environment
	face, url string
	pool      *pgxpool.Pool
}

func newReset(h *environment, face string) system { return &resetTable{environment: h, face: face} }

func (r *resetTable) prepare(ctx context.Context) error {
	var err error
	if r.url, err = r.database(ctx); err != nil {
		return err
	}
	if r.pool, err = pgxpool.New(ctx, r.url); err != nil {
		return err
	}
	if _, err := r.pool.Exec(ctx, resetSchema); err != nil {
		return err
	}
	_, err = r.pool.Exec(ctx, `INSERT INTO orders (subject) SELECT unnest($1::text[])`, r.subjects)
	return err
}

func (r *resetTable) command() *exec.Cmd { return worker("reset", r.work(r.face, r.url)) }

func (r *resetTable) ready(context.Context, string) error { return nil }

func (r *resetTable) atRest(ctx context.Context) (n int, err error) {
	err = r.pool.QueryRow(ctx, `SELECT count(*) FROM orders WHERE status IN ('done', 'failed')`).Scan(&n)
	return n, err
}

func (r *resetTable) verdicts(ctx context.Context) (map[string]tally.Verdict, error) {
	rows, err := r.pool.Query(ctx, `SELECT subject, status FROM orders`)
	if err != nil {
		return nil, err
	}
	out := make(map[string]tally.Verdict)
	var subject, status string
	_, err = pgx.ForEachRow(rows, []any{&subject, &status}, func() error {
		switch status {
		case "done":
			out[subject] = tally.Succeeded
		case "failed":
			out[subject] = tally.Failed
		default:
			out[subject] = tally.Unfinished
		}
		return nil
	})
	return out, err
}

func (r *resetTable) close() error {
	if r.pool != nil {
		r.pool.Close()
	}
	return nil
}

// resetWorker is a worker's process.
type resetWorker struct {
	pool   *pgxpool.Pool
	poster *poster
}

func workReset(ctx context.Context, w work, ready func()) error {
	pool, err := pgxpool.New(ctx, w.Store)
	if err != nil {
		return err
	}
	defer pool.Close()
	r := resetWorker{pool, newPoster(w)}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { cancel(r.reap(ctx)) })
	for range w.Senders {
		all.Go(func() { cancel(r.work(ctx)) })
	}
	ready()
	<-ctx.Done()
	return context.Cause(ctx)
}

// reap returns back the rows of workers that are gone.
func (r resetWorker) reap(ctx context.Context) error {
	for nap(ctx, reapEvery) {
		if _, err := r.pool.Exec(ctx, resetReap, claimTTL.Seconds()); err != nil {
			return err
		}
	}
	return nil
}

// work does one job after the other.
func (r resetWorker) work(ctx context.Context) error {
	for ctx.Err() == nil {
		var id int64
		var subject string
		var tries int
		err := r.pool.QueryRow(ctx, resetClaim).Scan(&id, &subject, &tries)
		if errors.Is(err, pgx.ErrNoRows) {
			nap(ctx, resetIdle)
			continue
		}
		if err != nil {
			return err
		}
		switch failed := r.poster.post(ctx, subject); {
		case failed == nil:
			_, err = r.pool.Exec(ctx, resetDone, id)
		case tries >= maxTries:
			_, err = r.pool.Exec(ctx, resetFail, id)
		default:
			_, err = r.pool.Exec(ctx, resetRetry, id, resetWait(tries))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resetWait is how many seconds the next try waits after so many.
func resetWait(tries int) int { return min(resetFirst<<min(tries-1, 10), resetSlow) }
