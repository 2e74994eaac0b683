//go:build unix

package main

import (
	"context"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
)

// Fireonce as its users meet it: over the network, with a server that also works.

const (
	// callLines is how many connections callers share.
	callLines = 2
	// later is when jobs are due that are only submitted.
	later = time.Hour
)

func networkSubmit(ctx context.Context, t task) (_ sample, err error) {
	s, err := serve(ctx, t, callLines)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	at := time.Now().Add(later)
	out, err := t.rate(ctx, s.process.PID(), func(ctx context.Context, i int) error {
		return s.one(ctx, s.jobs(), i, receiver.Payload(i, at), at)
	})
	if err != nil {
		return nil, err
	}
	return out, s.stored(ctx, t.Jobs)
}

func networkBatch(ctx context.Context, t task) (_ sample, err error) {
	s, err := serve(ctx, t, callLines)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := t.settle(ctx); err != nil {
		return nil, err
	}
	at := time.Now().Add(later)
	out, err := t.bulk(ctx, s.process.PID(), func(ctx context.Context, from, to int) error {
		return s.many(ctx, at, from, to)
	})
	if err != nil {
		return nil, err
	}
	return out, s.stored(ctx, t.Jobs)
}

func networkNow(ctx context.Context, t task) (_ sample, err error) {
	s, err := serve(ctx, t, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return t.now(ctx, func(ctx context.Context, body []byte, n int) error {
		return s.one(ctx, s.jobs(), n, body, time.Time{})
	})
}

func networkHerd(ctx context.Context, t task) (_ sample, err error) {
	s, err := serve(ctx, t, callLines)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return t.herd(ctx, s.many)
}
