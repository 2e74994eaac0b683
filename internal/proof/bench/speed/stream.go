//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1grpc"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/stats"
)

const (
	// streamLines is how many connections the subscribers share: a server bounds
	// the streams of one.
	streamLines = 20
	// streamSettle is how long subscribers have to get what was written.
	streamSettle = 2 * time.Minute
)

// subscriber follows the project's events from its first message on, and comes
// back with its cursor when its stream ends.
type subscriber struct {
	jobs   fireoncev1grpc.JobServiceClient
	cursor string
	// seen are the events by job; an event that comes again after a resume is no
	// fault.
	seen map[string]bool
	lags []time.Duration
	cuts int
	// blocked, while not nil, keeps it from reading.
	blocked <-chan struct{}
}

// networkStream has many subscribers follow while jobs are submitted at a pace,
// and measures from each event's time to its delivery. Then some subscribers stop
// reading while a burst comes: the server may cut them off, and they resume.
func networkStream(ctx context.Context, t task) (_ sample, err error) {
	s, err := serve(ctx, t, streamLines)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	m := t.start(ctx, s.process.PID())
	all, err := s.follow(ctx, t.Streams, t.Events, nil, func(ctx context.Context) error { return s.paced(ctx, t.Events) })
	if err != nil {
		return nil, err
	}
	out := m.stop(ctx, t.Events*t.Streams)
	var lags []time.Duration
	for _, u := range all {
		lags = append(lags, u.lags...)
	}
	out["p50_ms"] = milliseconds(stats.Quantile(lags, 0.5))
	out["p99_ms"] = milliseconds(stats.Quantile(lags, 0.99))
	out["max_ms"] = milliseconds(stats.Quantile(lags, 1))
	if t.Burst == 0 {
		return out, nil
	}
	all, err = s.burst(ctx)
	cuts := 0
	for _, u := range all {
		cuts += u.cuts
	}
	out["cut"] = float64(cuts)
	return out, err
}

// paced submits jobs one by one, so many a second.
func (s *served) paced(ctx context.Context, jobs int) error {
	tick := time.NewTicker(time.Second / time.Duration(s.PerSecond))
	defer tick.Stop()
	at := time.Now().Add(later)
	for i := range jobs {
		if err := s.one(ctx, s.jobs(), i, receiver.Payload(i, at), at); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// burst submits many jobs together, past subscribers, some of which do not read
// until all is written and the server's patience is over.
func (s *served) burst(ctx context.Context) ([]*subscriber, error) {
	const patience = 12 * time.Second // the server's is 10 s for a message
	unblock := make(chan struct{})
	at := time.Now().Add(later)
	return s.follow(ctx, 2*s.Slow, s.Burst, unblock, func(ctx context.Context) error {
		defer close(unblock)
		err := batches(ctx, s.Loaders, s.Burst, s.Batch, func(ctx context.Context, from, to int) error {
			return s.many(ctx, at, s.Events+from, s.Events+to)
		})
		if err == nil && !nap(ctx, patience) {
			err = ctx.Err()
		}
		return err
	})
}

// follow subscribes, has the events written, and waits until every subscriber has
// each of them. Every other one is blocked, if there is something to be blocked by.
func (s *served) follow(ctx context.Context, n, events int, blocked <-chan struct{}, write func(context.Context) error) ([]*subscriber, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([]*subscriber, n)
	var ready, done sync.WaitGroup
	var left atomic.Int64
	ready.Add(n)
	left.Store(int64(n))
	complete := make(chan struct{})
	for i := range all {
		u := &subscriber{jobs: s.jobs(), seen: make(map[string]bool, events)}
		if i%2 == 1 {
			u.blocked = blocked
		}
		all[i] = u
		done.Go(func() {
			err := u.follow(ctx, events, sync.OnceFunc(ready.Done))
			switch {
			case err != nil:
				cancel(fmt.Errorf("a subscriber with %d of %d events: %w", len(u.seen), events, err))
			case left.Add(-1) == 0:
				close(complete)
			}
		})
	}
	ready.Wait()
	err := write(ctx)
	if err == nil {
		select {
		case <-complete:
		case <-time.After(streamSettle):
			err = fmt.Errorf("%d subscribers lack events", left.Load())
		case <-ctx.Done():
		}
	}
	cause := context.Cause(ctx)
	cancel(nil)
	done.Wait()
	return all, errors.Join(err, cause)
}

// follow reads until so many jobs' first events were seen. ready is called when
// it is sure to miss nothing from now on, or when it ends without that.
func (u *subscriber) follow(ctx context.Context, events int, ready func()) error {
	defer ready()
	for {
		err := u.read(ctx, events, ready)
		if err == nil || ctx.Err() != nil || u.cursor == "" {
			return err
		}
		u.cuts++ // and comes back
	}
}

// read is one stream's life.
func (u *subscriber) read(ctx context.Context, events int, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req := &fireoncev1.StreamJobEventsRequest{Start: &fireoncev1.StreamJobEventsRequest_FromNow{FromNow: true}}
	if u.cursor != "" {
		req.Start = &fireoncev1.StreamJobEventsRequest_AfterCursor{AfterCursor: u.cursor}
	}
	stream, err := u.jobs.StreamJobEvents(ctx, req, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	for {
		resp, err := stream.Recv()
		at := time.Now()
		if errors.Is(err, io.EOF) {
			return errors.New("the stream has ended")
		}
		if err != nil {
			return err
		}
		e := resp.GetEvent()
		u.cursor = e.GetCursor()
		ready() // the first message says from where on
		if c := e.GetJobChanged(); c != nil {
			if c.GetSequence() == 1 && !u.seen[c.GetJobId()] {
				u.seen[c.GetJobId()] = true
				u.lags = append(u.lags, at.Sub(e.GetEventTime().AsTime()))
			}
			if len(u.seen) == events {
				return nil
			}
		}
		if u.blocked != nil {
			select {
			case <-u.blocked:
				u.blocked = nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}
