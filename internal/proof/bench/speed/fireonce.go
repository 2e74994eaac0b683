//go:build unix

package main

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Fireonce within a process: what the library that another system is could be
// compared with.

func fireonceSubmit(ctx context.Context, t task) (s sample, err error) {
	l, err := openLocal(ctx, t)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	c, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	s, err = t.rate(ctx, 0, func(ctx context.Context, i int) error { return l.create(ctx, c, time.Time{}, i, i+1) })
	if err != nil {
		return nil, err
	}
	return s, l.inState(ctx, job.Scheduled, t.Jobs)
}

// unfinished are the states of which none may be left when all is done.
var unfinished = []job.State{
	job.Scheduled, job.Claimed, job.Sending, job.Accepted, job.Ambiguous, job.Retrying, job.NeedsResolution,
}

// fireonceWork empties a backlog: every job is claimed, armed, sent and settled,
// with an event for each.
func fireonceWork(ctx context.Context, t task) (s sample, err error) {
	l, err := openLocal(ctx, t)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	c, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	err = batches(ctx, t.Loaders, t.Jobs, t.Batch, func(ctx context.Context, from, to int) error {
		return l.create(ctx, c, time.Time{}, from, to)
	})
	if err != nil {
		return nil, err
	}
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	m := t.start(ctx, 0)
	stop, err := l.work(ctx)
	if err != nil {
		return nil, err
	}
	err = l.finished(ctx)
	s = m.stop(ctx, t.Jobs)
	if err = errors.Join(err, stop()); err != nil {
		return nil, err
	}
	return s, l.inState(ctx, job.Succeeded, t.Jobs)
}

// finished waits until all jobs have arrived and none is open.
func (l *local) finished(ctx context.Context) error {
	if err := l.run().Await(ctx, l.Jobs); err != nil {
		return err
	}
	return l.idle(ctx)
}

// idle waits until no job is open.
func (l *local) idle(ctx context.Context) error {
	for {
		page, err := l.store.List(ctx, store.JobQuery{Project: project, States: unfinished, Limit: 1})
		if err != nil || len(page.Jobs) == 0 {
			return err
		}
		if !nap(ctx, glance) {
			return ctx.Err()
		}
	}
}
